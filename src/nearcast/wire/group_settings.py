"""How an edge server tells many clients at once: by IP multicast, in a group of its own."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from nearcast.errors import ConfigError
from nearcast.trust.topic_pattern import check_pattern
from nearcast.wire.settings import Address

__all__ = ["GroupSettings", "check_group"]

_LEAST_PORT = 1_024


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The multicast group of an edge server; ValueError says what cannot be."""

    address: str
    """IPv4, such as 239.192.7.1; servers that share one hear each other's datagrams in vain."""
    port: int
    interface: str = ""
    """The address of this machine to send from; empty: the one that clients send to, or if that is
    0.0.0.0 what the system chooses."""
    ttl: int = 1
    """Routers that datagrams may pass, and one: 1 stays in the local network."""
    least_receivers: int = 16
    """Fewer are told one by one."""
    topics: tuple[str, ...] = ("#",)
    """Patterns of topics that are told by group. Only clients that may subscribe to all of them
    are given the keys."""
    rotation_s: float = 600.0
    """How often the key changes; it also does when a client that has it is revoked."""
    receipts_per_s: float = 200.0
    """Datagrams by which clients confirm what they heard, of all together: the more clients, the
    later each of them does, and beyond half a report interval with its reports only."""
    beacon_s: float = 2.0
    """How often the group is told at least that the server is there."""

    def __post_init__(self) -> None:
        check_group((self.address, self.port))
        if self.interface:
            try:
                IPv4Address(self.interface)
            except AddressValueError:
                raise ValueError(f"interface {self.interface!r} is no IPv4 address") from None
        if not 0 <= self.ttl <= 255:
            raise ValueError("ttl must lie between 0 and 255")
        if self.least_receivers < 1:
            raise ValueError("least_receivers must be at least 1")
        if not self.topics:
            raise ValueError("topics must name at least one pattern")
        for pattern in self.topics:
            try:
                check_pattern(pattern)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        for name in ("rotation_s", "receipts_per_s", "beacon_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")


def check_group(group: Address) -> None:
    """Raise ValueError when a group's address or port cannot be used."""
    host, port = group
    try:
        is_group = IPv4Address(host).is_multicast
    except AddressValueError:
        is_group = False
    if not is_group:
        raise ValueError(f"address {host!r} is no IPv4 multicast address, such as 239.192.7.1")
    if not _LEAST_PORT <= port <= 65_535:
        raise ValueError(f"port {port} must lie between {_LEAST_PORT} and 65535")
