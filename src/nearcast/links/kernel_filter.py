"""Small programs that the kernel runs on datagrams before any buffer takes them (Linux only)."""

from __future__ import annotations

import ctypes
import socket
from struct import Struct

from nearcast.wire.framing import FirstWord

__all__ = ["sort_by_first_word"]

_SO_ATTACH_REUSEPORT_CBPF = 51  # Linux; the socket module has no name for it
_INSTRUCTION = Struct("@HBBI")
_PROGRAM = Struct("@HP")
# opcodes of classic BPF; a load beyond the datagram's end ends the program with 0
_LOAD_WORD, _AND, _JUMP_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06


def sort_by_first_word(sock: socket.socket, known: FirstWord) -> None:
    """Have the second socket of a shared port get what begins so, and the first all else.

    Raises
    ------
    OSError
        When the kernel cannot.
    """
    _attach(
        sock,
        _SO_ATTACH_REUSEPORT_CBPF,
        (_LOAD_WORD, 0, 0, 0),
        (_AND, 0, 0, known.mask),
        (_JUMP_EQUAL, 0, 1, known.value),
        (_RETURN, 0, 0, 1),
        (_RETURN, 0, 0, 0),
    )


def _attach(sock: socket.socket, option: int, *program: tuple[int, int, int, int]) -> None:
    code = b"".join(_INSTRUCTION.pack(*each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    argument = _PROGRAM.pack(len(program), ctypes.addressof(buffer))
    sock.setsockopt(socket.SOL_SOCKET, option, argument)
