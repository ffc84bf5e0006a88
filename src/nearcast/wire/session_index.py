"""The first bits of session indices: the same for all sessions of a server, and hard to guess.

By them the kernel tells datagrams of sessions from those of strangers. They are no proof: who has
seen a session's datagram knows them.
"""

from __future__ import annotations

import hashlib

from nearcast.wire.framing import SEALED_HEADER, FirstWord

__all__ = ["first_word", "index_prefix", "with_prefix"]

_PREFIX_BITS = 12  # the rest numbers twice as many sessions as a server may have
_REST_BITS = 32 - _PREFIX_BITS


def index_prefix(static_key: bytes) -> int:
    """Return the first bits of all indices: still the same when the server starts again."""
    digest = hashlib.blake2b(b"nearcast index", key=static_key, digest_size=4).digest()
    return int.from_bytes(digest, "big") >> _REST_BITS


def with_prefix(number: int, prefix: int) -> int:
    """Return a number of 32 bits with other first bits."""
    return prefix << _REST_BITS | number & (1 << _REST_BITS) - 1


def first_word(static_key: bytes, mark: bytes = SEALED_HEADER) -> FirstWord:
    """Return how all datagrams of a server's sessions begin that have this one of the headers."""
    header, shift = int.from_bytes(mark, "big"), 16 - _PREFIX_BITS
    value = (header << _PREFIX_BITS | index_prefix(static_key)) << shift
    return FirstWord(value, 0xFFFF_FFFF << shift & 0xFFFF_FFFF)
