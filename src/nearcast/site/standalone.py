"""A site of one: an edge server without manager and cloud server, which gives itself its orders."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from nearcast.errors import ConfigError, OutputError, RestartNeededError
from nearcast.flow.flow_orders import FlowOrder
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.links.memory_mesh import MemoryHub
from nearcast.runtime.config import (
    ONE_ADDRESS,
    ClientsConfig,
    HttpConfig,
    ProcessorsConfig,
    ServerConfig,
)
from nearcast.runtime.config_files import read_key_file
from nearcast.runtime.serve import run_process
from nearcast.runtime.server import LiveServer, run_until
from nearcast.runtime.trust_files import read_credential
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.signed_orders import sign_orders
from nearcast.server.site_orders import Orders, ServerOrder
from nearcast.site.standalone_folder import StandaloneFolder, StandalonePlace
from nearcast.trust.revocations import issue_revoked_servers
from nearcast.trust.site_plane import SitePlane
from nearcast.wire.group_settings import GroupSettings
from nearcast.wire.settings import WireSettings

__all__ = ["StandaloneSettings", "serve_standalone"]

_log = logging.getLogger(__name__)
_LOOK_S = 0.25
"""How often the server looks whether something in its folder changed."""


@dataclass(frozen=True, slots=True)
class StandaloneSettings:
    """How a standalone server runs; what is None stays as it was at the last start."""

    host: str | None = None
    public_host: str | None = None
    """What clients are told, when they reach it by another address than `host`."""
    port: int | None = None
    http_port: int | None = None
    rules: tuple[ProcessorRule, ...] | None = None
    inline: tuple[str, ...] = ()
    """Processors that run in the server's own loop, besides those that are shipped."""
    session_limit: int | None = None
    server: str | None = None
    """Its id."""
    kafka: KafkaSettings | None = None
    """Where the event log goes besides; None: nowhere."""
    plane: SitePlane | None = None
    """Where on the earth its kilometres lie."""
    advertise: bool = False
    """Whether the local network is told that it is here."""
    group: GroupSettings | None = None
    """Where many clients are told at once."""


def serve_standalone(
    folder: StandaloneFolder,
    options: StandaloneSettings,
    on_ready: Callable[[StandalonePlace], None],
    parent_fd: int | None = None,
) -> None:
    """Run a standalone server until a signal ends it.

    Parameters
    ----------
    on_ready
        Is told where the server listens, when it does.
    parent_fd
        A descriptor that becomes readable when the parent process is gone: end as well.

    Raises
    ------
    NearcastError
        When the server cannot start or go on.
    """

    async def run(stop: asyncio.Event) -> None:
        await _run(folder, options, on_ready, stop)

    with folder.locked():
        if options.rules is not None:
            folder.save_processors(options.rules)
        folder.clients(), folder.processors(), folder.flows()  # complain before anything starts
        run_process(run, parent_fd)


class LocalOrders:
    """Gives a server its orders, anew whenever its folder has other revocations, processors, flows.

    Clients need none: they show their credentials.
    """

    def __init__(self, live: LiveServer, folder: StandaloneFolder, place: StandalonePlace) -> None:
        self._live, self._folder = live, folder
        key = bytes.fromhex(place.public_key)
        credential = read_credential(folder.authority().credential_file(place.server))
        self._server = ServerOrder(
            place.server, place.public_host, place.port, key, credential=credential
        )
        self._version: tuple[tuple[int, int], ...] = ()
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Give orders if something changed, and look again after a while."""
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self.look)
        version = self._folder.version()
        if version == self._version:
            return
        self._version = version
        try:
            processors, authority = self._folder.processors(), self._folder.authority()
            revocations, flows = authority.revocations_document(), self._folder.flows().orders
            revoked_servers = issue_revoked_servers(
                authority.signing_key(), authority.revocations()
            )
        except ConfigError as error:  # it goes on with what it knows
            _log.warning("folder_unreadable", extra={"fields": {"reason": str(error)}})
            return
        known, server = self._live.node.orders, self._server
        document = sign_orders(
            authority.signing_key(),
            Orders(
                revision=1 if known is None else known.revision + 1,
                plan_version=0,
                cloud="",
                servers=(server,),
                topics=(),
                clients=(),
                processors=processors,
                server=server.server,
                issued_s=int(time.time()),
                revocations=revocations,
                revoked_servers=revoked_servers,
                flows=tuple(self._placed(one) for one in flows),
            ),
        )
        self._live.obey(document)

    def _placed(self, order: FlowOrder) -> FlowOrder:
        """Return a flow that begins here, whatever this server was called when it was run."""
        begins_at = dict.fromkeys(order.flow.components, self._server.server)
        return msgspec.structs.replace(order, begins_at=begins_at)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()


async def _run(
    folder: StandaloneFolder,
    options: StandaloneSettings,
    on_ready: Callable[[StandalonePlace], None],
    stop: asyncio.Event,
) -> None:
    place = _wanted_place(folder, options)
    key = folder.ensure_server(place.server)
    place = msgspec.structs.replace(place, public_key=key.hex())
    config = _config(folder, place, options)
    private_key = read_key_file(config.key_file)
    live = LiveServer(config, MemoryHub().link(place.server), private_key)
    await live.start()
    try:
        assert live.client_address is not None
        place = msgspec.structs.replace(
            place, port=live.client_address[1], http_port=live.http.address[1]
        )
        try:
            folder.save_place(place)
        except OutputError as error:  # no room, say: its configuration is not wrong
            raise RestartNeededError(str(error)) from None
        orders = LocalOrders(live, folder, place)
        orders.look()
        on_ready(place)
    except BaseException:
        await live.stop()
        raise
    try:
        await run_until(live, stop)
    finally:
        orders.close()


def _wanted_place(folder: StandaloneFolder, options: StandaloneSettings) -> StandalonePlace:
    """Return where the server listened before, with what the options say otherwise."""
    before = folder.place() if folder.has_place() else StandalonePlace("")
    host = before.host if options.host is None else options.host
    public_host = options.public_host
    if public_host is None:
        public_host = before.public_host if options.host is None else _reachable(host)
    return StandalonePlace(
        before.public_key,
        before.server if options.server is None else options.server,
        host,
        public_host,
        before.port if options.port is None else options.port,
        before.http_port if options.http_port is None else options.http_port,
        before.plane if options.plane is None else options.plane,
    )


def _config(
    folder: StandaloneFolder, place: StandalonePlace, options: StandaloneSettings
) -> ServerConfig:
    wire = ONE_ADDRESS if _is_loopback(place.host) else WireSettings()
    if options.session_limit is not None:
        wire = replace(wire, session_limit=options.session_limit)
    authority = folder.authority()
    return ServerConfig(
        role="standalone",
        id=place.server,
        data=folder.path,
        key_file=authority.server_key_file(place.server),
        authority=authority.public_key.hex(),
        credential_file=authority.credential_file(place.server),
        clients=ClientsConfig(place.port, place.host, options.advertise),
        group=options.group,
        http=HttpConfig(place.http_port),
        kafka=options.kafka,
        wire=wire,
        processors=ProcessorsConfig(inline=(*ProcessorsConfig().inline, *options.inline)),
    )


def _reachable(host: str) -> str:
    """Return an address that a client on this machine can send to."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
