"""Credentials: what the authority says of a client or a server."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from nearcast.errors import ConfigError, TrustError
from nearcast.trust.rights import NOTHING, Rights
from nearcast.trust.signed import Kind, SigningKey

__all__ = [
    "CLIENT_DAYS",
    "CREDENTIAL_BYTES",
    "LONGEST_DAYS",
    "SERVER_DAYS",
    "ClientCredential",
    "Role",
    "ServerCredential",
    "Signs",
    "Validity",
    "issue_client",
    "issue_server",
    "next_serial",
    "read_body",
    "validity",
]

CREDENTIAL_BYTES = 900
"""Most bytes of a signed client credential: it travels in the first datagram."""

CLIENT_DAYS = 365.0
SERVER_DAYS = 730.0
LONGEST_DAYS = 3_650.0
"""For which a credential may count; as long a revocation of an unknown one is kept."""

Role = Literal["edge", "cloud", "manager"]
Signs = Literal["clients", "orders", "revocations"]
"""What a server's signing key is good for: the manager's, mostly."""

_Id = Annotated[str, Meta(min_length=1, max_length=255)]
_Key = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Serial = Annotated[int, Meta(ge=1, le=1 << 62)]
_TimeS = Annotated[int, Meta(ge=0, le=1 << 40)]
T = TypeVar("T")


class Validity(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """When a credential was made and until when it counts; Unix time in whole seconds.

    It counts at once, also where the clock is behind that of the authority.
    """

    issued_s: _TimeS
    until_s: _TimeS


class ClientCredential(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A client: the one that has the private key of `public_key` is it."""

    client: _Id
    public_key: _Key
    """X25519, as in the handshake."""
    serial: _Serial
    """Rises with each credential of this client; a revocation names the least one that counts."""
    validity: Validity
    rights: Rights = NOTHING


class ServerCredential(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A server of the site, or its manager."""

    server: _Id
    role: Role
    public_key: _Key
    """X25519, for links and clients."""
    serial: _Serial
    validity: Validity
    signing_key: Annotated[bytes, Meta(max_length=32)] = b""
    """Ed25519; empty when it signs nothing."""
    signs: tuple[Signs, ...] = ()


def validity(days: float, now_s: float) -> Validity:
    """Return from when to when a credential counts; ConfigError when it is too long."""
    if not 0 < days <= LONGEST_DAYS:
        raise ConfigError(f"a credential counts for up to {LONGEST_DAYS:.0f} days, not {days:g}")
    return Validity(int(now_s), int(now_s + days * 86_400))


def issue_client(key: SigningKey, credential: ClientCredential) -> bytes:
    """Return a signed client credential; TrustError when it is too large for a datagram."""
    data = key.sign(Kind.CLIENT, msgspec.msgpack.encode(credential))
    if len(data) > CREDENTIAL_BYTES:
        raise TrustError(
            f"the credential of client {credential.client!r} has {len(data)} bytes, more than"
            f" {CREDENTIAL_BYTES}: use fewer or shorter topic patterns"
        )
    return data


def issue_server(key: SigningKey, credential: ServerCredential) -> bytes:
    """Return a signed server credential."""
    return key.sign(Kind.SERVER, msgspec.msgpack.encode(credential))


def next_serial(last: int, now_s: float) -> int:
    """Return a serial above the last one of this name.

    Time makes those of two issuers rise as well: of the manager and of the authority itself.
    """
    return max(last + 1, int(now_s * 1e6))


def read_body(body: bytes, kind: type[T]) -> T:
    """Return the content of a document; TrustError when it is malformed."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise TrustError(f"{kind.__name__}: {error}") from None
