"""Proof of a client to a third server that it is at its home.

The tag is made under the secret that the static keys of the client and of that server give, so
nobody else can make it or check it. It says which home is meant and answers a nonce of the server
that wants to know: neither a home that the client has left nor one that it never had can show it.
"""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from nearcast.wire.codec import Refused
from nearcast.wire.messages import Proof, Prove
from nearcast.wire.noise import public_key

__all__ = ["NONCE_BYTES", "Prover", "is_proved"]

NONCE_BYTES = 16
_TAG_BYTES = 16
_PURPOSE = b"nearcast home 1"
_AT_ONCE = 64
_PER_S = 20.0
"""Proofs of one client: each costs it a product of keys, and the one that asks nothing."""


class Prover:
    """The client's side."""

    def __init__(self, private_key: bytes) -> None:
        self._private_key = private_key
        self._credit, self._since = float(_AT_ONCE), float("-inf")

    def answer(self, question: Prove, home_key: bytes, now: float) -> Proof:
        """Return the proof that the owner of a key is the client's home; Refused if too many."""
        earned = max(0.0, now - self._since) * _PER_S
        self._credit, self._since = min(float(_AT_ONCE), self._credit + earned), now
        if self._credit < 1.0:
            raise Refused("too_many_questions")
        self._credit -= 1.0
        asker, nonce = question.server_key, question.nonce
        try:
            secret = _secret(self._private_key, asker)
        except ValueError:
            raise Refused("unusable_server") from None
        tag = _tag(secret, public_key(self._private_key), asker, home_key, nonce)
        return Proof(asker, nonce, tag)


def is_proved(
    private_key: bytes, client_key: bytes, home_key: bytes, nonce: bytes, tag: bytes
) -> bool:
    """Tell whether a client proves to the owner of a private key that it is at a home."""
    try:
        secret = _secret(private_key, client_key)
    except ValueError:
        return False
    expected = _tag(secret, client_key, public_key(private_key), home_key, nonce)
    return hmac.compare_digest(expected, tag)


def _secret(private_key: bytes, other_key: bytes) -> bytes:
    own = X25519PrivateKey.from_private_bytes(private_key)
    return own.exchange(X25519PublicKey.from_public_bytes(other_key))


def _tag(secret: bytes, client_key: bytes, asker: bytes, home_key: bytes, nonce: bytes) -> bytes:
    said = b"".join((client_key, asker, home_key, nonce))
    return hashlib.blake2b(said, key=secret, digest_size=_TAG_BYTES, person=_PURPOSE).digest()
