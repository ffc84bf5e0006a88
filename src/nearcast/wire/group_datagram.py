"""A datagram to a group: sealed with a key that all members have, signed by the server alone.

The seal keeps out who is no member, at little cost; the signature inside it keeps members from
speaking for the server. Both cover the counter, which refuses what is repeated.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from nearcast.wire.codec import Refused
from nearcast.wire.framing import HEADER_BYTES, SEALED_OVERHEAD, Header, Kind, write_header
from nearcast.wire.noise import KEY_BYTES, CipherState
from nearcast.wire.settings import RandomBytes

__all__ = ["GROUP_OVERHEAD", "GroupOpener", "GroupSealer", "counter_of"]

_SIGNATURE_BYTES = 64
_KEY_ID_BYTES = 4
_SIGNED = b"nearcast group 1"
"""Before all that is signed: the key signs nothing else."""
_BODY = HEADER_BYTES + 8
GROUP_OVERHEAD = SEALED_OVERHEAD + _SIGNATURE_BYTES
"""Header, counter, tag and signature around a body."""


class GroupSealer:
    """A key of the server for its group."""

    def __init__(self, signing_key: Ed25519PrivateKey, random_bytes: RandomBytes) -> None:
        self._sign = signing_key.sign
        self.key = random_bytes(KEY_BYTES)
        # 0 says that a client has none
        self.key_id = 1 + int.from_bytes(random_bytes(_KEY_ID_BYTES), "big") % 0xFFFFFFFF
        self._header = write_header(Header(Kind.GROUP, self.key_id))
        self._encrypt = CipherState(self.key).encrypt

    def seal(self, counter: int, body: bytes) -> bytes:
        """Return the datagram of a counter; never two bodies for one."""
        header, nonce = self._header, counter.to_bytes(12, "big")
        signature = self._sign(b"".join((_SIGNED, header, nonce, body)))
        return b"".join((header, nonce[4:], self._encrypt(nonce, signature + body, header)))


class GroupOpener:
    """The same key at a member; ValueError when it is no key."""

    def __init__(self, key: bytes, verifier: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._decrypt = CipherState(key).decrypt
        self._verify = Ed25519PublicKey.from_public_bytes(verifier).verify

    def open(self, datagram: bytes) -> bytes:
        """Return the body; refuses what no member sealed, and what the server did not sign."""
        header, number = datagram[:HEADER_BYTES], datagram[HEADER_BYTES:_BODY]
        nonce = bytes(4) + number
        try:
            opened = self._decrypt(nonce, datagram[_BODY:], header)
        except InvalidTag:
            raise Refused("group_seal") from None
        signature, body = opened[:_SIGNATURE_BYTES], opened[_SIGNATURE_BYTES:]
        try:
            self._verify(signature, b"".join((_SIGNED, header, nonce, body)))
        except InvalidSignature:
            raise Refused("group_signature") from None
        return body


def counter_of(datagram: bytes) -> int:
    """Return the counter of a datagram, before anything of it is known to be true."""
    if len(datagram) < GROUP_OVERHEAD:
        raise Refused("too_short")
    return int.from_bytes(datagram[HEADER_BYTES:_BODY], "big")
