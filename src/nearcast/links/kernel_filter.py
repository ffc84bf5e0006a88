"""Small programs that the kernel runs on datagrams before any buffer takes them (Linux only)."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Collection, Sequence
from itertools import chain
from struct import Struct

from nearcast.wire.framing import FirstWord

__all__ = ["drop_indices", "sort_by_first_word"]

# Linux; the socket module has no names for them
_SO_ATTACH_FILTER, _SO_DETACH_FILTER, _SO_ATTACH_REUSEPORT_CBPF = 26, 27, 51
_INDEX_OFFSET = 8 + 2
"""Of the session index, behind the UDP header and two bytes of ours."""
_MOST_DROPPED = 128  # jumps reach no further than 255 instructions
_INSTRUCTION = Struct("@HBBI")
_PROGRAM = Struct("@HP")
# opcodes of classic BPF; a load beyond the datagram's end ends the program with 0
_WHOLE = 0xFFFF_FFFF
_LOAD_WORD, _AND, _JUMP_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06


def sort_by_first_word(sock: socket.socket, words: Sequence[FirstWord]) -> None:
    """Sort what the sockets of a shared port get, in the order in which they were bound.

    The second one gets what begins like the first of the words, which have the same mask, the
    next one what begins like the next word, and the first socket all else.

    Raises
    ------
    OSError
        When the kernel cannot.
    """
    _attach(
        sock,
        _SO_ATTACH_REUSEPORT_CBPF,
        (_LOAD_WORD, 0, 0, 0),
        (_AND, 0, 0, words[0].mask),
        *chain.from_iterable(
            ((_JUMP_EQUAL, 0, 1, word.value), (_RETURN, 0, 0, place))
            for place, word in enumerate(words, start=1)
        ),
        (_RETURN, 0, 0, 0),
    )


def drop_indices(sock: socket.socket, indices: Collection[int]) -> None:
    """Have the kernel drop what is sent to these sessions, or to 128 of them, and to no others.

    Raises
    ------
    OSError
        When the kernel cannot.
    """
    dropped = sorted(indices)[:_MOST_DROPPED]
    if not dropped:
        sock.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
        return
    _attach(
        sock,
        _SO_ATTACH_FILTER,
        (_LOAD_WORD, 0, 0, _INDEX_OFFSET),
        *((_JUMP_EQUAL, len(dropped) - at, 0, index) for at, index in enumerate(dropped)),
        (_RETURN, 0, 0, _WHOLE),
        (_RETURN, 0, 0, 0),
    )


def _attach(sock: socket.socket, option: int, *program: tuple[int, int, int, int]) -> None:
    code = b"".join(_INSTRUCTION.pack(*each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    argument = _PROGRAM.pack(len(program), ctypes.addressof(buffer))
    sock.setsockopt(socket.SOL_SOCKET, option, argument)
