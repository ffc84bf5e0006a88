"""The shell of an edge or cloud server: sockets, helper processes and timers around its parts."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import AsyncExitStack
from random import SystemRandom
from typing import Any

from nearcast.broker.requests import ProcessResult
from nearcast.errors import (
    NO_ROOM,
    OutputError,
    RestartNeededError,
    SpoolFullError,
    TrustError,
)
from nearcast.links.emulated_mesh import EmulatedMesh
from nearcast.links.fine_timer import sleep_exactly
from nearcast.links.garbage import freeze_gc
from nearcast.links.mesh import MeshLink
from nearcast.links.multicast_servers import Advertisement
from nearcast.links.sorted_port import SortedPort
from nearcast.links.steady_clock import SteadyClock
from nearcast.runtime.config import ServerConfig
from nearcast.runtime.config_files import read_key_file
from nearcast.runtime.event_log import EventLog
from nearcast.runtime.metrics import ServerMetrics
from nearcast.runtime.operator_requests import operator_endpoint
from nearcast.runtime.orders_file import OrdersFile
from nearcast.runtime.peer_trust import PeerTrust
from nearcast.runtime.port_reader import PortReader
from nearcast.runtime.processor_host import ProcessorHost
from nearcast.runtime.server_report import ServerReport
from nearcast.runtime.settings_of_config import (
    event_log_settings,
    group_interface,
    settings_of,
    spooled_rows,
)
from nearcast.runtime.spool_process import SpoolProcessSettings
from nearcast.runtime.spool_writer import SpoolWriter
from nearcast.runtime.trust_files import open_trust, read_credential
from nearcast.runtime.watchdog import HUNG_FILE, Heartbeat, WatchdogSettings, read_hung
from nearcast.server.outputs import Outputs, StageDelays
from nearcast.server.peer_channels import PeerChannels, draw_incarnation
from nearcast.server.server import Server
from nearcast.server.server_settings import ClientAccess, EdgeSettings
from nearcast.server.site_orders import Orders
from nearcast.spool.recovery import Recovery
from nearcast.wire.found_server import site_name
from nearcast.wire.framing import SESSION_HEADERS
from nearcast.wire.session_index import first_word
from nearcast.wire.settings import Address

__all__ = ["LiveServer", "run_server", "run_until"]

_log = logging.getLogger(__name__)
_LAG_INTERVAL_S = 0.1
_LOAD_WEIGHT = 0.2
"""Of the last interval in the mean load."""
_STALL_S = 0.5
"""Pauses of the loop or the disk that are logged: not much longer ones and others take over."""
_ORDERS_FILE = "orders.msgpack"


class LiveServer:
    """A server of a site, running between `start` and `stop`.

    Parameters
    ----------
    key
        Its X25519 private key.
    """

    def __init__(self, config: ServerConfig, mesh: MeshLink, key: bytes) -> None:
        self.config, self._key = config, key
        self._mesh: MeshLink = (
            EmulatedMesh(mesh, config.emulation.delays_s) if config.emulation else mesh
        )
        self.clock = SteadyClock()
        self.trust = open_trust(config, self.clock())
        self._peer_trust = PeerTrust(self.trust, config.id, self._mesh, self.clock)
        self.metrics = ServerMetrics(config.id)
        self._orders_file = OrdersFile(config.data / _ORDERS_FILE)
        self.ended = asyncio.Event()
        """Set when it must end by itself, for the reason in `report.lost`."""
        self._opened = AsyncExitStack()
        """All that must be closed, the last one first."""
        self._udp: SortedPort | None = None
        self._events: EventLog | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._lag_due, self._cpu_s = 0.0, time.thread_time()
        self._delays: list[StageDelays] = []
        """Of notifications since the metrics were last told."""

    async def start(self) -> None:
        """Listen, recover, and go on where the server ended before.

        Raises
        ------
        NearcastError
            When it cannot; nothing of it is left then. RestartNeededError: another try may help.
        """
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_failure)
        try:
            await self._open()
        except BaseException:
            await self._opened.aclose()
            raise
        self._peer_trust.learn(())
        if (saved := self._orders_file.load()) is not None:
            self.obey(saved)
        if self._udp is not None and (sessions := self.node.sessions) is not None:
            on_read = self._on_datagrams, self._on_strangers
            self._reader = PortReader(self._loop, self._udp, *on_read, sessions.unconfirmed)
            self._reader.start()
        self._watch_lag()
        self._on_timer()

    async def _open(self) -> None:
        config, opened = self.config, self._opened
        if config.clients is not None:
            limit = config.wire.datagram_limit + 1  # longer ones are seen to be too long
            host, port = config.clients.host, config.clients.port
            words = [first_word(self._key, mark) for mark in SESSION_HEADERS]
            self._udp = SortedPort(host, port, limit, *words)
            opened.callback(self._udp.close)
            if config.group is not None:
                self._udp.sessions.send_to_groups(group_interface(config), config.group.ttl)
        try:
            config.data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            kind = RestartNeededError if error.errno in NO_ROOM else OutputError
            raise kind(f"{config.data}: cannot be made: {error.strerror or error}") from None
        heartbeat = Heartbeat()
        opened.callback(heartbeat.close)
        watchdog = WatchdogSettings(heartbeat.descriptor, os.getpid(), str(config.data / HUNG_FILE))
        segment_bytes = int(config.spool.segment_mb * (1 << 20))
        self._writer = SpoolWriter(
            SpoolProcessSettings(str(config.data / "spool"), segment_bytes),
            self._on_committed,
            self._on_lost,
            clock=self.clock,
            watchdog=watchdog,
        )
        try:
            recovered = await self._writer.start()
        except SpoolFullError as error:
            raise RestartNeededError(f"server {config.id!r} cannot start: {error}") from None
        opened.push_async_callback(self._writer.close)
        self._host = ProcessorHost(
            self._loop, self._on_results, timeout_s=config.processors.timeout_s
        )
        opened.callback(self._host.close)
        if config.log.enabled or config.kafka is not None:
            self._events = EventLog(event_log_settings(config))
            self._events.start()
            opened.push_async_callback(self._events.close)
            if config.kafka is not None:
                self._events.add(spooled_rows(recovered.state.topics, config.id), ())
        self._channels = PeerChannels(draw_incarnation(os.urandom))
        hung = self._hung_processors()
        self.node = self._make_server(recovered, heartbeat, hung)
        self.report = ServerReport(
            config,
            self.node,
            self.metrics,
            self._mesh,
            self._channels,
            self._writer,
            self._host,
            self._udp,
            self._events,
            self._peer_trust,
            hung,
        )
        self.http = operator_endpoint(config.http, self.report, self.metrics, self._events)
        await self.http.start()
        opened.push_async_callback(self.http.close)
        opened.push_async_callback(self._mesh.close)
        await self._mesh.start(self._on_mesh)
        if config.clients is not None and config.clients.advertise and self._udp is not None:
            credential, site = read_credential(config.credential_file), config.authority
            named = (config.id, (config.clients.host, self._udp.address[1]), credential)
            advertisement = Advertisement(*named, site_name(bytes.fromhex(site)))
            await advertisement.start()
            opened.push_async_callback(advertisement.close)

    async def stop(self) -> None:
        """Say farewell, write all that waits, and let go of everything."""
        if self._timer is not None:
            self._timer.cancel()
        self._lag_timer.cancel()
        if self._udp is not None:
            self._reader.stop()
            self._do(self.node.stop(self.clock()))
        await self._writer.close()  # while other servers can be told of it
        await self._opened.aclose()

    @property
    def client_address(self) -> Address | None:
        """Where clients send their datagrams; None when it has no clients."""
        return None if self._udp is None else self._udp.address

    def obey(self, document: bytes) -> None:
        """Take signed orders that do not come from the manager: from the disk, or made here."""
        try:
            self._do(self.node.obey_document(document, self.clock()))
        except TrustError as error:
            _log.warning("orders_refused", extra={"fields": {"reason": str(error)}})

    def _make_server(
        self, recovered: Recovery, heartbeat: Heartbeat, hung: frozenset[str]
    ) -> Server:
        config, manager = self.config, self.trust.manager
        settings = settings_of(config, "" if manager is None else manager.server, hung)
        access = None
        if config.clients is not None:
            edge = EdgeSettings(queue_age_s=config.busy.queue_age_ms / 1e3)
            access = ClientAccess(os.urandom, config.wire, edge, config.group)
        return Server(
            settings,
            self._channels,
            self.clock,
            self.trust.trust,
            self._key,
            recovered.state.topics,
            access,
            watch=heartbeat,
            damages=len(recovered.damages),
            chance=SystemRandom(),
        )

    def _hung_processors(self) -> frozenset[str]:
        """Return the processors that may not run in the loop, because they hung it before."""
        hung = read_hung(self.config.data)
        for one in hung:
            fields = {"topic": one.topic, "processor": one.processor}
            _log.error("processor_hung_the_server", extra={"fields": fields})
        return frozenset(one.processor for one in hung)

    def _prepare_processors(self) -> None:
        """Have processors that are not inline loaded before their first message."""
        for topic in self.node.broker.topics.values():
            if not topic.settings.inline:
                self._host.prepare(topic.settings)

    # Events of the loop

    def _on_datagrams(self, batch: list[tuple[bytes, Address]], queue_age_s: float | None) -> bool:
        now = self.clock()
        self.metrics.queue_age_s = self._reader.waited_s
        self.node.commit_wait_s = self._writer.oldest_wait_s(now)
        self._send(self.node.on_datagrams(batch, now, queue_age_s))
        if patient := self._reader.take_patient():
            self._send(self.node.on_datagrams(patient, now))
        out = self.node.finish(now)
        self._do(out)
        if self.node.sessions is not None and self.node.sessions.has_newly_muted:
            self._reader.mute(self.node.sessions.muted(now))
        return bool(out.publications)

    def _on_strangers(self, batch: list[tuple[bytes, Address]], is_flooded: bool) -> None:
        self._do(self.node.on_strangers(batch, self.clock(), is_flooded))

    def _on_mesh(self, server: str, frame: bytes) -> None:
        now = self.clock()
        self.node.commit_wait_s = self._writer.oldest_wait_s(now)
        self._do(self.node.on_mesh(server, frame, now))

    def _on_committed(self, tickets: list[int]) -> None:
        self._do(self.node.on_committed(tickets, self.clock()))

    def _on_results(self, results: list[ProcessResult]) -> None:
        self._do(self.node.on_processed(results, self.clock()))

    def _on_timer(self) -> None:
        self._timer_at = float("inf")
        self._peer_trust.on_timer()
        self._do(self.node.on_timer(self.clock()))

    def _on_lost(self, error: Exception) -> None:
        self.report.lost = error
        self.ended.set()

    def _on_failure(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Note a bug in a callback: one event is lost, the server goes on."""
        self.metrics.counts["internal_errors"] += 1
        fields = {"what": context["message"]}
        _log.error("internal_error", exc_info=context.get("exception"), extra={"fields": fields})

    def _watch_lag(self) -> None:
        now = self._loop.time()
        self._orders_file.retry()
        syncs_s = self._writer.take_sync_seconds()
        self.metrics.observe("sync", syncs_s)
        self._note_stall("disk", max(syncs_s, default=0.0))
        delays, self._delays = self._delays, []
        self.metrics.observe_delays(delays)
        if self._lag_due:
            lag_s = max(0.0, now - self._lag_due)
            self.metrics.observe_lag(lag_s)
            self._note_stall("loop", lag_s)
            self.node.loop_lag_s = max(lag_s, 0.9 * self.node.loop_lag_s)
            passed_s, cpu_s = now - self._lag_due + _LAG_INTERVAL_S, time.thread_time()
            load = self.node.flows.load
            load.busy_share += _LOAD_WEIGHT * ((cpu_s - self._cpu_s) / passed_s - load.busy_share)
            load.loop_lag_s, self._cpu_s = self.node.loop_lag_s, cpu_s
        if self.node.sessions is not None:
            self._reader.mute(self.node.sessions.muted(self.clock()))
            self._reader.note_load(self.node.flows.load.busy_share)
        self._lag_due = now + _LAG_INTERVAL_S
        self._lag_timer = self._loop.call_at(self._lag_due, self._watch_lag)

    def _note_stall(self, what: str, stalled_s: float) -> None:
        if stalled_s >= _STALL_S:
            _log.warning("stalled", extra={"fields": {"what": what, "s": round(stalled_s, 2)}})

    # What the state machine wants done

    def _send(self, out: Outputs) -> None:
        if out.datagrams and self._udp is not None:
            self._udp.sessions.send(out.datagrams)
        for server, frame in out.mesh:
            self._mesh.send(server, frame)

    def _do(self, out: Outputs) -> None:
        if out.orders is not None:
            self._take_over(out.orders, out.orders_document)
        self._send(out)
        if out.to_store:
            self._writer.append_all(out.to_store)
        if out.to_process:
            self._host.submit(out.to_process)
        if self._events is not None and (out.publications or out.notifications):
            self._events.add(out.publications, out.notifications)
        self._delays += out.delays
        if out.pauses_s:
            self.metrics.observe("switch_pause", out.pauses_s)
        for incident in out.incidents:
            _log.info(incident.event, extra={"fields": incident.fields})
        self._set_timer()

    def _take_over(self, orders: Orders, document: bytes) -> None:
        """Keep new orders before anybody hears what follows from them, and prepare for that."""
        if document and not self._orders_file.save(document):
            self.metrics.counts["orders_not_saved"] += 1
        self._peer_trust.learn(orders.servers)
        self._prepare_processors()

    def _set_timer(self) -> None:
        at = self.node.next_wakeup()
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            delay_s = min(max(0.0, at - self.clock()), 1.0)
            self._timer = self._loop.call_later(delay_s, self._on_timer)


async def run_server(config: ServerConfig, mesh: MeshLink, stop: asyncio.Event) -> None:
    """Run a server until `stop` is set.

    Raises
    ------
    NearcastError
        When it cannot start.
    RestartNeededError
        When its spool is lost: a new start may recover it.
    """
    server = LiveServer(config, mesh, read_key_file(config.key_file))
    await server.start()
    await run_until(server, stop)


async def run_until(server: LiveServer, stop: asyncio.Event) -> None:
    """Let a server that has started run until `stop` is set or it must end; then stop it.

    Raises
    ------
    RestartNeededError
        When its spool is lost: a new start may recover it.
    """
    freeze_gc()
    sleep_exactly()
    waits = {asyncio.ensure_future(stop.wait()), asyncio.ensure_future(server.ended.wait())}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await server.stop()
    if server.report.lost is not None:
        raise RestartNeededError(f"server {server.config.id!r} ends: {server.report.lost}")
