"""The shell of an edge or cloud server: sockets, threads and timers around a state machine."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from nearcast.broker.guard import GuardSettings
from nearcast.broker.requests import ProcessResult
from nearcast.errors import ConfigError, OutputError, RestartNeededError
from nearcast.links.emulated_mesh import EmulatedMesh
from nearcast.links.mesh import MeshLink
from nearcast.links.steady_clock import SteadyClock
from nearcast.links.udp import UdpSocket
from nearcast.runtime.config import ServerConfig
from nearcast.runtime.config_files import read_key_file
from nearcast.runtime.event_log import EventLog
from nearcast.runtime.event_log_frames import EventLogSettings
from nearcast.runtime.http_endpoint import HttpEndpoint
from nearcast.runtime.mesh_watch import first_of, watch_mesh
from nearcast.runtime.metrics import Gauges, ServerMetrics
from nearcast.runtime.orders_file import load_orders, save_orders
from nearcast.runtime.processor_host import ProcessorHost
from nearcast.runtime.spool_process import SpoolProcessSettings
from nearcast.runtime.spool_writer import SpoolWriter
from nearcast.runtime.watchdog import HUNG_FILE, Heartbeat, WatchdogSettings, read_hung
from nearcast.server.client_desk import EdgeSettings
from nearcast.server.edge import EdgeServer
from nearcast.server.log_rows import NotificationRow, PublicationRow
from nearcast.server.mesh_channel import MeshChannels
from nearcast.server.node import Node
from nearcast.server.node_settings import NodeSettings
from nearcast.server.outputs import Outputs
from nearcast.server.stream_targets import Capacity
from nearcast.spool.changes import LiveTopic

__all__ = ["LiveServer", "run_server"]

_log = logging.getLogger(__name__)
_LAG_INTERVAL_S = 0.1
_ORDERS_FILE = "orders.msgpack"
_DATAGRAMS_PER_PASS = 64
_GARBAGE_THRESHOLD = 10_000
"""New objects before a search for cycles: messages make many objects and no cycles."""


class LiveServer:
    """A server of a site, alive between `start` and `stop`."""

    def __init__(self, config: ServerConfig, mesh: MeshLink, key: bytes | None) -> None:
        self.config, self._key = config, key
        self._mesh: MeshLink = (
            EmulatedMesh(mesh, config.emulation.delays_s) if config.emulation else mesh
        )
        self.clock = SteadyClock()
        self.metrics = ServerMetrics(config.id)
        self.lost: Exception | None = None
        """Why the server must end, when its spool or mesh is lost."""
        self.ended = asyncio.Event()
        self._opened = AsyncExitStack()
        """All that must be closed, the last one first."""
        self._udp: UdpSocket | None = None
        self._events: EventLog | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._lag_due = 0.0

    async def start(self) -> None:
        """Listen, recover, and go on where the last life ended.

        Raises
        ------
        NearcastError
            When it cannot; nothing of it is left then.
        """
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_failure)
        try:
            await self._open()
        except BaseException:
            await self._opened.aclose()
            raise
        saved = load_orders(self.config.data / _ORDERS_FILE)
        if saved is not None:
            self._do(self.node.obey(saved, self.clock()))
        self._prepare_processors()
        if self._udp is not None:
            self._loop.add_reader(self._udp.fileno(), self._on_readable)
        self._watch_lag()
        self._on_timer()

    async def _open(self) -> None:
        config, opened = self.config, self._opened
        if config.clients is not None:
            self._udp = UdpSocket(config.clients.host, config.clients.port)
            opened.callback(self._udp.close)
        try:
            config.data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{config.data}: cannot be made: {error.strerror or error}") from None
        segment_bytes = int(config.spool.segment_mb * (1 << 20))
        self.heartbeat = Heartbeat()
        opened.callback(self.heartbeat.close)
        self._writer = SpoolWriter(
            SpoolProcessSettings(str(config.data / "spool"), segment_bytes),
            self._on_committed,
            self._on_lost,
            clock=self.clock,
            watchdog=WatchdogSettings(
                self.heartbeat.descriptor, os.getpid(), str(config.data / HUNG_FILE)
            ),
        )
        recovered = await self._writer.start()
        opened.push_async_callback(self._writer.close)
        for damage in recovered.damages:
            _log.warning("spool_damage", extra={"fields": {"damage": repr(damage)}})
        self._host = ProcessorHost(
            self._loop, self._on_results, timeout_s=config.processors.timeout_s
        )
        opened.callback(self._host.close)
        if config.log.enabled:
            self._events = EventLog(
                EventLogSettings(
                    str(config.log_folder),
                    config.id,
                    segment_rows=config.log.segment_rows,
                    segment_s=config.log.segment_s,
                )
            )
            self._events.start()
            opened.push_async_callback(self._events.close)
        self.node = self._make_node(recovered.state.topics)
        self.metrics.counts = self.node.counts
        self.metrics.read_gauges = self._gauges
        self.metrics.read_losses = self._losses
        if isinstance(self.node, EdgeServer):
            self.metrics.drops = self.node.sessions.drops
        self.http = HttpEndpoint(
            config.http.host,
            config.http.port,
            metrics=self.metrics.text,
            health=self._health,
            status=self.status,
        )
        await self.http.start()
        opened.push_async_callback(self.http.close)
        opened.push_async_callback(self._mesh.close)
        await self._mesh.start(self._on_mesh)

    async def stop(self) -> None:
        """Say farewell, write all that waits, and let go of everything."""
        if self._timer is not None:
            self._timer.cancel()
        self._lag_timer.cancel()
        if isinstance(self.node, EdgeServer) and self._udp is not None:
            self._loop.remove_reader(self._udp.fileno())
            self._do(self.node.stop(self.clock()))
        await self._writer.close()  # while other servers can be told of it
        await self._opened.aclose()

    def status(self) -> dict[str, Any]:
        """Return what an operator wants to see."""
        node, orders = self.node, self.node.orders
        return {
            "server": self.config.id,
            "role": self.config.role,
            "revision": orders.revision if orders else None,
            "plan_version": orders.plan_version if orders else None,
            "sessions": len(node.sessions) if isinstance(node, EdgeServer) else 0,
            "topics": len(node.broker.topics),
            "storage_used": node.targets.storage_used,
            "compute_used": node.targets.compute_used,
            "local_streams": node.targets.local_streams,
            "delegated_streams": node.targets.delegated_streams,
            "uncommitted": self._writer.uncommitted,
            "counts": dict(node.counts),
            "losses": self.metrics.losses(),
        }

    def _gauges(self) -> Gauges:
        node, limits = self.node, self.config.limits
        usage = node.broker.usage()
        return Gauges(
            sessions=len(node.sessions) if isinstance(node, EdgeServer) else 0,
            topics=len(node.broker.topics),
            storage_used=node.targets.storage_used,
            storage_limit=limits.storage,
            compute_used=node.targets.compute_used,
            compute_limit=limits.compute,
            uncommitted_groups=self._writer.uncommitted,
            uncommitted_seconds=self._writer.oldest_wait_s(),
            event_log_rows_held=0 if self._events is None else self._events.counters.rows_held,
            mesh_resent=self._channels.resent,
            mesh_stuck_seconds=self._mesh.stuck_s(),
            spool_messages={name: one.messages for name, one in usage.topics.items()},
            spool_bytes={name: one.size_bytes for name, one in usage.topics.items()},
        )

    def _losses(self) -> dict[str, int | Mapping[str, int] | None]:
        udp, events = self._udp, self._events
        return {
            "send_drops": {} if udp is None else udp.send_drops,
            "receive_errors": {} if udp is None else udp.receive_errors,
            "kernel_drops": None if udp is None else udp.kernel_drops(),
            "mesh_dropped": self._channels.dropped,
            "event_log_rows_dropped": 0 if events is None else events.counters.rows_dropped,
            "event_log_errors": 0 if events is None else events.counters.errors,
            "processor_restarts": self._host.restarts,
            "http_failures": self.http.failures,
        }

    def _hung_processors(self) -> set[str]:
        """Return the processors that may not run in the loop, because they hung it before."""
        hung = read_hung(self.config.data)
        for one in hung:
            fields = {"topic": one.topic, "processor": one.processor}
            _log.error("processor_hung_the_server", extra={"fields": fields})
        return {one.processor for one in hung}

    def _prepare_processors(self) -> None:
        """Have processors that are not inline loaded before their first message."""
        for topic in self.node.broker.topics.values():
            if not topic.settings.inline:
                self._host.prepare(topic.settings)

    def _make_node(self, recovered: dict[str, LiveTopic]) -> Node:
        config = self.config
        settings = NodeSettings(
            config.id,
            config.mesh.manager,
            Capacity(
                float("inf") if config.limits.storage is None else config.limits.storage,
                float("inf") if config.limits.compute is None else config.limits.compute,
            ),
            inline_processors=frozenset(config.processors.inline) - self._hung_processors(),
            guard=GuardSettings(
                budget_s=config.processors.budget_s, quarantine_s=config.processors.quarantine_s
            ),
            retry_after_s=config.busy.retry_after_ms / 1e3,
        )
        channels = self._channels = MeshChannels(life=int(self.clock() * 1e6))
        if self._key is None:
            return Node(settings, channels, self.clock, recovered)
        return EdgeServer(
            settings,
            channels,
            self.clock,
            self._key,
            os.urandom,
            recovered,
            config.wire,
            EdgeSettings(queue_age_s=config.busy.queue_age_ms / 1e3),
        )

    # Events of the loop

    def _on_readable(self) -> None:
        assert self._udp is not None
        assert isinstance(self.node, EdgeServer)
        batch, queue_age_s = self._udp.drain(_DATAGRAMS_PER_PASS)
        if not batch:
            return
        now = self.clock()
        self.metrics.queue_age_s = queue_age_s
        self.node.commit_wait_s = self._writer.oldest_wait_s(now)
        self._do(self.node.on_datagrams(batch, now, queue_age_s))

    def _on_mesh(self, server: str, frame: bytes) -> None:
        self._do(self.node.on_mesh(server, frame, self.clock()))

    def _on_committed(self, tickets: list[int]) -> None:
        self._do(self.node.on_committed(tickets, self.clock()))

    def _on_results(self, results: list[ProcessResult]) -> None:
        for result in results:
            self._do(self.node.on_processed(result, self.clock()))

    def _on_timer(self) -> None:
        self._timer_at = float("inf")
        self._do(self.node.on_timer(self.clock()))

    def _on_lost(self, error: Exception) -> None:
        self.lost = error
        self.ended.set()

    def _on_failure(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Note a bug in a callback: one event is lost, the server goes on."""
        self.metrics.counts["internal_errors"] += 1
        _log.error(
            "internal_error",
            exc_info=context.get("exception"),
            extra={"fields": {"what": context["message"]}},
        )

    def _watch_lag(self) -> None:
        now = self._loop.time()
        self.metrics.observe("sync", self._writer.take_sync_seconds())
        if self._lag_due:
            lag_s = max(0.0, now - self._lag_due)
            self.metrics.observe_lag(lag_s)
            self.node.loop_lag_s = max(lag_s, 0.9 * self.node.loop_lag_s)
        self._lag_due = now + _LAG_INTERVAL_S
        self._lag_timer = self._loop.call_at(self._lag_due, self._watch_lag)

    # Orders of the state machine

    def _do(self, out: Outputs) -> None:
        if out.datagrams and self._udp is not None:
            self._udp.send(out.datagrams)
        for server, frame in out.mesh:
            self._mesh.send(server, frame)
        if out.to_store:
            self._writer.append_all(out.to_store)
        if out.to_process:
            self._host.submit(out.to_process)
        if out.log and self._events is not None:
            self._events.add(
                [row for row in out.log if isinstance(row, PublicationRow)],
                [row for row in out.log if isinstance(row, NotificationRow)],
            )
        if out.delays:
            self.metrics.observe_delays(out.delays)
        for incident in out.incidents:
            _log.info(incident.event, extra={"fields": incident.fields})
        if out.orders is not None:
            save_orders(self.config.data / _ORDERS_FILE, out.orders)
            self._prepare_processors()
        self._set_timer()

    def _set_timer(self) -> None:
        at = self.node.next_wakeup()
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            delay_s = min(max(0.0, at - self.clock()), 1.0)
            self._timer = self._loop.call_later(delay_s, self._on_timer)

    def _health(self) -> list[str]:
        problems = []
        if self.node.orders is None:
            problems.append("no orders from the manager yet")
        if self._writer.is_full:
            problems.append("the spool's disk is full")
        if self.lost is not None:
            problems.append(str(self.lost))
        return problems


async def run_server(config: ServerConfig, mesh: MeshLink, stop: asyncio.Event) -> None:
    """Run a server until `stop` is set.

    Raises
    ------
    NearcastError
        When it cannot start.
    RestartNeededError
        When its spool or mesh is lost: a new start may recover it.
    """
    key = read_key_file(config.clients.key_file) if config.clients is not None else None
    if (key is None) == (config.role == "edge"):
        raise ConfigError(f"server {config.id!r}: an edge server needs [clients]")
    server = LiveServer(config, mesh, key)
    await server.start()
    # What is there now stays: looking through all of it would stop the loop for tens of ms.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, 20, 100)
    try:
        await first_of(stop.wait(), server.ended.wait(), watch_mesh(mesh))
    except RestartNeededError as error:
        server.lost = error
    finally:
        await server.stop()
    if server.lost is not None:
        raise RestartNeededError(f"server {config.id!r} ends: {server.lost}")
