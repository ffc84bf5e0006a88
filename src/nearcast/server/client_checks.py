"""Checks of a client's id and key when it is enrolled."""

from __future__ import annotations

from nearcast.errors import ConfigError
from nearcast.trust.flow_publishers import is_flow_publisher
from nearcast.wire.areas import is_place
from nearcast.wire.noise import KEY_BYTES

__all__ = ["check_client"]

_LONGEST_ID_BYTES = 255


def check_client(
    client: str, public_key: bytes, place_km: tuple[float, float] | None = None
) -> None:
    """Raise ConfigError when a client cannot have such a name, key or place."""
    if not 0 < len(client.encode()) <= _LONGEST_ID_BYTES:
        raise ConfigError(f"a client's id has 1 to {_LONGEST_ID_BYTES} bytes: {client[:40]!r}")
    if is_flow_publisher(client):
        raise ConfigError(f"client {client!r}: ids of this form are for the components of flows")
    if len(public_key) != KEY_BYTES:
        raise ConfigError(
            f"the public key of client {client!r} has {len(public_key)} bytes, not {KEY_BYTES}"
        )
    if place_km is not None and not is_place(*place_km):
        raise ConfigError(f"the place of client {client!r} is not finite, or too far away")
