"""A broker and its surroundings: what it wants done goes to publishers, homes and other brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nearcast.broker.actions import Actions, Nack
from nearcast.broker.broker import Broker
from nearcast.broker.messages import Message, Origin
from nearcast.broker.notifications import OutgoingNotification
from nearcast.broker.sequence_gate import is_well_formed
from nearcast.server.managed_topics import ManagedTopics
from nearcast.server.mesh_channel import MeshChannels
from nearcast.server.mesh_desk import MeshDesk
from nearcast.server.mesh_messages import (
    CopyNack,
    ForwardAck,
    ForwardBusy,
    ForwardNack,
    Manages,
    Notice,
    Notices,
)
from nearcast.server.node_settings import NodeSettings
from nearcast.server.notices import notice_of
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.spool.changes import LiveTopic

__all__ = ["BrokerDesk"]


class BrokerDesk(MeshDesk):
    """A broker among others; see `Node` for the parameters."""

    def __init__(
        self,
        settings: NodeSettings,
        channels: MeshChannels,
        clock: Callable[[], float],
        recovered: Mapping[str, LiveTopic] | None = None,
    ) -> None:
        super().__init__(settings, channels, clock)
        self.subscribers = SubscriberDirectory()
        self.broker = Broker(self.subscribers, clock)
        self.topics = ManagedTopics(settings, self.broker, recovered or {}, self._refuse_topic)
        self._stream_home: dict[tuple[str, str], str] = {}
        """Streams (topic, publisher) that another server forwards to this one."""
        self._settled: dict[tuple[str, str], tuple[int, int]] = {}
        """Epoch and sequence up to which a stream is known to be durable here."""
        self._notices: dict[str, list[Notice]] = {}

    def take(
        self, messages: Sequence[Message], oldest: Sequence[int], now: float, *, durable: bool
    ) -> None:
        """Give messages from their publishers to the broker."""
        if not durable:
            self._do(self.broker.handle_once(messages, now))
            return
        for message, needed in zip(messages, oldest, strict=True):
            stream = (message.topic, message.publisher)
            settled = (message.epoch, needed - 1)
            if settled > self._settled.get(stream, (-1, 0)) and is_well_formed(message):
                # all before is acknowledged: another broker has it, or an earlier life of this one
                self._settled[stream] = settled
                self._do(self.broker.advance(*stream, *settled, now))
        self._do(self.broker.handle(messages, now))

    def _do(self, actions: Actions) -> None:
        if actions.to_store is not None:
            self._out.to_store.append(actions.to_store)
        self._out.to_process += actions.to_process
        self.counts["duplicates"] += actions.duplicates
        for notification in actions.notifications:
            self._route(notification)
        for copy in actions.copies:
            self._send_copies(copy.to_server, copy.topic, copy.messages)
        for ack in actions.acks:
            stream, durable = (ack.topic, ack.publisher), (ack.epoch, ack.through)
            self._settled[stream] = max(durable, self._settled.get(stream, durable))
            if ack.to_server is None:
                self._acknowledge(ack.topic, ack.publisher, ack.epoch, ack.through)
        for nack in actions.nacks:
            self._on_missing(nack)
        for message in actions.busy:
            self.counts["busy"] += 1
            if message.origin is Origin.DIRECT:  # the senders of others do not repeat them
                self._refuse_for_now(message)
        for refusal in actions.refusals:
            reason = refusal.reason.name.lower() if refusal.reason is not None else "not_managed"
            self.counts[f"refused_{reason}"] += 1
        for report in actions.reports:
            self.counts[f"processor_{report.event.value}"] += report.count
            self._incident(
                "processor", topic=report.topic, what=report.event.value, detail=report.detail
            )

    def _on_missing(self, nack: Nack) -> None:
        topic, publisher, epoch, missing = nack.topic, nack.publisher, nack.epoch, nack.missing
        if nack.to_server is None:
            self._ask_again(topic, publisher, epoch, missing[0][0])
        else:
            self._send(nack.to_server, CopyNack(topic, publisher, epoch, missing))

    def _route(self, notification: OutgoingNotification) -> None:
        processed_s = self._clock()
        for home, clients in self.subscribers.by_home(
            notification.topic, notification.recipients
        ).items():
            notice = notice_of(notification, clients, processed_s)
            if home == self.settings.server:
                self._deliver(notice)
            else:
                self._notices.setdefault(home, []).append(notice)

    # Towards publishers and subscribers: an edge server has its own ways on top

    def _deliver(self, notice: Notice) -> None:
        self.counts["notices_without_home"] += len(notice.clients)

    def _acknowledge(self, topic: str, publisher: str, epoch: int, through: int) -> None:
        home = self._stream_home.get((topic, publisher))
        if home is not None:
            self._send(home, ForwardAck(topic, publisher, epoch, through))

    def _ask_again(self, topic: str, publisher: str, epoch: int, expected: int) -> None:
        home = self._stream_home.get((topic, publisher))
        if home is not None:
            self._send(home, ForwardNack(topic, publisher, epoch, expected))

    def _refuse_for_now(self, message: Message) -> None:
        topic, publisher = message.topic, message.publisher
        home, wait_s = self._stream_home.get((topic, publisher)), self.settings.retry_after_s
        if home is not None:
            busy = ForwardBusy(topic, publisher, message.epoch, message.sequence, wait_s)
            self._send(home, busy)

    # Topics

    def _refuse_topic(self, topic: str, reason: str) -> None:
        self.counts["topics_refused"] += 1
        self._incident("topic_refused", topic=topic, reason=reason)

    def _ensure_managed(self, topic: str) -> None:
        """Begin to manage a topic that nobody ordered here; tell all the others."""
        if not self.topics.is_known(topic):
            for actions in self.topics.volunteer(topic):
                self._do(actions)
            self._broadcast(Manages(topic))

    def _share_spools(self) -> None:
        """Copy what was processed here to brokers that may miss it; they drop what they have."""
        for server, topic in self.topics.take_newcomers():
            spool = self.broker.topics[topic].spool.view()
            own = [one for one in spool if one.origin is Origin.DIRECT]
            if own:
                self._send_copies(server, topic, own)

    def _send_notices(self) -> None:
        for home, notices in self._notices.items():
            self._send(home, Notices(tuple(notices)))
        self._notices = {}
