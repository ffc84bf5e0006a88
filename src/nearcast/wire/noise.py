"""Noise_IK_25519_AESGCM_BLAKE2b: the handshake of a session and its two ciphers.

Follows the Noise Protocol Framework, revision 34; the names are those of its section 5. In IK the
initiator knows the responder's static key in advance and sends its own, sealed, at once::

    <- s
    ...
    -> e, es, s, ss
    <- e, ee, se
"""

from __future__ import annotations

import hashlib
import hmac
from copy import copy

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = [
    "KEY_BYTES",
    "TAG_BYTES",
    "CipherState",
    "InitiatorHandshake",
    "NoiseError",
    "ResponderHandshake",
    "public_key",
]

KEY_BYTES = 32
TAG_BYTES = 16
_STATIC_END = KEY_BYTES + KEY_BYTES + TAG_BYTES
"""Where the sealed static key of message 1 ends."""
_HASH_BYTES = 64
_PROTOCOL_NAME = b"Noise_IK_25519_AESGCM_BLAKE2b"


class NoiseError(Exception):
    """A message was not sealed by the other side, or is too short; it has no effect."""


def public_key(private_key: bytes) -> bytes:
    """Return the X25519 public key that belongs to a private one."""
    return X25519PrivateKey.from_private_bytes(private_key).public_key().public_bytes_raw()


class CipherState:
    """One direction of a session: AES-256-GCM with a 64-bit counter as nonce."""

    __slots__ = ("decrypt", "encrypt")

    def __init__(self, key: bytes) -> None:
        aead = AESGCM(key)
        self.encrypt = aead.encrypt
        """Nonce of 12 bytes, plaintext, associated data: for those who count themselves."""
        self.decrypt = aead.decrypt

    def seal(self, counter: int, associated: bytes, plaintext: bytes) -> bytes:
        """Return ciphertext and tag. The caller never uses a counter twice."""
        return self.encrypt(counter.to_bytes(12, "big"), plaintext, associated)

    def open(self, counter: int, associated: bytes, ciphertext: bytes) -> bytes:
        """Return the plaintext; NoiseError when any bit differs from what was sealed."""
        try:
            return self.decrypt(counter.to_bytes(12, "big"), ciphertext, associated)
        except InvalidTag:
            raise NoiseError("the seal does not match") from None


class _SymmetricState:
    """Chaining key, running hash of the handshake, and the cipher of the moment."""

    def __init__(self, prologue: bytes, responder_static: bytes) -> None:
        self.hash = _PROTOCOL_NAME.ljust(_HASH_BYTES, b"\0")
        self._chaining_key = self.hash
        self._cipher: CipherState | None = None
        self._counter = 0
        self.mix_hash(prologue)
        self.mix_hash(responder_static)

    def mix_hash(self, data: bytes) -> None:
        self.hash = hashlib.blake2b(self.hash + data).digest()

    def mix_key(self, private: X25519PrivateKey, public: bytes) -> None:
        """Mix the Diffie-Hellman result of one private and one public key into the keys."""
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:  # a point of low order, which would make the result public
            raise NoiseError("the public key is not usable") from None
        self._chaining_key, key = self._derive(shared)
        self._cipher, self._counter = CipherState(key[:KEY_BYTES]), 0

    def encrypt_and_hash(self, plaintext: bytes) -> bytes:
        ciphertext = self._keyed().seal(self._counter, self.hash, plaintext)
        self._counter += 1
        self.mix_hash(ciphertext)
        return ciphertext

    def decrypt_and_hash(self, ciphertext: bytes) -> bytes:
        plaintext = self._keyed().open(self._counter, self.hash, ciphertext)
        self._counter += 1
        self.mix_hash(ciphertext)
        return plaintext

    def split(self) -> tuple[CipherState, CipherState]:
        """Return the ciphers from initiator to responder and back."""
        forth, back = self._derive(b"")
        return CipherState(forth[:KEY_BYTES]), CipherState(back[:KEY_BYTES])

    def _keyed(self) -> CipherState:
        assert self._cipher is not None  # IK mixes a key before it first seals
        return self._cipher

    def _derive(self, material: bytes) -> tuple[bytes, bytes]:
        """HKDF with two outputs, section 4.3."""
        secret = hmac.digest(self._chaining_key, material, "blake2b")
        first = hmac.digest(secret, b"\x01", "blake2b")
        return first, hmac.digest(secret, first + b"\x02", "blake2b")


class InitiatorHandshake:
    """The client's side; one object per attempt, with a fresh ephemeral key."""

    def __init__(
        self, *, static: bytes, ephemeral: bytes, responder_static: bytes, prologue: bytes
    ) -> None:
        self._static = X25519PrivateKey.from_private_bytes(static)
        self._ephemeral = X25519PrivateKey.from_private_bytes(ephemeral)
        self._responder_static = responder_static
        self._state = _SymmetricState(prologue, responder_static)

    def write_first(self, payload: bytes) -> bytes:
        """Return message 1: e, es, s, ss, payload."""
        ephemeral = self._ephemeral.public_key().public_bytes_raw()
        state = self._state
        state.mix_hash(ephemeral)
        state.mix_key(self._ephemeral, self._responder_static)
        static = state.encrypt_and_hash(self._static.public_key().public_bytes_raw())
        state.mix_key(self._static, self._responder_static)
        return ephemeral + static + state.encrypt_and_hash(payload)

    def read_second(self, message: bytes) -> bytes:
        """Return the payload of message 2: e, ee, se, payload. A forgery changes nothing."""
        if len(message) < KEY_BYTES + TAG_BYTES:
            raise NoiseError("message 2 is too short")
        ephemeral = message[:KEY_BYTES]
        state = copy(self._state)
        state.mix_hash(ephemeral)
        state.mix_key(self._ephemeral, ephemeral)
        state.mix_key(self._static, ephemeral)
        payload = state.decrypt_and_hash(message[KEY_BYTES:])
        self._state = state
        return payload

    def split(self) -> tuple[CipherState, CipherState]:
        """Return the ciphers to send and to receive with, after message 2."""
        return self._state.split()


class ResponderHandshake:
    """The server's side; one object per message 1."""

    def __init__(self, *, static: bytes, prologue: bytes) -> None:
        self._static = X25519PrivateKey.from_private_bytes(static)
        self._state = _SymmetricState(prologue, self._static.public_key().public_bytes_raw())
        self.initiator_ephemeral = b""
        """The key that the initiator made for this handshake alone."""
        self.initiator_static = b""
        """Who the initiator says it is; proved once message 1 has been read."""

    def read_first(self, message: bytes) -> bytes:
        """Return the payload of message 1."""
        self.read_static(message)
        return self.read_payload(message)

    def read_static(self, message: bytes) -> None:
        """Read who the initiator says it is: half the cost of message 1, and no proof."""
        if len(message) < _STATIC_END + TAG_BYTES:
            raise NoiseError("message 1 is too short")
        self.initiator_ephemeral = message[:KEY_BYTES]
        state = self._state
        state.mix_hash(self.initiator_ephemeral)
        state.mix_key(self._static, self.initiator_ephemeral)
        self.initiator_static = state.decrypt_and_hash(message[KEY_BYTES:_STATIC_END])

    def read_payload(self, message: bytes) -> bytes:
        """Return the payload after `read_static`: who could seal it has the initiator's key."""
        self._state.mix_key(self._static, self.initiator_static)
        return self._state.decrypt_and_hash(message[_STATIC_END:])

    def write_second(self, payload: bytes, *, ephemeral: bytes) -> bytes:
        """Return message 2."""
        private = X25519PrivateKey.from_private_bytes(ephemeral)
        public = private.public_key().public_bytes_raw()
        state = self._state
        state.mix_hash(public)
        state.mix_key(private, self.initiator_ephemeral)
        state.mix_key(private, self.initiator_static)
        return public + state.encrypt_and_hash(payload)

    def split(self) -> tuple[CipherState, CipherState]:
        """Return the ciphers to send and to receive with, after message 2."""
        to_responder, to_initiator = self._state.split()
        return to_initiator, to_responder
