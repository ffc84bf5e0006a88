"""What a server begins to trust when it starts: the authority, itself, and its manager."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nearcast.errors import ConfigError, TrustError
from nearcast.links.mesh import PeerAddress
from nearcast.runtime.config import ManagerConfig, ServerConfig, split_host_port
from nearcast.runtime.config_files import read_key_file
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.credentials import ServerCredential
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.noise import public_key

__all__ = ["StartingTrust", "checked_servers", "open_trust", "read_credential"]


@dataclass(frozen=True, slots=True)
class StartingTrust:
    """Documents of a server, found right."""

    trust: SiteTrust
    own: ServerCredential
    manager: PeerAddress | None
    """Where the manager is; None for the manager itself, and for a server on its own."""
    manager_credential: ServerCredential | None = None


def read_credential(path: Path) -> bytes:
    """Return the signed credential that a file holds as hex digits; ConfigError if there is none."""
    try:
        return bytes.fromhex(path.read_text(encoding="ascii"))
    except OSError as error:
        raise ConfigError(f"credential {path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"credential {path}: must hold hex digits, and nothing else") from None


def open_trust(config: ServerConfig | ManagerConfig, now_s: float) -> StartingTrust:
    """Check a server's own documents and its manager's.

    Raises
    ------
    ConfigError
        When one of them does not count, or is of another server.
    """
    trust = SiteTrust(bytes.fromhex(config.authority))
    document = read_credential(config.credential_file)
    try:
        own = trust.add_signer(document, now_s) if isinstance(config, ManagerConfig) else None
        own = own or trust.server(document, now_s)
    except TrustError as error:
        raise ConfigError(f"credential {config.credential_file}: {error}") from None
    role = "edge" if config.role == "standalone" else config.role
    if (own.server, own.role) != (config.id, role):
        raise ConfigError(
            f"credential {config.credential_file}: is of {own.role} {own.server!r}, not of {role}"
            f" {config.id!r}"
        )
    if own.public_key != public_key(read_key_file(config.key_file)):
        raise ConfigError(f"key file {config.key_file}: is not the key of the server's credential")
    entry = config.mesh.manager if config.mesh is not None else None
    if entry is None:
        return StartingTrust(trust, own, None)
    try:
        manager = trust.add_signer(bytes.fromhex(entry.credential), now_s)
    except TrustError as error:
        raise ConfigError(f"mesh.manager.credential: {error}") from None
    if manager.role != "manager":
        raise ConfigError(f"mesh.manager.credential: is of {manager.role} {manager.server!r}")
    address = split_host_port(entry.address)
    peer = PeerAddress(manager.server, *address, manager.public_key)
    return StartingTrust(trust, own, peer, manager)


def checked_servers(
    trust: SiteTrust, orders: Iterable[ServerOrder], now_s: float
) -> tuple[list[ServerOrder], list[str]]:
    """Return the servers whose credentials count, and what is wrong with others."""
    found, problems = [], []
    for order in orders:
        try:
            credential = trust.server(order.credential, now_s)
        except TrustError as error:
            problems.append(f"server {order.server!r}: {error}")
            continue
        if (credential.server, credential.public_key) != (order.server, order.public_key):
            problems.append(f"server {order.server!r}: the credential is of another one")
        else:
            found.append(order)
    return found, problems
