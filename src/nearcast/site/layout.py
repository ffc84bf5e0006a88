"""The folder of a site: its authority, tokens, one configuration per server, clients' files.

::

    site.json           what is where
    token               the secret of operators, for the manager's HTTP interface
    enrol-token         the secret by which clients are enrolled
    authority.*, keys/, credentials/, register.db, revocations.msgpack    see `authority`
    config/ID.toml      one per server
    clients/ID.json     credentials, one per client
    data/ID             spools, orders, the manager's database
    log/                the event log of all edges, as Parquet
    output/ID.log       what the processes say

Made again from the same folder, keys and data stay; ports are new where others took them.
"""

from __future__ import annotations

import math
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from nearcast.delay.network import network_of
from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.errors import ConfigError, OutputError
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.links.secret_file import write_secret
from nearcast.runtime.config import (
    ONE_ADDRESS,
    ClientsConfig,
    EmulationConfig,
    EnrolmentConfig,
    HttpConfig,
    LimitsConfig,
    LogConfig,
    ManagerConfig,
    ManagerEntry,
    MeshConfig,
    ProcessorsConfig,
    ServerConfig,
    ServerEntry,
    SiteConfig,
    SpoolConfig,
)
from nearcast.runtime.config_files import write_config
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.authority import Authority
from nearcast.site.deployment import Deployment
from nearcast.site.free_ports import free_ports
from nearcast.trust.credentials import Role
from nearcast.wire.group_settings import GroupSettings
from nearcast.wire.settings import WireSettings

__all__ = ["MANAGER", "SiteFolder", "SiteServerPlace", "SiteSettings", "lay_out_site"]

MANAGER = "manager"
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class SiteSettings:
    """How a site is run on one machine."""

    plan: Path | None = None
    """A plan folder; without one the manager plans by model and method."""
    model: str = "ratio"
    method: str = "optimised"
    delay_factor: float = 1.0
    """On all emulated delays; 0: none are emulated."""
    processor_rules: tuple[ProcessorRule, ...] = ()
    cloud: str = "cloud"
    segment_mb: float = 4.0
    """Small: many servers share this machine's disk."""
    log_segment_s: float = 10.0
    takeover_s: float = LimitsConfig().takeover_s
    """How long a server takes nothing before its streams are processed without it."""
    wire: WireSettings = ONE_ADDRESS
    roaming: bool = False
    """Whether each client has its home where it is."""
    processors: ProcessorsConfig = field(default_factory=ProcessorsConfig)
    kafka: KafkaSettings | None = None
    """Where the event log goes besides."""
    deployment: Deployment | None = None
    """Where the servers stand in a mobile network; None: only the scenario's distances count."""
    group: GroupSettings | None = None
    """The multicast group of the first edge server; each further one has the next port."""


class SiteServerPlace(msgspec.Struct, frozen=True):
    """Where a server of the site is found."""

    server: str
    role: Role
    http_port: int
    mesh_port: int
    port: int = 0
    """UDP, for clients."""


class SiteFolder(msgspec.Struct, frozen=True):
    """What is where; the content of ``site.json``."""

    scenario: Path
    folder: Path
    delay_factor: float
    servers: tuple[SiteServerPlace, ...]
    """The manager first, then the cloud server, then the edge servers."""
    deployment: Deployment | None = None

    def config_file(self, server: str) -> Path:
        """Return the configuration of a server."""
        return self.folder / "config" / f"{quote(server, safe='')}.toml"

    def output_file(self, server: str) -> Path:
        """Return what a server's process says."""
        return self.folder / "output" / f"{quote(server, safe='')}.log"

    def credentials_file(self, client: str) -> Path:
        """Return the credentials of a client."""
        return self.folder / "clients" / f"{quote(client, safe='')}.json"

    @property
    def event_log(self) -> Path:
        """The event log of all edge servers."""
        return self.folder / "log"

    @property
    def manager_url(self) -> str:
        """Where the manager answers."""
        return f"http://{_HOST}:{self.servers[0].http_port}"

    @property
    def token(self) -> str:
        """The secret of operators that the manager wants to see."""
        return (self.folder / "token").read_text().strip()

    @property
    def authority(self) -> bytes:
        """The public key of the site's authority."""
        return Authority(self.folder).public_key

    def place(self, server: str) -> SiteServerPlace:
        """Return where a server is."""
        return next(one for one in self.servers if one.server == server)

    @classmethod
    def find(cls, folder: Path) -> SiteFolder:
        """Read the site in a folder, or that of a scenario for which `nearcast up` made one."""
        nested = folder / "site"
        return cls.load(nested if (nested / "site.json").exists() else folder)

    @classmethod
    def load(cls, folder: Path) -> SiteFolder:
        """Read ``site.json``; ConfigError when there is no site."""
        path = folder / "site.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls, dec_hook=_to_path)
        except OSError as error:
            raise ConfigError(
                f"{path}: {error.strerror or error}; `nearcast up SCENARIO` makes a site"
            ) from None
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path}: {error}") from None


def lay_out_site(
    scenario: Scenario, scenario_folder: Path, folder: Path, options: SiteSettings
) -> SiteFolder:
    """Write the folder of a site and return what is where.

    Raises
    ------
    ConfigError
        When a server of the scenario has a name that the site needs for another.
    OutputError
        When the folder cannot be written.
    """
    edges = [str(one) for one in scenario.servers.ids.to_pylist()]
    taken = {MANAGER, options.cloud} & set(edges)
    if taken:
        raise ConfigError(f"server {taken.pop()!r} of the scenario: the site needs this name")
    groups = _groups(options.group, len(edges))
    try:
        for name in ("config", "clients", "data", "log", "output"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("token", "enrol-token"):
            if not (folder / name).exists():
                write_secret(folder / name, secrets.token_urlsafe(24) + "\n")
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    authority = Authority.open_or_create(folder.absolute())
    site = SiteFolder(
        scenario_folder.absolute(),
        folder.absolute(),
        options.delay_factor,
        _places(edges, options.cloud, groups),
        options.deployment,
    )
    now_s = time.time()
    for place in site.servers:
        authority.ensure_server(place.server, place.role, now_s)
    _write_configs(site, authority, scenario, options, groups)
    text = msgspec.json.format(msgspec.json.encode(site, enc_hook=str), indent=2)
    write_secret(folder / "site.json", text + b"\n", sync=False)
    return site


def _groups(first: GroupSettings | None, edges: int) -> list[GroupSettings]:
    """Return the group of each edge server; empty: they have none.

    Ports keep them apart: one machine has room for few addresses of a multicast range, and a
    client that listens to a port hears nothing of others.
    """
    if first is None:
        return []
    try:
        return [replace(first, port=first.port + index) for index in range(edges)]
    except ValueError as error:
        raise ConfigError(f"a group for each of {edges} edge servers: {error}") from None


def _places(
    edges: Sequence[str], cloud: str, groups: Sequence[GroupSettings]
) -> tuple[SiteServerPlace, ...]:
    servers: list[tuple[str, Role]] = [
        (MANAGER, "manager"),
        (cloud, "cloud"),
        *((one, "edge") for one in edges),
    ]
    tcp = free_ports(2 * len(servers), socket.SOCK_STREAM)
    taken = {one.port for one in groups}
    udp = free_ports(len(edges), socket.SOCK_DGRAM, taken)
    return tuple(
        SiteServerPlace(
            server,
            role,
            tcp[2 * index],
            tcp[2 * index + 1],
            udp[index - 2] if role == "edge" else 0,
        )
        for index, (server, role) in enumerate(servers)
    )


def _write_configs(
    site: SiteFolder,
    authority: Authority,
    scenario: Scenario,
    options: SiteSettings,
    groups: Sequence[GroupSettings],
) -> None:
    network, deployment = network_of(scenario), options.deployment
    between_ms = None if deployment is None else deployment.between_servers_ms
    cloud_ms = network.cloud_ms
    if deployment is not None and deployment.cloud_ms is not None:
        cloud_ms = deployment.cloud_ms
    # whoever lays out a site on his own machine chooses the code that runs on it
    ordered = (rule.processor for rule in options.processor_rules)
    allowed = tuple(dict.fromkeys((*options.processors.allowed, *ordered)))
    edges = [one for one in site.servers if one.role == "edge"]
    write_config(
        site.config_file(MANAGER),
        ManagerConfig(
            role="manager",
            id=MANAGER,
            data=site.folder / "data" / MANAGER,
            key_file=authority.server_key_file(MANAGER),
            authority=authority.public_key.hex(),
            credential_file=authority.credential_file(MANAGER),
            signing_key_file=authority.signing_key_file(MANAGER),
            mesh=MeshConfig(_mesh_address(site.servers[0])),
            http=HttpConfig(site.servers[0].http_port),
            site=SiteConfig(
                scenario=site.scenario,
                plan=options.plan.absolute() if options.plan else None,
                model=Model(options.model),
                method=options.method,
                cloud=options.cloud,
                processors=options.processor_rules,
                allowed_processors=allowed,
                roaming=options.roaming,
            ),
            servers=tuple(
                ServerEntry(
                    one.server,
                    _HOST,
                    one.mesh_port,
                    authority.credential_file(one.server),
                    _HOST if one.role == "edge" else "",
                    one.port,
                )
                for one in site.servers[1:]
            ),
            token_file=site.folder / "token",
            enrol_token_file=site.folder / "enrol-token",
            revocations_file=authority.revocations_file,
            enrolment=EnrolmentConfig(publish=("#",), subscribe=("#",)),
        ),
    )
    first = site.servers[0]
    credential = authority.credential_file(MANAGER).read_text().strip()
    manager = ManagerEntry(_mesh_address(first), credential)
    for index, place in enumerate(site.servers[1:], start=1):
        is_edge = place.role == "edge"
        own = index - 2
        delays_ms = {} if is_edge else {one.server: cloud_ms for one in edges}
        if is_edge:
            row = [
                float(one) if between_ms is None else between_ms
                for one in network.server_server_ms[own]
            ]
            delays_ms = {one.server: row[at] for at, one in enumerate(edges) if at != own}
            delays_ms[options.cloud] = cloud_ms
        write_config(
            site.config_file(place.server),
            ServerConfig(
                role="edge" if is_edge else "cloud",
                id=place.server,
                data=site.folder / "data" / quote(place.server, safe=""),
                key_file=authority.server_key_file(place.server),
                authority=authority.public_key.hex(),
                credential_file=authority.credential_file(place.server),
                mesh=MeshConfig(_mesh_address(place), manager),
                clients=ClientsConfig(place.port, _HOST) if is_edge else None,
                group=groups[own] if is_edge and groups else None,
                http=HttpConfig(place.http_port),
                limits=LimitsConfig(
                    _limit(scenario.servers.storage[own]) if is_edge else None,
                    _limit(scenario.servers.compute[own]) if is_edge else None,
                    takeover_s=options.takeover_s,
                ),
                spool=SpoolConfig(options.segment_mb),
                log=LogConfig(site.event_log, options.log_segment_s),
                kafka=options.kafka,
                wire=options.wire,
                processors=msgspec.structs.replace(options.processors, allowed=allowed),
                emulation=EmulationConfig(options.delay_factor, delays_ms)
                if options.delay_factor
                else None,
            ),
        )


def _mesh_address(place: SiteServerPlace) -> str:
    return f"{_HOST}:{place.mesh_port}"


def _to_path(kind: type, value: Any) -> Any:
    return kind(value)


def _limit(value: float) -> float | None:
    """Return a limit as a configuration says it: no number where there is none."""
    return float(value) if math.isfinite(value) else None
