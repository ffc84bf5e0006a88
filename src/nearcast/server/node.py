"""A broker among other servers: the cloud server, and the half of an edge server behind clients.

Every method takes an event and returns `Outputs`. A pass ends by packing: all that it has for one
server travels in one frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from nearcast.broker.messages import decode_message
from nearcast.broker.requests import ProcessResult
from nearcast.errors import NearcastError, WireError
from nearcast.server.broker_desk import BrokerDesk
from nearcast.server.mesh_messages import (
    Advance,
    AllTold,
    Copies,
    CopyNack,
    Forward,
    Hello,
    LoadReport,
    Manages,
    MeshMessage,
    Moved,
    NewOrders,
    Notices,
    Subscribers,
    Unsubscribed,
    decode_mesh,
)
from nearcast.server.node_settings import NodeSettings
from nearcast.server.outputs import Outputs
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.site_orders import Orders
from nearcast.server.stream_targets import StreamTargets
from nearcast.server.subscriber_news import News
from nearcast.spool.changes import LiveTopic

__all__ = ["Node"]

_LARGEST = 1 << 63


class Node(BrokerDesk):
    """A server with a broker.

    Parameters
    ----------
    channels
        To the other servers.
    clock
        The time now, as the `now` of events: to measure what processing takes.
    recovered
        What the spool's log found, by topic.
    """

    def __init__(
        self,
        settings: NodeSettings,
        channels: PeerChannels,
        clock: Callable[[], float],
        recovered: Mapping[str, LiveTopic] | None = None,
    ) -> None:
        super().__init__(settings, channels, clock, recovered)
        self.targets = StreamTargets(settings.server, settings.capacity, settings.default_spool)
        self.orders: Orders | None = None
        self.loop_lag_s = 0.0
        """The longest recent pause of the shell's loop; the shell sets it."""
        self.sessions_open = 0
        self._uninformed: dict[str, None] = {}
        """Servers that have not told of their subscribers since this one started."""
        self._informed_by = float("-inf")
        self._next_report = float("-inf")
        self._said_hello = False

    # Events

    def on_mesh(self, from_server: str, frame: bytes, now: float) -> Outputs:
        """Take a frame of another server."""
        is_known = from_server in self._others or from_server == self.settings.manager
        if self.orders is not None and not is_known:
            self.counts["mesh_strangers"] += 1
            return self._finish(now)
        messages = self._channels.receive(from_server, frame, now)
        for server in self._channels.take_restarted():
            self.subscribers.forget_home(server)
            self.topics.forget_server(server)
            self._introduce(server)
        for server in self._channels.take_gaps():
            self._introduce(server)
        for data in messages:
            try:
                self._on_message(from_server, decode_mesh(data), now)
            except (NearcastError, ValueError, OverflowError) as error:
                self.counts["mesh_refused"] += 1
                self._incident("mesh_refused", server=from_server, reason=str(error))
        return self._finish(now)

    def on_committed(self, tickets: Iterable[int], now: float) -> Outputs:
        """Go on with what has waited for these groups to be durable."""
        self._do(self.broker.on_committed(tickets))
        return self._finish(now)

    def on_processed(self, result: ProcessResult, now: float) -> Outputs:
        """Take what a processor outside made of a batch."""
        self._do(self.broker.on_processed(result, now))
        return self._finish(now)

    def on_timer(self, now: float) -> Outputs:
        """Do what has become due."""
        if now >= self._next_report:
            self._next_report = now + self.settings.report_interval_s
            self._report_load()
        return self._finish(now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return min(self._channels.next_wakeup(), self._next_report)

    def obey(self, orders: Orders, now: float) -> Outputs:
        """Take orders: from the manager, or from the disk at the start."""
        if self.orders is None or orders.revision > self.orders.revision:
            self._take_orders(orders, now)
        return self._finish(now)

    def brokers_of(self, topic: str) -> list[str]:
        """Return all servers that manage a topic, as far as this one knows."""
        return self.topics.brokers_of(topic)

    # Orders and other servers

    def _take_orders(self, orders: Orders, now: float) -> None:
        is_first, self.orders, self._out.orders = self.orders is None, orders, orders
        own, known = self.settings.server, self._others
        self._others = {one.server: None for one in orders.servers if one.server != own}
        for server in self._channels.servers:
            if server not in self._others and server != self.settings.manager:
                self._channels.forget(server)
        self.targets.obey(orders)
        if is_first:
            self._uninformed = dict(self._others)
            self._informed_by = now + self.settings.inform_s
        for actions in self.topics.obey(orders):
            self._do(actions)
        for server in self._others:
            if server not in known:
                self._introduce(server)
        self._incident("orders", revision=orders.revision, plan_version=orders.plan_version)

    def _introduce(self, server: str) -> None:
        """Tell a server what it misses: it or this one began anew, or too much had waited."""
        if server in self._others:
            for topic in self.topics.announced:
                self._send(server, Manages(topic))
            for _, message in self._subscribers_here(server):
                self._send(server, message)
            self._send(server, AllTold())

    def _subscribers_here(self, server: str) -> Iterable[News]:
        return ()

    def is_informed(self, now: float) -> bool:
        """Tell whether all subscribers are known, or some server takes too long to tell."""
        return not self._uninformed or now >= self._informed_by

    # Messages of other servers

    def _on_message(self, server: str, message: MeshMessage, now: float) -> None:
        match message:
            case Notices(notices):
                for notice in notices:
                    self._deliver(notice)
            case Forward():
                self._on_forward(server, message, now)
            case Copies(topic, records):
                copies = [decode_message(topic, record) for record in records]
                self._ensure_managed(topic)
                self.counts["copies"] += len(copies)
                self._do(self.broker.handle_copies(copies, server, now))
            case CopyNack(topic, publisher, epoch, missing):
                found, gone = self.broker.recall(topic, publisher, epoch, missing)
                if found:
                    self._send_copies(server, topic, found)
                if gone:
                    self._send(server, Advance(topic, publisher, epoch, gone))
            case Advance(topic, publisher, epoch, through):
                if not (0 <= epoch < _LARGEST and 0 <= through < _LARGEST):
                    raise WireError("Advance: a number is out of range")
                self._do(self.broker.advance(topic, publisher, epoch, through, now))
            case AllTold():
                self._uninformed.pop(server, None)
            case Subscribers():
                self.subscribers.on_subscribers(server, message)
            case Unsubscribed():
                self.subscribers.on_unsubscribed(server, message)
            case Moved():
                self.subscribers.on_moved(server, message)
            case Manages(topic):
                self._on_manages(server, topic)
            case NewOrders(orders) if server == self.settings.manager:
                if self.orders is None or orders.revision > self.orders.revision:
                    self._take_orders(orders, now)
            case _:
                raise WireError(f"{type(message).__name__} from {server!r} is not expected here")

    def _on_forward(self, server: str, message: Forward, now: float) -> None:
        messages = [decode_message(message.topic, record) for record in message.records]
        if len(messages) != len(message.oldest):
            raise WireError("a Forward does not say what is oldest for each record")
        self._ensure_managed(message.topic)
        for one in messages:
            self._stream_home[one.topic, one.publisher] = server
        self.counts["forwarded_in"] += len(messages)
        if message.durable and not self.is_informed(now):
            self.counts["busy"] += len(messages)
            for one in messages:
                self._refuse_for_now(one)
        else:
            self.take(messages, message.oldest, now, durable=message.durable)

    def _on_manages(self, server: str, topic: str) -> None:
        if self.topics.on_manages(server, topic):
            self._send(server, Manages(topic))

    # The end of a pass

    def _report_load(self) -> None:
        revision = self.orders.revision if self.orders is not None else 0
        if not self._said_hello:
            self._said_hello = True
            self._send(self.settings.manager, Hello(revision))
        if self._channels.waiting(self.settings.manager) > 2:
            return  # it is away: no use to pile up reports
        report = LoadReport(
            revision,
            self.sessions_open,
            len(self.broker.topics),
            self.targets.storage_used,
            self.targets.compute_used,
            self.targets.delegated_streams,
            self.targets.local_streams,
            self.counts["publications"] + self.counts["forwarded_in"],
            self.counts["notifications"],
            self.loop_lag_s,
        )
        self._send(self.settings.manager, report)

    def _finish(self, now: float) -> Outputs:
        self._share_spools()
        self._send_notices()
        out, self._out = self._out, Outputs()
        out.mesh = self._channels.poll(now)
        return out
