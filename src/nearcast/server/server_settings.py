"""The settings of a server of a site, edge or cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nearcast.broker.guard import GuardSettings
from nearcast.broker.registry import SHIPPED
from nearcast.errors import ConfigError
from nearcast.flow.load_loop import LoadSettings
from nearcast.routing.keys import CLOUD, NetPath
from nearcast.server.stream_targets import Capacity
from nearcast.wire.group_settings import GroupSettings
from nearcast.wire.limits import BROKER_ID_BYTES
from nearcast.wire.message_class import MESSAGE_CLASSES, MessageClass
from nearcast.wire.settings import RandomBytes, WireSettings

__all__ = ["ClientAccess", "EdgeSettings", "ServerSettings"]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """A server of a site."""

    server: str
    manager: str = "manager"
    capacity: Capacity = field(default_factory=Capacity)
    default_spool: int = 100
    """Spool of a topic that the orders do not name."""
    flow_spool: int = 4_096
    """The same of one that a component of a flow makes: as many as an outbox holds."""
    inline_processors: frozenset[str] = SHIPPED
    """Processors that run in the server itself; others run outside and cannot stop it."""
    allowed_processors: frozenset[str] | None = frozenset()
    """Processors that orders may name, besides the shipped ones; None: any, for a server that
    gives itself its orders."""
    hung_processors: frozenset[str] = frozenset()
    """Processors that have hung this server: it does not run them itself any more."""
    net: NetPath = CLOUD
    """The network that it is in, for flows."""
    flow_load: LoadSettings = field(default_factory=LoadSettings)
    """When it gives parts of flows away, takes them, or returns them."""
    guard: GuardSettings = field(default_factory=GuardSettings)
    retry_after_s: float = 0.2
    """When publishers that were told to wait try again."""
    topic_limit: int = 10_000
    """Most topics here; those that orders name come in addition."""
    topic_idle_s: float = 86_400.0
    """When a topic is given up that no orders name, nobody subscribes to and nobody publishes to."""
    stream_limit: int = 20_000
    """Most publishers of a topic here."""
    stream_idle_s: float = 86_400.0
    """How long a publisher is remembered that sends nothing, where there are many."""
    vouched_limit: int = 20_000
    """Most clients of other servers whose credentials are remembered."""
    table_factor: float = 1.0
    """How large the tables that clients and other servers can fill may be, see `Tables`."""
    report_interval_s: float = 2.0
    """How often the manager hears of the load."""
    takeover_s: float = 3.0
    """How long another server takes nothing before its streams are processed without it."""
    commit_age_s: float = 1.0
    """Publishers are told to wait when groups have waited longer than this to be written."""
    copy_age_s: float = 10.0
    """Copies of other brokers are not taken, but asked for later, when groups wait longer; from
    then on urgent messages wait, too."""
    classes: Mapping[str, MessageClass] = field(default_factory=lambda: MESSAGE_CLASSES)
    """Message classes by name."""
    inform_s: float = 1.0
    """How long a server that starts waits to hear all subscribers before it processes."""

    def __post_init__(self) -> None:
        if len(self.server.encode()) > BROKER_ID_BYTES:
            raise ConfigError(f"a server's id has at most {BROKER_ID_BYTES} bytes: {self.server!r}")

    def unordered_spool(self, is_made_by_flow: bool) -> int:
        """Return the spool of a topic that the orders do not name."""
        # what components make comes in bursts, as many as were held for a server that is back
        return max(self.default_spool, self.flow_spool * is_made_by_flow)


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """What a server with clients has besides."""

    queue_patience_s: float = 0.1
    """A queue that is gone sooner was a hiccup: to turn publishers away would cost more."""
    queue_age_s: float = 0.05
    """Publishers are told to wait when datagrams have waited longer than this."""
    prune_interval_s: float = 1.0
    least_move_km: float = 0.001
    """Brokers are told of a subscriber's place when it moved further."""
    patterns_per_client: int = 64
    """Subscriptions with wildcards that a client may have."""
    grace_s: float = 3.0
    """How long a client may take from one home or session to the next."""
    broker_answers_s: float = 5.0
    """Time without an answer after which a subscription is confirmed without that broker."""
    server_answers_s: float = 1.0
    """The same for a server that does not manage the topic, but could have to."""


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """What a server needs to have clients."""

    random_bytes: RandomBytes
    """Source of keys and session indices."""
    wire: WireSettings | None = None
    edge: EdgeSettings | None = None
    group: GroupSettings | None = None
    """Where many clients are told at once; None: each is told in its session."""
