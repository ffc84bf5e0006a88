"""What a server is told when it starts: one TOML file, in which unknown keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from nearcast.broker.guard import GuardSettings
from nearcast.domain.plan_kinds import Model
from nearcast.errors import ConfigError
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.routing.keys import CLOUD, NetPath, net_path
from nearcast.server.enrolment import EnrolmentRules
from nearcast.server.processor_rules import ProcessorRule
from nearcast.trust.rights import Rights
from nearcast.trust.topic_pattern import check_pattern
from nearcast.wire.group_settings import GroupSettings
from nearcast.wire.message_class import MessageClass, with_classes
from nearcast.wire.settings import WireSettings

__all__ = [
    "ONE_ADDRESS",
    "BusyConfig",
    "ClientsConfig",
    "EmulationConfig",
    "EnrolmentConfig",
    "FlowsConfig",
    "HttpConfig",
    "LimitsConfig",
    "LogConfig",
    "ManagerConfig",
    "ManagerEntry",
    "MeshConfig",
    "ProcessorsConfig",
    "ServerConfig",
    "ServerEntry",
    "SiteConfig",
    "SpoolConfig",
    "split_host_port",
]

Text = Annotated[str, Meta(min_length=1)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Amount = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
HostPort = Annotated[str, Meta(pattern=r"^(\[[0-9a-fA-F:.]+\]|[^:/\[\]]+):[0-9]{1,5}$")]
PublicKey = Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{64}$")]
SignedHex = Annotated[str, Meta(pattern=r"^([0-9a-fA-F]{2})+$")]


ONE_ADDRESS = WireSettings(
    prefix_inits_per_s=5_000.0,
    prefix_burst=10_000.0,
    inits_per_s=5_000.0,
    proved_inits_per_s=5_000.0,
    messages_per_s=1e6,
)
"""For clients that all come from one address, or publish as fast as a measurement wants: elsewhere
that would be an attack."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ClientsConfig(_Section, frozen=True):
    """Where the clients of an edge server send their datagrams."""

    port: Port
    host: Text = "127.0.0.1"
    advertise: bool = False
    """Whether the local network is told by multicast that the server is here."""


class ManagerEntry(_Section, frozen=True):
    """The manager, as the other servers find it and know it."""

    address: HostPort
    credential: SignedHex
    """Hex digits: what its file in ``credentials`` holds."""


class MeshConfig(_Section, frozen=True):
    """How a server reaches the others."""

    listen: HostPort
    """``HOST:PORT``, with an IPv6 address in brackets."""
    manager: ManagerEntry | None = None
    """Needed by all servers but the manager; from it they hear of each other."""

    def __post_init__(self) -> None:
        split_host_port(self.listen)
        if self.manager is not None:
            split_host_port(self.manager.address)


def split_host_port(text: str) -> tuple[str, int]:
    """Return host and port; ValueError when the port is out of range."""
    host, _, port = text.rpartition(":")
    if int(port) > 65_535:
        raise ValueError(f"{text!r}: there is no port {port}")
    return host.removeprefix("[").removesuffix("]"), int(port)


class HttpConfig(_Section, frozen=True):
    """Where metrics, health and status are asked for."""

    port: Port = 0
    host: Text = "127.0.0.1"


class LimitsConfig(_Section, frozen=True):
    """What a server may take on; `storage` and `compute` have no limit without a number."""

    storage: Amount | None = None
    """Sum of the spool sizes of its topics, in messages."""
    compute: Amount | None = None
    """Sum over its topics of spool size x publishers."""
    topics: Count = 10_000
    """Topics; those that orders name come in addition."""
    topic_idle_s: Positive = 86_400.0
    """When a topic is given up that no orders name, nobody subscribes to and nobody publishes to."""
    publishers_per_topic: Count = 20_000
    publisher_idle_s: Positive = 86_400.0
    """Publishers that sent nothing for longer are forgotten where there are many."""
    streams: Count = 100_000
    """Pairs of topic and publisher among its clients whose server is remembered."""
    table_factor: Annotated[float, Meta(ge=0.01, le=100)] = 1.0
    """How large the other tables may be that clients and servers can fill: those of
    ``nearcast_table_limit``, in relation to what they are by default."""
    takeover_s: Positive = 3.0
    """How long another server takes nothing before its streams are processed without it."""


class SpoolConfig(_Section, frozen=True):
    """The durable spool."""

    segment_mb: Positive = 64.0


class LogConfig(_Section, frozen=True):
    """The log of messages and reports, for the pipeline."""

    folder: Path | None = None
    """By default ``log`` in the server's data folder."""
    segment_s: Positive = 10.0
    segment_rows: Count = 100_000
    keep_mb: Amount = 2_048.0
    keep_days: Amount = 30.0
    """Older files are removed beyond this size of both tables, or this age; 0: never."""
    enabled: bool = True


class ProcessorsConfig(_Section, frozen=True):
    """How much the processors of topics may do."""

    timeout_s: Positive = 1.0
    quarantine_s: Positive = 10.0
    budget_s: Positive = GuardSettings().budget_s
    inline: tuple[Text, ...] = ("forward", "echo", "proximity", "speeding", "threshold")
    """Processors that run in the server's own loop, by default those that are shipped; all others
    share a process outside."""
    allowed: tuple[Text, ...] = ()
    """Processors that may run here besides those that are shipped and those in `inline`: names or
    ``module:Class``. Orders cannot bring any other code onto this server."""

    @property
    def may_run(self) -> frozenset[str]:
        """All processors that may run here."""
        return frozenset((*self.inline, *self.allowed))


class BusyConfig(_Section, frozen=True):
    """When a server sends clients away for a while."""

    queue_age_ms: Positive = 50.0
    retry_after_ms: Positive = 200.0


class FlowsConfig(_Section, frozen=True):
    """When parts of flows are given to other servers; see `flow.load_loop.LoadSettings`."""

    overloaded: Positive = 0.85
    underloaded: Amount = 0.4
    idle: Amount = 0.1
    queue_age_s: Positive = 0.5
    lasting_s: Positive = 2.0
    idle_s: Positive = 30.0
    rest_s: Positive = 5.0
    seek_s: Positive = 5.0

    def __post_init__(self) -> None:
        if not self.idle <= self.underloaded < self.overloaded:
            raise ValueError("flows: idle <= underloaded < overloaded must hold")


class EmulationConfig(_Section, frozen=True):
    """Distances that this machine does not have."""

    factor: Amount = 1.0
    """Every delay is multiplied by it."""
    delays_ms: dict[str, Amount] = {}
    """One way to other servers, by id."""

    @property
    def delays_s(self) -> dict[str, float]:
        """The delays to be added, in seconds."""
        return {server: self.factor * ms / 1e3 for server, ms in self.delays_ms.items()}


class ServerConfig(_Section, frozen=True):
    """An edge server or the cloud server."""

    role: Literal["edge", "cloud", "standalone"]
    id: Text
    data: Path
    """Folder of the spool and of the last orders."""
    key_file: Path
    """Holds 64 hex digits: the X25519 private key that clients and servers know this one by."""
    authority: PublicKey
    """Hex digits of the site authority's Ed25519 public key."""
    credential_file: Path
    """Holds hex digits: what the authority signed about this server."""
    net: str | None = None
    """The network that it is in, as a path with dots, such as ``jp.jose.yrp``: messages of flows
    stay in theirs where they can. Without it an edge server is one of its own."""
    mesh: MeshConfig | None = None
    """The way to the other servers; a standalone server has none."""
    clients: ClientsConfig | None = None
    group: GroupSettings | None = None
    """Where many clients are told at once, by multicast; without it each is told in its session."""
    http: HttpConfig = HttpConfig()
    limits: LimitsConfig = LimitsConfig()
    spool: SpoolConfig = SpoolConfig()
    log: LogConfig = LogConfig()
    kafka: KafkaSettings | None = None
    """Where the log goes besides, or instead when `log` is not enabled."""
    wire: WireSettings = WireSettings()
    processors: ProcessorsConfig = ProcessorsConfig()
    busy: BusyConfig = BusyConfig()
    flows: FlowsConfig = FlowsConfig()
    classes: dict[str, MessageClass] = {}
    """Message classes besides those that are shipped, or instead of them; all servers of a site
    need the same."""
    emulation: EmulationConfig | None = None

    def __post_init__(self) -> None:
        if (self.role == "cloud") == (self.clients is not None):
            raise ValueError("an edge server needs the section [clients]; no other may have it")
        if self.group is not None:
            if self.clients is None:
                raise ValueError("only a server with the section [clients] may have [group]")
            if self.group.port == self.clients.port:
                raise ValueError("[group] and [clients] need ports of their own")
        if self.role != "standalone" and (self.mesh is None or self.mesh.manager is None):
            raise ValueError("a server needs the section [mesh.manager]: address and credential")
        with_classes(self.classes)
        try:
            self.net_path  # noqa: B018  (complains)
            for pattern in () if self.kafka is None else self.kafka.events:
                check_pattern(pattern)
        except ConfigError as error:
            raise ValueError(str(error)) from None

    @property
    def net_path(self) -> NetPath:
        """The network that it is in."""
        if self.net is not None:
            return net_path(self.net)
        return CLOUD if self.role == "cloud" else (self.id,)

    @property
    def log_folder(self) -> Path:
        """Where the log of messages goes."""
        return self.log.folder or self.data / "log"


class SiteConfig(_Section, frozen=True):
    """What the manager runs: a scenario, and a plan or how to make one."""

    scenario: Path
    plan: Path | None = None
    model: Model = Model.RATIO
    method: Text = "optimised"
    cloud: Text = "cloud"
    """The id of the cloud server."""
    processors: tuple[ProcessorRule, ...] = ()
    """What brokers do with messages; the first rule that matches a topic counts."""
    allowed_processors: tuple[Text, ...] = ()
    """Processors that operators may order besides the shipped ones and those above; each server
    needs them in its own ``[processors] allowed`` too."""
    roaming: bool = False
    """Whether each client has its home where it is, wherever the plan has it: at the edge server
    that is nearest, or whose area of `coverage` it is in."""
    coverage: dict[Text, str] = {}
    """With `roaming`: polygons (well-known text or GeoJSON, km) of servers that have their own."""

    @property
    def may_order(self) -> frozenset[str]:
        """All processors that operators may order."""
        return frozenset((*(rule.processor for rule in self.processors), *self.allowed_processors))


class ServerEntry(_Section, frozen=True):
    """A server of the site as other servers and, if it is an edge server, clients find it."""

    id: Text
    mesh_host: Text
    mesh_port: Port
    credential_file: Path
    """Holds hex digits: what the authority signed about it."""
    host: str = ""
    """Where clients send datagrams; not for the cloud server."""
    port: Port = 0


class EnrolmentConfig(_Section, frozen=True):
    """What is granted to everybody who shows the enrolment token; operators may grant anything."""

    publish: tuple[Text, ...] = ()
    """Topic patterns."""
    subscribe: tuple[Text, ...] = ()
    messages_per_s: Amount = 0.0
    """0: as the servers limit everybody."""
    payload_bytes: Annotated[int, Meta(ge=0)] = 0
    topics: Annotated[int, Meta(ge=0)] = 0
    classes: tuple[Text, ...] = ()
    """Message classes that are urgent."""
    days: Positive = 365.0
    """How long a credential counts."""
    clients_per_s: Positive = 10.0
    """How many may enrol; ten times as many at once."""

    def __post_init__(self) -> None:
        self.rules()

    def rules(self) -> EnrolmentRules:
        """Return what is granted."""
        limits = (self.messages_per_s, self.payload_bytes, self.topics)
        return EnrolmentRules(
            Rights(self.publish, self.subscribe, *limits, self.classes), self.days
        )


class ManagerConfig(_Section, frozen=True):
    """The manager of a site."""

    role: Literal["manager"]
    id: Text
    data: Path
    key_file: Path
    """Holds 64 hex digits: the X25519 private key that the servers know the manager by."""
    authority: PublicKey
    """Hex digits of the site authority's Ed25519 public key."""
    credential_file: Path
    """Holds hex digits: what the authority signed about the manager."""
    signing_key_file: Path
    """Holds 64 hex digits: the Ed25519 private key by which it signs orders and credentials."""
    mesh: MeshConfig
    site: SiteConfig
    servers: tuple[ServerEntry, ...]
    token_file: Path
    """Holds the secret that operators show."""
    enrol_token_file: Path | None = None
    """Holds the secret by which new clients are enrolled, and nothing else done."""
    revocations_file: Path | None = None
    """The authority's list of what no longer counts; read whenever it changes."""
    enrolment: EnrolmentConfig = EnrolmentConfig()
    http: HttpConfig = HttpConfig()

    def __post_init__(self) -> None:
        ids = [server.id for server in self.servers]
        twice = sorted({one for one in ids if ids.count(one) > 1})
        if twice:
            raise ValueError(f"server {twice[0]!r} is listed twice")
        if self.mesh.manager is not None:
            raise ValueError("the manager itself has no section [mesh.manager]")
