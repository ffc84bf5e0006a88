"""What servers say to each other for the overlay, and for the directory on it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from nearcast.server.broker_messages import MeshStruct

__all__ = [
    "NAMES_AT_ONCE",
    "OVERLAY_BYTES",
    "DirectoryClaim",
    "DirectoryClaims",
    "DirectoryWanted",
    "OverlayFrame",
    "RingMessage",
]

OVERLAY_BYTES = 64 << 10
"""Of one message; those of honest servers have a few hundred."""
NAMES_AT_ONCE = 1_000
_Name = Annotated[str, Meta(max_length=1_100)]
"""Of a client or a topic, which have 1,024 bytes at most: thousands are kept of each server."""
_CLAIMERS = 16


class OverlayFrame(MeshStruct, frozen=True):
    """A server's overlay to another one's: a message of `overlay.messages`, encoded."""

    data: Annotated[bytes, Meta(max_length=OVERLAY_BYTES)]


class DirectoryClaim(MeshStruct, frozen=True):
    """To the server responsible for the hashes of names.

    These clients are at home at the sender, or these topics have a broker there.
    """

    names: Annotated[tuple[_Name, ...], Meta(max_length=NAMES_AT_ONCE)]


class DirectoryWanted(MeshStruct, frozen=True):
    """To the server responsible for the hash of a name: tell who claims to have it."""

    name: _Name


class DirectoryClaims(MeshStruct, frozen=True):
    """Answer to DirectoryWanted: the servers that claim to be its home, or brokers of it."""

    name: _Name
    servers: Annotated[tuple[str, ...], Meta(max_length=_CLAIMERS)]


RingMessage = OverlayFrame | DirectoryClaim | DirectoryWanted | DirectoryClaims
