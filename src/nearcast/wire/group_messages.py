"""The messages of a session about the multicast group of its server."""

from __future__ import annotations

import msgspec

__all__ = ["GroupKey", "GroupReceived"]


class GroupKey(msgspec.Struct, frozen=True, gc=False):
    """Where the server tells many clients at once, and the keys of what it sends there."""

    host: str
    """IPv4 address of the group."""
    port: int
    key_id: int
    key: bytes
    """AES-256-GCM."""
    verifier: bytes
    """The Ed25519 public key that all datagrams are signed with."""
    slot: int
    """The client in the audiences of datagrams, from the counter `first` on."""
    first: int
    spread_ms: int
    """In which the receipts of all clients are spread; 0: they go with reports."""
    beacon_ms: int
    """How often the server is heard in the group at least."""


class GroupReceived(msgspec.Struct, frozen=True, gc=False):
    """Which datagrams of the group arrived, as Received says it of the session's."""

    key_id: int
    """The last key that the client has; 0: it does not hear the group."""
    highest: int = 0
    bitmap: int = 0
    all_below: int = 0
