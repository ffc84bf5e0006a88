"""Signed documents: bytes, the signature over them, and which key made it.

The signature covers what kind of document it is, so that none can be shown as another.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta

from nearcast.errors import TrustError

__all__ = ["SEED_BYTES", "Kind", "SignedDocument", "SigningKey", "key_id", "read_signed", "verify"]

SEED_BYTES = 32
"""Of a signing key."""
_KEY_ID_BYTES = 8


class Kind:
    """Kinds of documents."""

    CLIENT = "client"
    SERVER = "server"
    REVOCATIONS = "revocations"
    REVOKED_SERVERS = "revoked servers"
    ORDERS = "orders"
    PLANE = "plane"


class SignedDocument(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A document as it travels; MessagePack."""

    body: bytes
    signer: Annotated[bytes, Meta(min_length=_KEY_ID_BYTES, max_length=_KEY_ID_BYTES)]
    """First bytes of the public key that signed it."""
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]


_decoder = msgspec.msgpack.Decoder(SignedDocument)


class SigningKey:
    """An Ed25519 key of the authority, or of one that it lets sign.

    Parameters
    ----------
    seed
        32 bytes that nobody can guess; they are the private key.
    """

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise TrustError(f"a signing key has {SEED_BYTES} bytes, not {len(seed)}")
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_key = self._key.public_key().public_bytes_raw()

    def sign(self, kind: str, body: bytes) -> bytes:
        """Return the signed document."""
        signature = self._key.sign(_covered(kind, body))
        return msgspec.msgpack.encode(SignedDocument(body, key_id(self.public_key), signature))


def key_id(public_key: bytes) -> bytes:
    """Return the bytes that name a public key."""
    return public_key[:_KEY_ID_BYTES]


def read_signed(data: bytes) -> SignedDocument:
    """Return a document whose signature nobody has checked; TrustError when it is none."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TrustError(f"not a signed document: {error}") from None


def verify(document: SignedDocument, kind: str, public_key: bytes) -> bool:
    """Tell whether a key signed a document of this kind."""
    try:
        _public(public_key).verify(document.signature, _covered(kind, document.body))
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(64)
def _public(public_key: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public_key)


def _covered(kind: str, body: bytes) -> bytes:
    return b"".join((b"nearcast ", kind.encode(), b" 1\0", body))
