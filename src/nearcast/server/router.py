"""Routes publications: to the broker here or to the server that processes them, and answers back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from nearcast.broker.actions import Ack, Nack, Refusal
from nearcast.broker.broker import Broker
from nearcast.broker.sequence_gate import Verdict
from nearcast.errors import WireError
from nearcast.server.class_gate import ClassGate
from nearcast.server.effects import Effects
from nearcast.server.expected_streams import ExpectedStreams
from nearcast.server.home_witness import HomeWitness
from nearcast.server.peers import Peers
from nearcast.server.publisher_messages import (
    Forward,
    ForwardAck,
    ForwardBusy,
    ForwardNack,
    ForwardRefuse,
)
from nearcast.server.routes import Routes
from nearcast.server.site_orders import Orders
from nearcast.server.stream_targets import NOBODY, StreamTargets
from nearcast.server.unproved_publications import UnprovedPublications
from nearcast.server.vouching import Vouching
from nearcast.wire.messages import Refuse, RefuseReason, Route
from nearcast.wire.publication import NUMBER_END, Origin, Publication, decode_record

__all__ = ["Publishers", "Router"]

_LONGEST_WAIT_S = 3600.0
_NEWS_S = 2.0
"""How long the orders that another server has may take to come here."""
_LOOK_S = 0.5
"""How often servers that take nothing are looked for."""
_EARLY_LIMIT = 2_000
"""Publications that are held until the subscribers of their topics are known."""
_TOLD = {
    Verdict.STALE_EPOCH: RefuseReason.STALE_EPOCH,
    Verdict.MALFORMED: RefuseReason.OTHER,
    Verdict.TOO_MANY_PUBLISHERS: RefuseReason.TOO_MANY_PUBLISHERS,
    Verdict.NO_SECOND_SERVER: RefuseReason.NO_SECOND_SERVER,
    Verdict.TOO_MANY_TOPICS: RefuseReason.TOO_MANY_TOPICS,
}
"""Refusals that publishers hear of; after others, sending it again may help."""


class Publishers(Protocol):
    """The publishers that have a session with this server."""

    def acknowledge(self, client: str, topic: str, epoch: int, up_to: int, level: int = 1) -> None:
        """Tell a publisher what is durable."""
        ...

    def nack(self, client: str, topic: str, epoch: int, expected: int, missing: int = 1) -> None:
        """Ask a publisher for what is missing."""
        ...

    def busy(self, client: str, retry_after_s: float, topic: str = "") -> None:
        """Ask a publisher to wait."""
        ...

    def tell(self, client: str, message: Refuse | Route) -> None:
        """Tell a publisher that a publication is not taken as it is, or where to publish."""
        ...


class Router:
    """Knows which server processes a stream, and where its publisher hears of it.

    Parameters
    ----------
    publishers
        Those here; None when this server has no clients.
    ensure_managed
        Has this server manage a topic, and tells the others if that is new to them.
    ensure_kept
        The same for what others send: not if it has managed the topic before.
    is_ready
        Tells whether this server takes publications, or urgent ones; else their publishers are
        told to wait.
    knows_subscribers
        Tells whether the subscribers of a topic here are known: what comes before is held.
    is_introduced
        As for `ExpectedStreams`.
    vouching
        Shows the publishers of forwarded messages, and decides about those of other servers.
    witness
        Tells which server a publisher of others may be at.
    takeover_s
        How long another server takes nothing before this one stands in for it.
    classes
        Decide how urgent forwarded publications are.
    """

    def __init__(
        self,
        peers: Peers,
        broker: Broker,
        targets: StreamTargets,
        effects: Effects,
        publishers: Publishers | None,
        ensure_managed: Callable[[str], None],
        ensure_kept: Callable[[str], None],
        is_ready: Callable[[bool], bool],
        knows_subscribers: Callable[[str], bool],
        is_introduced: Callable[[str], bool],
        vouching: Vouching,
        witness: HomeWitness,
        retry_after_s: float,
        takeover_s: float,
        classes: ClassGate,
    ) -> None:
        self._classes = classes
        self._vouching, self._witness = vouching, witness
        self._takeover_s, self._look_at = takeover_s, float("-inf")
        self._peers, self._broker, self._effects = peers, broker, effects
        self.targets = targets
        self.expected = ExpectedStreams(
            peers, broker, targets, vouching, witness, effects, is_introduced
        )
        self._publishers, self._retry_after_s = publishers, retry_after_s
        self._ensure_managed, self._ensure_kept = ensure_managed, ensure_kept
        self._is_ready, self._knows_subscribers = is_ready, knows_subscribers
        self._early: dict[str, list[tuple[Publication, str | None, int | None]]] = {}
        """By topic: what is held, with the homes it came from and the versions they go by."""
        self._early_count = 0
        self._forwards: dict[tuple[str, str, bool], list[Publication]] = {}
        """By target, topic and durability, for the end of the pass."""
        self.on_own_acknowledged: Callable[[ForwardAck], None] = lambda ack: None
        """Is told what is durable of `publish`."""
        self.routes = Routes(publishers) if publishers is not None else None
        self._unproved = UnprovedPublications(effects)
        self._ahead: dict[tuple[str, int], float] = {}
        """Versions of topics' assignments that the orders here do not know, since when."""
        peers.on(Forward, self._on_forward)
        if publishers is not None:
            peers.on(ForwardAck, self._on_ack)
            peers.on(ForwardNack, self._on_nack)
            peers.on(ForwardBusy, self._on_busy)
            peers.on(ForwardRefuse, self._on_refuse)

    def route(self, publication: Publication, now: float) -> None:
        """Bring a publication of a client here to the server that processes it."""
        topic = publication.topic
        target = self.targets.target(topic, publication.publisher)
        if target == self._peers.server:
            self._ensure_managed(topic)
            self._admit(publication, None, now)
        elif target == NOBODY:
            self._effects.counts["visits_refused"] += 1
            if self.routes is not None:
                self.routes.withdraw(publication.publisher, topic)
        else:
            self._effects.counts["forwarded_out"] += 1
            if self.routes is not None and self.targets.is_ordered(topic, publication.publisher):
                self.routes.forwarded(publication.publisher, topic, target, now)
            key = (target, topic, publication.origin is not Origin.ONCE)
            self._forwards.setdefault(key, []).append(publication)

    def publish(self, publication: Publication, now: float) -> None:
        """Have the broker here process what this server publishes itself, no matter who has the topic."""
        self._ensure_managed(publication.topic)
        self._admit(publication, self._peers.server, now)

    def on_informed(self, topics: Iterable[str], now: float) -> None:
        """Let in what was held of topics whose subscribers are known now."""
        for topic in topics:
            held = self._early.pop(topic, ())
            self._early_count -= len(held)
            for publication, home, version in held:
                self._admit(publication, home, now, version)
        self.expected.on_informed(now)

    def _admit(
        self, publication: Publication, home: str | None, now: float, version: int | None = None
    ) -> None:
        if not self._knows_subscribers(publication.topic):
            if self._early_count >= _EARLY_LIMIT:
                self.refuse_for_now(publication, home)
                return
            self._early_count += 1
            held = self._early.setdefault(publication.topic, [])
            held.append((publication, home, version))
        elif publication.origin is Origin.ONCE:
            self._broker.admit_once(publication, home)
        else:
            self._broker.admit(publication, home, now, version)

    def obey(self, orders: Orders) -> None:
        """Route by new orders."""
        self.targets.obey(orders)
        self._witness.obey(orders)
        if self.routes is not None:
            self.routes.obey(orders)
        self._ahead.clear()

    def flush(self) -> None:
        """End a pass: what it has for one server and topic goes together."""
        if self._forwards:
            forwards, self._forwards = self._forwards, {}
            for (target, topic, durable), some in forwards.items():
                records = tuple(one.record() for one in some)
                oldest = tuple(one.oldest for one in some)
                version = self.targets.version(topic)
                self._vouching.show(target, (one.publisher for one in some))
                forward = Forward(topic, records, oldest, durable, version)
                is_urgent = any(one.urgency for one in some)
                (self._peers.send_urgently if is_urgent else self._peers.send)(target, forward)

    def on_timer(self, now: float) -> None:
        """Process what is sent to servers that are away here, until they are back."""
        if self._publishers is None or now < self._look_at:
            return
        self._look_at = now + _LOOK_S
        away = frozenset(
            one for one in self._peers.others if self._peers.is_away(one, now, self._takeover_s)
        )
        if self.targets.set_away(away):
            for server in away:
                self._peers.withdraw(server, Forward)
            self._effects.incident("stands_in", servers=sorted(away))

    # Towards publishers

    def acknowledge(self, ack: Ack) -> None:
        """Say that publications are durable, to their publisher or to its home."""
        topic, publisher, epoch, through, home, level = ack
        if home is not None:
            self._tell_home(home, ForwardAck(topic, publisher, epoch, through, level))
        elif self._publishers is not None:
            self._publishers.acknowledge(publisher, topic, epoch, through, level)

    def ask_again(self, nack: Nack) -> None:
        """Ask for missing publications."""
        topic, publisher, epoch = nack.topic, nack.publisher, nack.epoch
        first, last = nack.missing[0]
        if nack.home is not None:
            message = ForwardNack(topic, publisher, epoch, first, last - first + 1)
            self._tell_home(nack.home, message)
        elif self._publishers is not None:
            self._publishers.nack(publisher, topic, epoch, first, last - first + 1)

    def refuse_for_now(self, publication: Publication, home: str | None) -> None:
        """Ask a publisher to send something again later; those of others are not repeated."""
        self._effects.counts["busy"] += 1
        if publication.origin is not Origin.DIRECT:
            return
        topic, publisher = publication.topic, publication.publisher
        if home is not None:
            self._tell_home(home, ForwardBusy(topic, publisher, self._retry_after_s))
        elif self._publishers is not None:
            self._publishers.busy(publisher, self._retry_after_s, topic)

    def refuse(self, refusal: Refusal, *, is_processed: bool = True) -> None:
        """Tell a publisher, or its home, that a publication will never be taken as it is.

        Parameters
        ----------
        is_processed
            Whether its topic is managed, or could be.
        """
        publication, home = refusal.publication, refusal.home
        reason = _TOLD.get(refusal.reason) if refusal.reason is not None else None
        if refusal.reason is None and not is_processed:
            reason = RefuseReason.NOT_PROCESSED
        if reason is None or publication.origin is Origin.COPY:
            return
        topic, publisher = publication.topic, publication.publisher
        epoch = publication.epoch if refusal.epoch is None else refusal.epoch
        durable = publication.origin is not Origin.ONCE
        if home is not None:
            message = ForwardRefuse(topic, publisher, epoch, publication.sequence, durable, reason)
            self._tell_home(home, message)
        elif self._publishers is not None:
            refuse = Refuse(topic, epoch, publication.sequence, durable, reason)
            self._publishers.tell(publisher, refuse)

    # From and to other servers

    def _tell_home(
        self, home: str, answer: ForwardAck | ForwardNack | ForwardBusy | ForwardRefuse
    ) -> None:
        if home != self._peers.server:
            self._peers.send(home, answer)
        elif isinstance(answer, ForwardAck):  # what is not acknowledged comes again by itself
            self.on_own_acknowledged(answer)

    def _on_forward(self, server: str, message: Forward, now: float) -> None:
        if len(message.records) != len(message.oldest):
            raise WireError("a Forward does not say what is oldest for each record")
        origin = Origin.DIRECT if message.durable else Origin.ONCE
        publications = [decode_record(message.topic, one, origin) for one in message.records]
        allowed = {
            client: self._vouching.allows(server, client, "publish", message.topic, now)
            for client in dict.fromkeys(one.publisher for one in publications)
        }
        if not any(allowed.values()):
            return
        self._ensure_kept(message.topic)
        self._effects.counts["forwarded_in"] += len(publications)
        is_ready, is_ready_for_urgent = self._is_ready(False), self._is_ready(True)
        if message.durable and not (is_ready_for_urgent and self._has_orders_for(message, now)):
            is_ready = is_ready_for_urgent = False
        believed = {one: self._believe(server, one, now) for one in allowed}
        now_us, latest_us = int(now * 1e6), self._effects.site_clock.there_us(now)
        for publication, oldest in zip(publications, message.oldest, strict=True):
            publication.oldest = oldest
            publication.note_arrival(now_us, latest_us)
            if publication.envelope:
                self._classes.judge(publication)
            if not allowed[publication.publisher]:
                continue
            is_taken = is_ready_for_urgent if publication.urgency else is_ready
            if message.durable and not is_taken:
                self.refuse_for_now(publication, server)
            elif not believed[publication.publisher]:
                self._unproved.hold(publication, server, message.version)
            else:
                self._admit(publication, server, now, message.version)

    def _believe(self, server: str, client: str, now: float) -> bool:
        """Tell whether a publisher is at the server that forwards for it."""
        if not self._witness.may_speak(server, client, now):
            self._effects.counts["mesh_not_home"] += 1
            return False
        self._witness.note(server, client)
        return True

    def on_proved(self, home: str, publisher: str, now: float) -> None:
        """Let in what was held of a publisher that is at a home."""
        for publication, version in self._unproved.take(home, publisher, now):
            self._admit(publication, home, now, version)

    def _has_orders_for(self, message: Forward, now: float) -> bool:
        """Tell whether this server need not wait for newer orders, which the home has.

        They tell from where the topic's state moves. When they do not come it goes without them.
        """
        if message.version <= self.targets.version(message.topic):
            return True
        return now - self._ahead.setdefault((message.topic, message.version), now) > _NEWS_S

    def _on_ack(self, server: str, ack: ForwardAck, _now: float) -> None:
        self._check(server, ack.topic, ack.publisher, ack.epoch, ack.through)
        if self._publishers is not None:
            self._publishers.acknowledge(
                ack.publisher, ack.topic, ack.epoch, ack.through, ack.level
            )

    def _on_nack(self, server: str, nack: ForwardNack, _now: float) -> None:
        self._check(server, nack.topic, nack.publisher, nack.epoch, nack.expected, nack.missing)
        if self._publishers is not None:
            self._publishers.nack(
                nack.publisher, nack.topic, nack.epoch, nack.expected, nack.missing
            )

    def _on_busy(self, server: str, busy: ForwardBusy, _now: float) -> None:
        self._check(server, busy.topic, busy.publisher)
        if not 0 <= busy.retry_after_s <= _LONGEST_WAIT_S:
            raise WireError(f"a wait of {busy.retry_after_s} s is out of range")
        if self._publishers is not None:
            self._publishers.busy(busy.publisher, busy.retry_after_s, busy.topic)

    def _on_refuse(self, server: str, message: ForwardRefuse, _now: float) -> None:
        self._check(server, message.topic, message.publisher, message.epoch, message.sequence)
        if max(message.epoch, message.sequence) >= NUMBER_END or message.reason < 0:
            raise WireError("ForwardRefuse: a number is out of range")
        if self._publishers is not None:
            refuse = Refuse(
                message.topic, message.epoch, message.sequence, message.durable, message.reason
            )
            self._publishers.tell(message.publisher, refuse)

    def _check(self, server: str, topic: str, publisher: str, *numbers: int) -> None:
        if numbers and min(numbers) < 0:
            raise WireError("a number is below 0")
        if not self.targets.is_forwarded(topic, publisher, server):
            raise WireError(f"{topic!r} of {publisher!r} was not forwarded to it")
