"""What a live server tells operators: status, gauges, losses, health."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nearcast.links.mesh import MeshLink
from nearcast.links.sorted_port import SortedPort
from nearcast.runtime.config import ServerConfig
from nearcast.runtime.event_log import EventLog, EventLogCounters
from nearcast.runtime.http_endpoint import HttpEndpoint
from nearcast.runtime.mesh_peers import isolation, links_down, links_status
from nearcast.runtime.metrics import Gauges, ServerMetrics
from nearcast.runtime.peer_trust import PeerTrust
from nearcast.runtime.processor_host import ProcessorHost
from nearcast.runtime.spool_writer import SpoolWriter
from nearcast.runtime.watchdog import HUNG_FILE
from nearcast.server.overlay_part import RingStatus
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.server import Server
from nearcast.server.tables import TableSize

__all__ = ["ServerReport"]

_FAILURE_SHOWN_S = 60.0
"""A server is not healthy for so long after it was seen that events failed."""


class ServerReport:
    """Reads the parts of a server when somebody asks."""

    def __init__(
        self,
        config: ServerConfig,
        server: Server,
        metrics: ServerMetrics,
        mesh: MeshLink,
        channels: PeerChannels,
        writer: SpoolWriter,
        host: ProcessorHost,
        udp: SortedPort | None,
        events: EventLog | None,
        trust: PeerTrust,
        hung: frozenset[str],
    ) -> None:
        self._config, self._server, self._metrics = config, server, metrics
        self._mesh, self._channels, self._writer, self._host = mesh, channels, writer, host
        self._udp, self._events, self._trust = udp, events, trust
        self._hung = sorted(hung)
        """Processors that may not run in the loop any more."""
        self.lost: Exception | None = None
        """Why the server must end, when its spool is lost."""
        self._errors, self._errors_s = 0, float("-inf")
        """Bugs that were seen here, and when more were last seen."""
        self.http: HttpEndpoint | None = None
        """Where operators ask; the shell puts it in."""
        metrics.counts = server.counts
        metrics.read_gauges, metrics.read_losses = self.gauges, self.losses
        metrics.read_tables = self.tables
        metrics.refused_publications = server.refused_publications
        if server.sessions is not None:
            metrics.drops = server.sessions.drops

    def status(self) -> dict[str, Any]:
        """Return what an operator wants to see."""
        server, orders = self._server, self._server.orders
        targets, ring = server.targets, self._ring()
        return {
            "server": self._config.id,
            "role": self._config.role,
            "revision": orders.revision if orders else None,
            "plan_version": orders.plan_version if orders else None,
            "sessions": 0 if server.sessions is None else len(server.sessions),
            "topics": len(server.broker.topics),
            "storage_used": targets.storage_used,
            "compute_used": targets.compute_used,
            "local_streams": targets.local_streams,
            "delegated_streams": targets.delegated_streams,
            "uncommitted": self._writer.uncommitted,
            "credential_days_left": round(self._trust.days_left, 1),
            "counts": dict(server.counts),
            "losses": self._metrics.losses(),
            "tables": {name: size._asdict() for name, size in self.tables().items()},
            "hung_processors": self._hung,
            "flows": server.flows.status(),
            "ring": None if ring is None else asdict(ring),
            **links_status(self._mesh),
        }

    def gauges(self) -> Gauges:
        """Return how the server is now."""
        server, limits, links = self._server, self._config.limits, self._mesh.states()
        topics, ring = server.broker.topics, self._ring()
        rows = EventLogCounters() if self._events is None else self._events.counters
        return Gauges(
            sessions=0 if server.sessions is None else len(server.sessions),
            sessions_half_open=0 if server.sessions is None else server.sessions.half_open,
            sessions_muted=0 if server.sessions is None else server.sessions.paces.muted_count,
            group_members=0
            if server.sessions is None or server.sessions.group is None
            else server.sessions.group.members,
            topics=len(topics),
            topics_elsewhere=server.topics.elsewhere,
            publishers=sum(one.streams for one in topics.values()),
            streams=len(server.targets),
            subscriptions=server.subscribers.table.subscriptions,
            interests=0
            if server.clients is None
            else len(server.clients.subscriptions.interests.all),
            handover_notifications=0 if server.clients is None else server.clients.handover.kept,
            mesh_waiting=sum(map(self._channels.waiting, self._channels.servers)),
            flow_queued=server.flows.watch.queued,
            flow_outgoing=server.flows.watch.outgoing,
            storage_used=server.targets.storage_used,
            storage_limit=limits.storage,
            compute_used=server.targets.compute_used,
            compute_limit=limits.compute,
            uncommitted_groups=self._writer.uncommitted,
            uncommitted_seconds=self._writer.oldest_wait_s(),
            event_log_rows_held=rows.rows_held,
            event_log_segments_written=rows.segments_written,
            kafka_records_sent=rows.kafka_sent,
            kafka_records_waiting=rows.kafka_waiting,
            mesh_resent=self._channels.resent,
            mesh_links=sum(one.state == "connected" for one in links),
            credential_days_left=self._trust.days_left,
            servers_not_trusted=self._trust.not_trusted,
            processors_hung=len(self._hung),
            overlay_keys=0 if ring is None else ring.keys,
            overlay_servers_known=0 if ring is None else ring.servers_known,
            overlay_repairs=0 if ring is None else ring.repairs,
            mesh_links_down=sum(one.is_down for one in links),
            mesh_sent_bytes=sum(one.sent_bytes for one in links),
            mesh_received_bytes=sum(one.received_bytes for one in links),
            spool_messages={name: len(one.spool) for name, one in topics.items()},
            spool_bytes={name: one.spool.size_bytes for name, one in topics.items()},
        )

    def tables(self) -> dict[str, TableSize]:
        """Return the tables that clients or other servers can fill."""
        server, limits, wire = self._server, self._config.limits, self._config.wire
        found = server.tables.sizes()
        found["topics"] = TableSize(len(server.broker.topics), limits.topics)
        found["streams"] = TableSize(len(server.targets), limits.streams)
        if server.sessions is not None:
            found["sessions"] = TableSize(len(server.sessions), wire.session_limit)
            found["client_paces"] = TableSize(len(server.sessions.paces), wire.session_limit)
        return found

    def losses(self) -> dict[str, int | Mapping[str, int] | None]:
        """Return what parts beside the state machine have lost or given up."""
        udp, events, sessions = self._udp, self._events, self._server.sessions
        topics = self._server.broker.topics.values()
        strangers = None if udp is None else udp.strangers
        return {
            "notifications_dropped": 0 if sessions is None else sessions.notifications_dropped,
            "send_drops": {} if udp is None else udp.sessions.send_drops,
            "receive_errors": {} if udp is None else udp.receive_errors(),
            "kernel_drops": None if udp is None else udp.session_drops(),
            "strangers_dropped": None if strangers is None else strangers.kernel_drops(),
            "mesh_dropped": self._channels.dropped,
            "mesh_frames_refused": self._channels.refused,
            "mesh_flips_refused": self._channels.flips_refused,
            "mesh_link_drops": sum(one.dropped_messages for one in self._mesh.states()),
            "mesh_rejected": dict(self._mesh.rejected),
            "overlay_dropped": self._server.ring.losses(),
            "event_log_rows_dropped": 0 if events is None else events.counters.rows_dropped,
            "event_log_segments_removed": 0 if events is None else events.counters.segments_removed,
            "event_log_errors": 0 if events is None else events.counters.errors,
            "kafka_records_dropped": 0 if events is None else events.counters.kafka_dropped,
            "kafka_errors": 0 if events is None else events.counters.kafka_errors,
            "processor_refused": dict(self._server.processor_refused),
            "processor_restarts": self._host.restarts,
            "http_failures": 0 if self.http is None else self.http.failures,
            "processor_unprocessed": sum(one.processing.guard.unprocessed for one in topics),
            "spool_unreadable": sum(one.unreadable for one in topics),
        }

    def _ring(self) -> RingStatus | None:
        return self._server.ring.overlay.status()

    def health(self) -> list[str]:
        """Return why the server is not well; nothing when it is."""
        problems = []
        if self._server.orders is None:
            problems.append("no orders from the manager yet")
        if self._trust.days_left <= 0:
            problems.append("the server's credential has ended: see docs/keys.md, rotation")
        if self._writer.is_full:
            problems.append("the spool's disk is full")
        if self.lost is not None:
            problems.append(str(self.lost))
        errors, now_s = self._server.counts["internal_errors"], time.monotonic()
        if errors > self._errors:
            self._errors, self._errors_s = errors, now_s
        if now_s - self._errors_s < _FAILURE_SHOWN_S:
            problems.append(f"events fail, {errors} since the start: see internal_error in the log")
        return problems + isolation(self._mesh.states())

    def warnings(self) -> list[str]:
        """Return what is wrong around the server, which is well itself."""
        damages = self._server.counts["spool_damages"]
        spool = [f"the spool had lost {damages} places when it was opened: see the log"]
        hung = [
            f"processor {name!r} hung the server and runs outside its loop: see {HUNG_FILE}"
            for name in self._hung
        ]
        return (spool if damages else []) + hung + links_down(self._mesh.states())
