"""The outside of a datagram: header, INIT with its two MACs, cookie reply, packing of frames."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from nearcast.errors import WireError
from nearcast.wire.codec import FRAME_LIMIT, Refused
from nearcast.wire.noise import CipherState, NoiseError

__all__ = [
    "HEADER_BYTES",
    "INIT_BYTES",
    "MAC_BYTES",
    "PATIENT_HEADER",
    "PROLOGUE",
    "SEALED_HEADER",
    "SEALED_OVERHEAD",
    "SESSION_HEADERS",
    "SESSION_INDEX",
    "UNKNOWN_BYTES",
    "URGENT_HEADER",
    "FirstWord",
    "Header",
    "InitKeys",
    "Kind",
    "check_credential_fits",
    "check_fits",
    "echoed_part",
    "mac2_of",
    "pack",
    "pad_init_payload",
    "read_header",
    "write_header",
    "write_unknown",
]

PROLOGUE = b"nearcast wire 1"
_VERSION = 1
_HEADER = Struct(">HI")
_QUESTION = Struct(">II")
HEADER_BYTES = _HEADER.size
INIT_BYTES = 256
"""Least size of an INIT; no answer to it is larger."""
MAC_BYTES = 16
SEALED_OVERHEAD = HEADER_BYTES + 8 + 16
"""Header, counter and tag around a sealed payload."""
_INIT_OVERHEAD = HEADER_BYTES + 4 + 32 + 48 + 16 + 2 * MAC_BYTES
_INIT_FIELDS = 64
"""Most bytes of an INIT's fields but the credential, with their frame."""
_NONCE_BYTES = 12


class Kind(IntEnum):
    """What a datagram is; the number is on the wire."""

    INIT = 1
    ACKNOWLEDGE = 2
    COOKIE = 3
    SEALED = 4
    UNKNOWN = 5
    QUESTION = 6
    """Which servers were revoked? From a client that has met the server before."""
    OPINION = 7
    """A page of the signed list, or nothing: the answer to a question."""
    GROUP = 8
    """To all members of the server's multicast group; the receiver is the key's id."""


class Header(NamedTuple):
    """The first bytes of every datagram."""

    kind: Kind
    receiver: int


# A lookup is several times faster than Kind(number); it also refuses unknown versions and a second
# byte that is not the reserved zero.
_KIND_OF_FIRST_BYTES = {_VERSION << 12 | kind << 8: kind for kind in Kind}


SEALED_HEADER = bytes((_VERSION << 4 | Kind.SEALED, 0))
"""How a sealed datagram begins; the session index of its receiver follows."""
URGENT_HEADER = bytes((_VERSION << 4 | Kind.SEALED, 1))
"""The same of one that is marked as urgent: servers read it before others."""
PATIENT_HEADER = bytes((_VERSION << 4 | Kind.SEALED, 2))
"""The same of one that may wait for others: a receipt that had waited already, and nothing else."""
SESSION_HEADERS = (SEALED_HEADER, URGENT_HEADER, PATIENT_HEADER)
SESSION_INDEX = slice(2, 6)
"""Where the index is."""


_UNKNOWN_HEADER = bytes((_VERSION << 4 | Kind.UNKNOWN, 0))
UNKNOWN_BYTES = HEADER_BYTES + 16
"""Size of an UNKNOWN: below that of the least sealed datagram."""
_ECHOED = slice(2, UNKNOWN_BYTES)
"""What an UNKNOWN repeats of the datagram that it answers: session, counter, some sealed bytes."""


class FirstWord(NamedTuple):
    """How the first four bytes of datagrams look: the value of the bits in the mask."""

    value: int
    mask: int


def write_unknown(datagram: bytes) -> bytes:
    """Return the answer to a sealed datagram of a session that the server does not have."""
    return _UNKNOWN_HEADER + datagram[_ECHOED]


def echoed_part(datagram: bytes) -> bytes:
    """Return what a sealed datagram and an UNKNOWN that answers it have in common."""
    return datagram[_ECHOED]


def write_header(header: Header) -> bytes:
    """Return the bytes of a header."""
    return _HEADER.pack(_VERSION << 12 | header.kind << 8, header.receiver)


def read_header(datagram: bytes) -> Header:
    """Return the header; refuses short datagrams, unknown versions and kinds."""
    if len(datagram) < HEADER_BYTES:
        raise Refused("too_short")
    first, receiver = _HEADER.unpack_from(datagram)
    kind = _KIND_OF_FIRST_BYTES.get(first)
    if kind is None:
        raise Refused("unknown_kind")
    return Header(kind, receiver)


def check_credential_fits(credential_bytes: int, datagram_limit: int) -> None:
    """Raise WireError when a credential makes an INIT too large."""
    room = datagram_limit - _INIT_OVERHEAD - _INIT_FIELDS
    if credential_bytes > room:
        raise WireError(f"a credential of {credential_bytes} bytes exceeds the limit of {room}")


def pad_init_payload(payload: bytes, init_bytes: int = INIT_BYTES) -> bytes:
    """Return the payload, padded with zeros to an INIT of this size, the least one there is."""
    return payload.ljust(init_bytes - _INIT_OVERHEAD, b"\0")


def mac2_of(cookie: bytes, covered: bytes) -> bytes:
    """Return the MAC by which an INIT shows that its sender received the cookie."""
    return hashlib.blake2b(covered, key=cookie, digest_size=MAC_BYTES).digest()


class InitKeys:
    """What both sides derive from the server's static public key, for INIT and cookie reply.

    Each sender that knows the public key can compute mac1; it keeps blind senders from making
    the server compute a handshake, no more.
    """

    def __init__(self, server_static: bytes) -> None:
        mac1_key = hashlib.blake2b(b"nearcast mac1" + server_static, digest_size=32).digest()
        self._mac1 = hashlib.blake2b(key=mac1_key, digest_size=MAC_BYTES)
        cookie_key = hashlib.blake2b(b"nearcast cookie" + server_static, digest_size=32).digest()
        self._cookie = CipherState(cookie_key)

    def write_init(
        self, sender: int, noise: bytes, cookie: bytes = b"", *, asks: bool = False
    ) -> bytes:
        """Return an INIT datagram around the first message of the handshake."""
        head = write_header(Header(Kind.INIT, asks)) + sender.to_bytes(4, "big") + noise
        head += self.mac1(head)
        return head + (mac2_of(cookie, head) if cookie else bytes(MAC_BYTES))

    def write_question(self, sender: int, page: int, size_bytes: int) -> bytes:
        """Return a QUESTION of this size: its answer is not larger."""
        head = write_header(Header(Kind.QUESTION, 0)) + _QUESTION.pack(sender, page)
        head = head.ljust(size_bytes - 2 * MAC_BYTES, b"\0")
        return head + self.mac1(head) + bytes(MAC_BYTES)

    def read_question(self, data: bytes) -> tuple[int, int]:
        """Return who asks and for which page; refuses what INITs are refused for, too."""
        self.check_mac1(data)
        sender, page = _QUESTION.unpack_from(data, HEADER_BYTES)
        return sender, page

    def mac1(self, covered: bytes) -> bytes:
        """Return the MAC over all of an INIT that precedes it."""
        mac = self._mac1.copy()
        mac.update(covered)
        return mac.digest()

    def check_mac1(self, init: bytes) -> None:
        """Refuse an INIT that is too short or whose sender does not know the server's key."""
        if len(init) < INIT_BYTES:
            raise Refused("init_too_short")
        mac1 = init[-2 * MAC_BYTES : -MAC_BYTES]
        if not hmac.compare_digest(mac1, self.mac1(init[: -2 * MAC_BYTES])):
            raise Refused("init_mac1")

    def write_cookie(self, init: bytes, cookie: bytes, nonce: bytes) -> bytes:
        """Return the reply that carries a cookie to the sender of an INIT."""
        sender = int.from_bytes(init[HEADER_BYTES : HEADER_BYTES + 4], "big")
        mac1 = init[-2 * MAC_BYTES : -MAC_BYTES]
        sealed = self._cookie.seal(int.from_bytes(nonce, "big"), mac1, cookie)
        return write_header(Header(Kind.COOKIE, sender)) + nonce + sealed

    def read_cookie(self, reply: bytes, mac1: bytes) -> bytes:
        """Return the cookie; refuses replies that do not answer the INIT with this mac1."""
        start = HEADER_BYTES + _NONCE_BYTES
        nonce = int.from_bytes(reply[HEADER_BYTES:start], "big")
        try:
            return self._cookie.open(nonce, mac1, reply[start:])
        except NoiseError:
            raise Refused("cookie_seal") from None


def check_fits(frame_bytes: int, datagram_limit: int) -> None:
    """Raise WireError when a frame of this size fits into no datagram."""
    room = datagram_limit - SEALED_OVERHEAD
    if frame_bytes > room:
        raise WireError(
            f"a message of {frame_bytes} bytes exceeds the limit of {room} bytes; "
            "send less at once or raise datagram_limit on both sides"
        )


def pack(frames: Iterable[bytes], room: int) -> Iterator[list[bytes]]:
    """Group frames, in their order, into payloads of at most `room` bytes and 64 frames."""
    group: list[bytes] = []
    size = 0
    for frame in frames:
        if len(frame) > room:
            raise WireError(f"a message of {len(frame)} bytes exceeds the limit of {room} bytes")
        if group and (size + len(frame) > room or len(group) == FRAME_LIMIT):
            yield group
            group, size = [], 0
        group.append(frame)
        size += len(frame)
    if group:
        yield group
