"""What a server is told when it starts: one TOML file, in which unknown keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from nearcast.broker.guard import GuardSettings
from nearcast.domain.plan_kinds import Model
from nearcast.wire.settings import WireSettings

__all__ = [
    "BusyConfig",
    "ClientsConfig",
    "EmulationConfig",
    "HttpConfig",
    "LimitsConfig",
    "LogConfig",
    "ManagerConfig",
    "MeshConfig",
    "ProcessorsConfig",
    "ServerConfig",
    "ServerEntry",
    "SiteConfig",
    "SpoolConfig",
]

Text = Annotated[str, Meta(min_length=1)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Amount = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Endpoint = Annotated[str, Meta(pattern=r"^(tcp|tls)/.+:[0-9]+$")]
PublicKey = Annotated[str, Meta(pattern=r"^([0-9a-fA-F]{64})?$")]


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ClientsConfig(_Section, frozen=True):
    """Where the clients of an edge server send their datagrams."""

    port: Port
    key_file: Path
    """Holds 64 hex digits: the server's X25519 private key."""
    host: Text = "127.0.0.1"


class MeshConfig(_Section, frozen=True):
    """How a server reaches the others."""

    listen: Endpoint
    connect: tuple[Endpoint, ...] = ()
    manager: Text = "manager"
    """The id of the manager."""
    root_ca: Path | None = None
    certificate: Path | None = None
    private_key: Path | None = None

    def __post_init__(self) -> None:
        files = (self.root_ca, self.certificate, self.private_key)
        if any(files) and not all(files):
            raise ValueError("root_ca, certificate and private_key belong together")
        uses_tls = {one.startswith("tls/") for one in (self.listen, *self.connect)}
        if uses_tls != {all(files)}:
            raise ValueError("tls/ endpoints and certificates belong together, for all endpoints")


class HttpConfig(_Section, frozen=True):
    """Where metrics, health and status are asked for."""

    port: Port = 0
    host: Text = "127.0.0.1"


class LimitsConfig(_Section, frozen=True):
    """What a server may take on; without a number there is no limit."""

    storage: Amount | None = None
    """Sum of the spool sizes of its topics, in messages."""
    compute: Amount | None = None
    """Sum over its topics of spool size x publishers."""


class SpoolConfig(_Section, frozen=True):
    """The durable spool."""

    segment_mb: Positive = 64.0


class LogConfig(_Section, frozen=True):
    """The log of messages and reports, for the pipeline."""

    folder: Path | None = None
    """By default ``log`` in the server's data folder."""
    segment_s: Positive = 10.0
    segment_rows: Count = 100_000
    enabled: bool = True


class ProcessorsConfig(_Section, frozen=True):
    """How much the processors of topics may do."""

    timeout_s: Positive = 1.0
    quarantine_s: Positive = 10.0
    budget_s: Positive = GuardSettings().budget_s
    inline: tuple[Text, ...] = ("forward", "echo", "proximity", "speeding", "threshold")
    """Processors that run in the server's own loop, by default those that are shipped; all others
    share a process outside."""


class BusyConfig(_Section, frozen=True):
    """When a server sends clients away for a while."""

    queue_age_ms: Positive = 50.0
    retry_after_ms: Positive = 200.0


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

    role: Literal["edge", "cloud"]
    id: Text
    data: Path
    """Folder of the spool and of the last orders."""
    mesh: MeshConfig
    clients: ClientsConfig | None = None
    http: HttpConfig = HttpConfig()
    limits: LimitsConfig = LimitsConfig()
    spool: SpoolConfig = SpoolConfig()
    log: LogConfig = LogConfig()
    wire: WireSettings = WireSettings()
    processors: ProcessorsConfig = ProcessorsConfig()
    busy: BusyConfig = BusyConfig()
    emulation: EmulationConfig | None = None

    def __post_init__(self) -> None:
        if (self.role == "edge") != (self.clients is not None):
            raise ValueError("an edge server needs the section [clients]; no other may have it")

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
    processor: Text = "forward"
    options: dict[str, Any] = {}
    notify_after_sync: bool = False


class ServerEntry(_Section, frozen=True):
    """A server of the site as clients find it; the cloud server has neither host nor key."""

    id: Text
    host: str = ""
    port: Port = 0
    public_key: PublicKey = ""
    """Hex digits of its X25519 public key."""


class ManagerConfig(_Section, frozen=True):
    """The manager of a site."""

    role: Literal["manager"]
    id: Text
    data: Path
    mesh: MeshConfig
    site: SiteConfig
    servers: tuple[ServerEntry, ...]
    token_file: Path
    """Holds the secret that operators show."""
    http: HttpConfig = HttpConfig()

    def __post_init__(self) -> None:
        ids = [server.id for server in self.servers]
        twice = sorted({one for one in ids if ids.count(one) > 1})
        if twice:
            raise ValueError(f"server {twice[0]!r} is listed twice")
