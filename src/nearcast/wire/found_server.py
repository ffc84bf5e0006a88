"""A server that somebody says is there: an address, and maybe what an authority signed about it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MOST_FOUND", "SERVICE", "FoundServer", "site_name"]

SERVICE = "_nearcast._udp"
"""What edge servers are called in DNS and by multicast."""
MOST_FOUND = 16
"""More servers are not looked at."""
_SITE_DIGITS = 16


class FoundServer(NamedTuple):
    """Nothing of it is believed before the client has checked it."""

    host: str
    port: int
    credential: bytes = b""
    """Signed; empty: only the address was told."""


def site_name(authority: bytes) -> str:
    """Return what servers of a site are told apart by when they answer: it proves nothing."""
    return authority.hex()[:_SITE_DIGITS]
