"""What the manager tells a server: who is there, who manages what, whose home is where.

A server keeps the last orders on its disk and goes on by them while the manager is away.
"""

from __future__ import annotations

from typing import Any

import msgspec

from nearcast.flow.flow_orders import FlowOrder
from nearcast.server.processor_rules import Acknowledge, ProcessorRule

__all__ = ["ClientOrder", "CoverageOrder", "Orders", "ServerOrder", "TopicOrder"]


class ServerOrder(msgspec.Struct, frozen=True):
    """A server of the site, as clients and other servers find it."""

    server: str
    host: str
    """Where its clients send datagrams; empty for the cloud server."""
    port: int
    public_key: bytes
    """Its static X25519 key, for clients and other servers."""
    mesh_host: str = ""
    """Where other servers connect to."""
    mesh_port: int = 0
    credential: bytes = b""
    """Signed by the authority: says the same of its key, and what it may be."""


class TopicOrder(msgspec.Struct, frozen=True):
    """How a topic is managed."""

    topic: str
    spool: int
    """Messages that its spool keeps."""
    brokers: tuple[str, ...]
    """Servers that manage it, the cloud server among them if anything is delegated to it."""
    processor: str = ""
    """What its brokers do with messages; empty: what the rules of the orders say."""
    options: dict[str, Any] = {}
    notify_after_sync: bool = False
    spool_bytes: int | None = None
    version: int = 0
    """The plan in which its brokers or the targets of its streams last changed."""
    moved_from: tuple[str, ...] = ()
    """Its brokers in all plans before that which are none now."""
    acknowledge: Acknowledge = "one"


class ClientOrder(msgspec.Struct, frozen=True):
    """A client that may connect, and where."""

    client: str
    home: str
    publish: dict[str, str] = {}
    """Servers that process its messages, by topic, for all that the plan knows: its home, the
    cloud server for what is delegated, or another edge server."""


class CoverageOrder(msgspec.Struct, frozen=True):
    """Which place each edge server covers: clients have their home where they are."""

    places: dict[str, tuple[float, float]]
    """Of edge servers, in km; each covers what is nearest to it."""
    areas: dict[str, str] = {}
    """Polygons of those that cover something else, as text."""


class Orders(msgspec.Struct, frozen=True):
    """All that one server needs to know; a higher revision replaces a lower one."""

    revision: int
    """Rises with every change: of the plan, of the servers, of the enrolled clients."""
    plan_version: int
    cloud: str
    """The id of the cloud server."""
    servers: tuple[ServerOrder, ...]
    topics: tuple[TopicOrder, ...]
    clients: tuple[ClientOrder, ...]
    """Those whose home it is, and those that publish here; any other one is a guest."""
    processors: tuple[ProcessorRule, ...] = ()
    """What brokers do with the messages of topics, those without orders included."""
    server: str = ""
    """Whom they are for."""
    moved: dict[str, str] = {}
    """Homes of the clients that left this server in the last plan."""
    issued_s: int = 0
    """When they were signed; Unix time by the manager's clock."""
    revocations: bytes = b""
    """The signed list of what no longer counts; empty while there is none."""
    revoked_servers: tuple[bytes, ...] = ()
    """The servers in it, in signed pages for clients."""
    flows: tuple[FlowOrder, ...] = ()
    """The flows that run on the site."""
    coverage: CoverageOrder | None = None
    """None: homes are those of the plan, wherever clients are."""
