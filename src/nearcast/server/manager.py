"""The manager towards the servers: who has which orders, who is up, and how loaded they are.

Orders go to servers that were heard lately; any other one asks with `Hello` when it comes back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nearcast.errors import WireError
from nearcast.server.flow_messages import FlowReports
from nearcast.server.manager_state import (
    ClientDirectory,
    ManagerState,
    SiteServer,
    make_orders,
    with_cloud,
)
from nearcast.server.mesh_messages import (
    ClientIs,
    ClockTold,
    Hello,
    LoadReport,
    MeshMessage,
    NewOrders,
    WhereIs,
    decode_mesh,
    encode_mesh,
)
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.signed_orders import sign_orders
from nearcast.trust.credentials import ServerCredential, read_body
from nearcast.trust.revocations import issue_revocations, issue_revoked_servers
from nearcast.trust.signed import SigningKey, read_signed

__all__ = ["Manager", "ManagerSettings"]

_MOST_PAUSES = 10_000
_MOST_AHEAD = 1 << 32
"""Revisions that servers may be ahead of a store that was lost: a lie cannot use them up."""


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    """Timers of a manager."""

    away_after_s: float = 15.0
    """Silence after which a server counts as away."""
    push_interval_s: float = 1.0
    """Least time between two orders to a server: enrolments meanwhile go together."""
    repeat_after_s: float = 3.0
    """When a server that still reports an old revision gets its orders again."""


@dataclass(slots=True)
class _ServerRecord:
    """What is known about a server."""

    heard_at: float = -math.inf
    report_at: float = -math.inf
    revision: int = 0
    sent_revision: int = 0
    sent_at: float = -math.inf
    report: LoadReport | None = None
    flows: FlowReports | None = None


class Manager:
    """A site's manager. Every input returns the frames to send, each with its server.

    Parameters
    ----------
    state
        The site, as the store has it.
    clients
        The clients of the site.
    signer
        The key by which orders and revocations are signed.
    cloud
        The id of the cloud server.
    incarnation
        Of `draw_incarnation`: another one at each start of the manager.
    areas
        Coverage of servers that have their own, where clients have their home where they are;
        None: homes are those of the plan.
    """

    def __init__(
        self,
        state: ManagerState,
        clients: ClientDirectory,
        signer: SigningKey,
        *,
        cloud: str,
        incarnation: int,
        settings: ManagerSettings | None = None,
        areas: Mapping[str, str] | None = None,
    ) -> None:
        self._areas = areas
        self._state, self._clients, self._signer, self._cloud = state, clients, signer, cloud
        self._settings = settings or ManagerSettings()
        self._channels = PeerChannels(incarnation)
        self._records = {name: _ServerRecord() for name in state.servers}
        self.revocations = b""
        """The signed list; empty while there is none."""
        self._revoked_servers: tuple[bytes, ...] = ()
        """The servers in it, for clients."""
        self._sign_revocations()
        self._pauses_s: deque[float] = deque(maxlen=_MOST_PAUSES)
        """How long streams waited for their servers since the plan in force was adopted."""
        self.refused = 0
        """Messages that are invalid or from servers outside this site."""
        self.lost_revocations: list[bytes] = []
        """Lists that servers have and this manager may not know; the shell takes them."""

    @property
    def state(self) -> ManagerState:
        """The site as the servers are told."""
        return self._state

    def install(self, state: ManagerState, now: float) -> list[tuple[str, bytes]]:
        """Go by another state, which the store has already."""
        before, self._state = self._state, state
        if state.versions[-1].version != before.versions[-1].version:
            self._pauses_s.clear()
        if state.revocations.version != before.revocations.version:
            self._sign_revocations()
            for record in self._records.values():
                record.sent_at = -math.inf  # no time is lost with what was revoked
        self._records = {name: self._records.get(name) or _ServerRecord() for name in state.servers}
        return self.on_timer(now)

    def on_mesh(self, from_server: str, data: bytes, now: float) -> list[tuple[str, bytes]]:
        """Take a frame of a server."""
        record = self._records.get(from_server)
        if record is None:
            self.refused += 1
            return []
        for raw in self._channels.receive(from_server, data, now):
            try:
                message = decode_mesh(raw)
            except WireError:
                self.refused += 1
                continue
            self._on_message(from_server, record, message, now)
        return self._channels.poll(now)  # orders are for the timer: not one with each frame

    def on_timer(self, now: float) -> list[tuple[str, bytes]]:
        """Do what is due."""
        for server, record in self._records.items():
            if self._wants_orders(server, record, now) and self._push_at(record) <= now:
                self._push(server, record, now)
                break  # it takes queries and a signature: others get their turn first
        return self._channels.poll(now)

    def next_wakeup(self, now: float) -> float:
        """Return when `on_timer` shall be called at the latest."""
        pushes = (
            self._push_at(record)
            for server, record in self._records.items()
            if self._wants_orders(server, record, now)
        )
        return min(self._channels.next_wakeup(), min(pushes, default=math.inf))

    def highest_revision(self) -> int:
        """Return the highest revision a server has; above ours when our store was lost."""
        return max((record.revision for record in self._records.values()), default=0)

    def flow_reports(self) -> dict[str, FlowReports]:
        """Return what servers last said of flows."""
        return {name: one.flows for name, one in self._records.items() if one.flows is not None}

    def tell(self, server: str, message: MeshMessage, now: float) -> list[tuple[str, bytes]]:
        """Say something to a server."""
        self._channels.send(server, encode_mesh(message))
        return self._channels.poll(now)

    def is_up(self, server: str, now: float) -> bool:
        """Return whether a server was heard lately."""
        return now - self._records[server].heard_at < self._settings.away_after_s

    def status(self, now: float) -> dict[str, Any]:
        """Return what operators want to see, as plain JSON values."""
        state = self._state
        planned, enrolled = self._clients.counts()
        servers = [
            self._server_status(name, server, self._records[name], now)
            for name, server in state.servers.items()
        ]
        return {
            "revision": state.revision,
            "plan_version": state.versions[-1].version,
            "counts": {
                "servers": len(servers),
                "servers_up": sum(server["state"] == "up" for server in servers),
                "topics": len(state.topics),
                "clients_planned": planned,
                "clients_enrolled": enrolled,
                "revocations": len(state.revocations.entries),
                "sessions": sum(server["sessions"] or 0 for server in servers),
                "refused_messages": self.refused + self._channels.refused,
            },
            "servers": servers,
            "switch": self._switch_status(),
            "plans": [
                {
                    "version": one.version,
                    "adopted_at": one.adopted_at,
                    "model": one.model,
                    "method": one.method,
                    "cost": one.cost,
                    "metrics": dict(one.metrics),
                }
                for one in state.versions
            ],
        }

    def _switch_status(self) -> dict[str, Any]:
        """Return how many streams have moved by the plan in force, and how long they waited."""
        pauses_s = sorted(self._pauses_s)
        most = len(pauses_s) - 1
        return {
            "streams": len(pauses_s),
            "pause_p50_s": pauses_s[most // 2] if pauses_s else None,
            "pause_p99_s": pauses_s[math.ceil(0.99 * most)] if pauses_s else None,
        }

    def _on_message(
        self, server: str, record: _ServerRecord, message: MeshMessage, now: float
    ) -> None:
        match message:
            case Hello() | LoadReport():
                self._heard(record, message, now)
                if isinstance(message, LoadReport):
                    told = ClockTold(message.asked_us, int(now * 1e6))
                    self._channels.send(server, encode_mesh(told))
            case FlowReports():
                record.flows = message
            case WhereIs(client):
                order = self._clients.find(client)
                answer = ClientIs(client, with_cloud(order, self._cloud) if order else None)
                self._channels.send(server, encode_mesh(answer))
            case _:
                self.refused += 1

    def _heard(self, record: _ServerRecord, message: Hello | LoadReport, now: float) -> None:
        if not 0 <= message.revision <= self._state.revision + _MOST_AHEAD:
            self.refused += 1
            return
        record.heard_at, record.revision = now, message.revision
        if isinstance(message, LoadReport):
            record.report, record.report_at = message, now
            self._pauses_s.extend(one for one in message.pauses_s if 0 <= one < math.inf)
            if message.revocations:
                self.lost_revocations.append(message.revocations)
            if now - record.sent_at < self._settings.repeat_after_s:
                return  # it may have reported before it got them
        if record.revision != self._state.revision:
            record.sent_revision = 0

    def _wants_orders(self, server: str, record: _ServerRecord, now: float) -> bool:
        # a channel that waits for an acknowledgement repeats by itself
        return (
            self._state.revision not in (record.revision, record.sent_revision)
            and self.is_up(server, now)
            and not self._channels.waiting(server)
        )

    def _push_at(self, record: _ServerRecord) -> float:
        return record.sent_at + self._settings.push_interval_s

    def _push(self, server: str, record: _ServerRecord, now: float) -> None:
        orders = make_orders(
            self._state,
            self._clients,
            server,
            self._cloud,
            now,
            self.revocations,
            self._revoked_servers,
            self._areas,
        )
        document = sign_orders(self._signer, orders)
        self._channels.send(server, encode_mesh(NewOrders(document)))
        record.sent_revision, record.sent_at = self._state.revision, now

    def _sign_revocations(self) -> None:
        revocations = self._state.revocations
        if revocations.version:
            self.revocations = issue_revocations(self._signer, revocations)
            self._revoked_servers = issue_revoked_servers(self._signer, revocations)

    def _server_status(
        self, name: str, server: SiteServer, record: _ServerRecord, now: float
    ) -> dict[str, Any]:
        report = record.report
        streams = report.local_streams + report.delegated_streams if report else 0
        return {
            "id": name,
            "state": "up" if self.is_up(name, now) else "away",
            "revision": record.revision,
            "report_age_s": round(now - record.report_at, 3) if report else None,
            "sessions": report.sessions if report else None,
            "topics": report.topics if report else None,
            "storage_used": report.storage_used if report else None,
            "storage_limit": server.storage if math.isfinite(server.storage) else None,
            "compute_used": report.compute_used if report else None,
            "compute_limit": server.compute if math.isfinite(server.compute) else None,
            "local_share": report.local_streams / streams if report and streams else None,
            "messages": report.messages if report else None,
            "notifications": report.notifications if report else None,
            "loop_lag_s": report.loop_lag_s if report else None,
            "credential_days_left": _days_left(server.order.credential, now),
        }


def _days_left(document: bytes, now: float) -> float | None:
    """Return how long a server's credential counts; None when it has none."""
    if not document:
        return None
    credential = read_body(read_signed(document).body, ServerCredential)
    return round((credential.validity.until_s - now) / 86_400, 1)
