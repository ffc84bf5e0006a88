"""The broker among the other parts: what it wants done goes to publishers, homes and brokers."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping

from msgspec import structs

from nearcast.broker.actions import Actions, Copy, Nack
from nearcast.broker.broker import Broker
from nearcast.broker.deferred_groups import Tap
from nearcast.broker.processor import ProcessorWatch
from nearcast.broker.sequence_gate import Verdict
from nearcast.errors import WireError
from nearcast.server.authorise import Authoriser
from nearcast.server.broker_messages import Advance, Copies, CopyAck, CopyNack
from nearcast.server.claim_check import ClaimCheck
from nearcast.server.claims import Claims
from nearcast.server.delivery import Delivery
from nearcast.server.early_copies import EarlyCopies
from nearcast.server.effects import Effects
from nearcast.server.home_witness import HomeWitness
from nearcast.server.mesh_messages import Forgets, Manages, SpoolDamaged
from nearcast.server.peers import Peers
from nearcast.server.router import Router
from nearcast.server.server_settings import ServerSettings
from nearcast.server.shown_orders import ShownOrders
from nearcast.server.site_orders import Orders
from nearcast.server.spool_shares import SpoolShares
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.topic_expiry import TopicExpiry
from nearcast.server.topic_proofs import TopicProofs
from nearcast.server.topic_registry import TopicRegistry
from nearcast.server.vouching import Vouching
from nearcast.spool.changes import AFTER_DAMAGE, GENERATION, LiveTopic
from nearcast.wire.publication import NUMBER_END, Origin, Publication, decode_record

__all__ = ["BrokerPart"]


class BrokerPart:
    """A broker, the registry of its topics, and what follows from its actions.

    `connect` gives it the parts that its actions go to.

    Parameters
    ----------
    tap, next_ticket
        As for `Broker`.
    """

    def __init__(
        self,
        settings: ServerSettings,
        peers: Peers,
        directory: SubscriberDirectory,
        effects: Effects,
        authoriser: Authoriser,
        clock: Callable[[], float],
        recovered: Mapping[str, LiveTopic],
        damages: int,
        watch: ProcessorWatch | None,
        tap: Tap,
        next_ticket: Callable[[], int],
    ) -> None:
        self._peers, self._effects, self._authoriser = peers, effects, authoriser
        self._is_damaged = damages > 0
        """Whether the log has lost something that other brokers have not yet been asked for."""
        effects.counts["spool_damages"] += damages
        self.is_stalled = False
        """Whether the disk is so far behind that no copies are taken; the server sets it."""
        self._put_off: dict[tuple[str, str], None] = {}
        """Servers and topics whose copies were not taken, and are to be asked for."""
        generations = [one.end // GENERATION for one in recovered.values()]
        if not generations:
            generations = [AFTER_DAMAGE if damages else 0]
        self.start = min(generations) * GENERATION
        """No offset that is given from now on is lower."""
        self.broker = Broker(
            directory.table,
            clock,
            watch=watch,
            server=settings.server,
            incarnation=peers.incarnation,
            first_offset=max(generations) * GENERATION,
            tap=tap,
            next_ticket=next_ticket,
        )
        refuse, tables = self._refuse_topic, effects.tables
        self.topics = TopicRegistry(settings, self.broker, recovered, refuse, tables)
        self.early_copies = EarlyCopies(effects)
        self.claims = Claims(peers, self.broker, self.topics, settings.takeover_s, effects.counts)
        self._expiry = TopicExpiry(
            self.broker,
            lambda topic: self.topics.is_ordered(topic) or bool(directory.table.subscribers(topic)),
            settings.topic_idle_s,
        )
        self._shares = SpoolShares(effects, self._size_for)
        self._has_orders = False
        self._delivery: Delivery
        self._router: Router
        self.proofs: TopicProofs
        self._on_expired: Callable[[str], None]
        self._on_begun: Callable[[Iterable[str]], None]
        self._begun: dict[str, None] = {}
        """Topics here whose subscribers were asked for."""
        self._introduced: dict[tuple[str, str], None] = {}
        """Second servers that were told that this one is a broker of a topic."""
        peers.on(Copies, self._on_copies)
        peers.on(CopyAck, self._on_copy_ack)
        peers.on(CopyNack, self._on_copy_nack)
        peers.on(Advance, self._on_advance)
        peers.on(Manages, self._on_manages)
        peers.on(SpoolDamaged, self._on_spool_damaged)

    def connect(
        self,
        delivery: Delivery,
        router: Router,
        vouching: Vouching,
        shown: ShownOrders,
        witness: HomeWitness,
        on_begun: Callable[[Iterable[str]], None],
        on_expired: Callable[[str], None],
    ) -> None:
        """Take the parts that notifications and answers to publishers go through.

        Parameters
        ----------
        on_begun
            Is told of topics that are new here: their subscribers are not known.
        on_expired
            Is told of a topic that was given up.
        """
        self._delivery, self._router = delivery, router
        self._on_begun, self._on_expired = on_begun, on_expired
        self.proofs = TopicProofs(self._peers, self.broker, self.topics, vouching, witness)
        check = ClaimCheck(self.topics, vouching, shown, witness, self._effects)
        self.claims.connect(check, vouching)

    def obey(self, orders: Orders, now: float) -> None:
        """Manage topics as new orders say; what came before is processed as it was ordered."""
        self._has_orders = True
        self.proofs.forget()
        self._shares.forget(frozenset(one.server for one in orders.servers))
        self.do(self.broker.run(now))
        for actions in self.topics.obey(orders):
            self.do(actions)
        self._look_for_new(self.broker.topics)
        for server, topic in self.topics.take_farewells():
            self._peers.send(server, Manages(topic, past=True))
        self.on_brokers_changed(now)
        if self._is_damaged:
            self._is_damaged = False
            for topic, managed in self.broker.topics.items():
                for server in managed.settings.other_brokers:
                    self._peers.send(server, SpoolDamaged(topic))

    def ensure_kept(self, topic: str) -> None:
        """Take what other servers send of a topic, though nobody ordered it here."""
        if topic not in self.broker.topics:
            self.ensure_managed(topic)

    def ensure_managed(self, topic: str) -> None:
        """Begin to manage a topic that nobody ordered here; tell all the others.

        Without any orders its processor is not known: what comes then is refused.
        """
        if self._has_orders and not self.topics.is_known(topic):
            for actions in self.topics.volunteer(topic, self._peers.others):
                self.do(actions)
            if self.topics.is_known(topic):
                self._peers.broadcast(Manages(topic))
                self._look_for_new((topic,))

    def _look_for_new(self, topics: Iterable[str]) -> None:
        begun = [topic for topic in topics if topic not in self._begun]
        if begun:
            self._begun.update(dict.fromkeys(begun))
            self._on_begun(begun)

    def on_timer(self, now: float) -> None:
        """Repeat claims, and give up topics that nobody uses."""
        self.claims.on_timer(now)
        for topic in self._expiry.take_idle(now):
            self.do(self.broker.expire_topic(topic))
            self.topics.forget(topic)
            self._begun.pop(topic, None)
            self._on_expired(topic)
            self._peers.broadcast(Forgets(topic))
            self._effects.counts["topics_expired"] += 1
            self._effects.incident("topic_expired", topic=topic)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return min(
            self.claims.next_wakeup(), self._expiry.next_wakeup(), self._shares.next_wakeup()
        )

    def finish(self, now: float) -> None:
        """End a pass: share spools with brokers that are new, process what it brought."""
        for server, topic in self.topics.take_newcomers():
            self._shares.ask(server, topic, bulk=True)
        for server, topic, bulk in self._shares.take(now):
            self._share(server, topic, bulk)
        if self.broker.has_work:
            self.do(self.broker.run(now))
            self.claims.note(now)
        if self._put_off and not self.is_stalled:
            put_off, self._put_off = self._put_off, {}
            for server, topic in put_off:
                self._peers.send(server, SpoolDamaged(topic))

    def do(self, actions: Actions) -> None:
        """Carry out what the broker wants."""
        effects = self._effects
        counts, out = effects.counts, effects.out
        if actions.to_store is not None:
            out.to_store.append(actions.to_store)
        if actions.notifications:
            self._delivery.send(actions.notifications)
        for ack in actions.acks:
            self._router.acknowledge(ack)
        out.to_process += actions.to_process
        for copy in actions.copies:
            self._copy(copy)
        for server, topic, position in actions.copy_acks:
            self._peers.send(server, CopyAck(topic, position))
        for nack in actions.nacks:
            self._ask_for_missing(nack)
        for publication, home in actions.busy:
            self._router.refuse_for_now(publication, home)
        if actions.claims:
            self.claims.send(actions.claims)
        if actions.states_not_merged:
            counts["states_not_merged"] += actions.states_not_merged
            effects.incident("state_not_merged", count=actions.states_not_merged)
        if actions.claimed:
            out.pauses_s += actions.pauses_s
            effects.pauses_s.extend(actions.pauses_s)
            counts["streams_claimed"] += actions.claimed
            effects.note_taken_over(actions.taken_over)
            self.claims.tell_given_up(actions.taken_over)
        if actions.duplicates:
            counts["duplicates"] += actions.duplicates
        for refusal in actions.refusals:
            if refusal.reason is None and self.topics.is_full:
                refusal = structs.replace(refusal, reason=Verdict.TOO_MANY_TOPICS)
            reason = refusal.reason.name.lower() if refusal.reason is not None else "not_managed"
            counts[f"refused_{reason}"] += 1
            is_processed = refusal.publication.topic not in self.topics.refused
            self._router.refuse(refusal, is_processed=is_processed)
        for topic, error in actions.failures:
            counts["internal_errors"] += 1
            trace = "".join(traceback.format_exception(error))
            effects.incident("internal_error", topic=topic, error=trace)
        for report in actions.reports:
            effects.note_processor(report)

    def _ask_for_missing(self, nack: Nack) -> None:
        if nack.copied_by is None:
            self._router.ask_again(nack)
        else:
            message = CopyNack(nack.topic, nack.publisher, nack.epoch, nack.missing)
            self._peers.send(nack.copied_by, message)

    def _refuse_topic(self, topic: str, reason: str) -> None:
        self._effects.counts["topics_refused"] += 1
        self._effects.incident("topic_refused", topic=topic, reason=reason)

    # Messages of other brokers

    def _on_manages(self, server: str, message: Manages, now: float) -> None:
        topic = message.topic
        if self.topics.on_manages(server, topic, past=message.past):
            self.proofs.announce(server, topic)
        self.broker.claims.on_rumour(topic)
        if message.publisher and not message.past:
            self.proofs.look(server, topic, message.publisher, now)
        self.on_brokers_changed(now)

    def on_proved(self, server: str, publisher: str, now: float) -> None:
        """Take what waited until it was known where a publisher is."""
        self.proofs.on_proved(server, publisher)
        self.on_brokers_changed(now)

    def on_brokers_changed(self, now: float) -> None:
        """Take copies that came before their sender was known as a broker."""
        if self.early_copies:
            for server, message in self.early_copies.take(self.topics.is_broker, now):
                self._on_copies(server, message, now)

    def _on_copies(self, server: str, message: Copies, now: float) -> None:
        topic = message.topic
        if not self.topics.is_broker(server, topic):
            self.early_copies.keep(server, message, now)
            return
        if self.is_stalled:
            self._effects.counts["copies_put_off"] += len(message.records)
            self._put_off[server, topic] = None
            return
        copies = [decode_record(topic, record, Origin.COPY) for record in message.records]
        if not self.proofs.may_copy(server, topic, copies, now):
            self.early_copies.keep(server, message, now)
            return
        copies = [copy for copy in copies if self._may_copy(server, copy)]
        self.ensure_kept(topic)
        self._effects.counts["copies"] += len(copies)
        for copy in copies:
            copy.note_arrival(int(now * 1e6), self._effects.site_clock.there_us(now))
            self.broker.admit_copy(copy, server)
        if message.wants_ack:
            self.broker.owe_copies(topic, dict.fromkeys(one.publisher for one in copies), server)

    def _on_copy_ack(self, server: str, ack: CopyAck, _now: float) -> None:
        managed = self.broker.topics.get(ack.topic)
        if managed is not None and server not in managed.settings.keepers:
            raise WireError(f"it keeps no copies of {ack.topic!r}")
        _, epoch, sequence = ack.position
        if not (0 <= epoch < NUMBER_END and 0 <= sequence < NUMBER_END):
            raise WireError("CopyAck: a number is out of range")
        self.broker.on_copy_ack(ack.topic, ack.position)

    def _copy(self, copy: Copy) -> None:
        server, topic = copy.to_server, copy.topic
        if not self.topics.is_broker(server, topic) and (server, topic) not in self._introduced:
            # it keeps copies of brokers only
            self._introduced[server, topic] = None
            self._peers.send(server, Manages(topic))
        self._peers.send_copies(
            server, topic, copy.publications, bulk=copy.is_bulk, wants_ack=copy.wants_ack
        )

    def _may_copy(self, server: str, copy: Publication) -> bool:
        """Tell whether nothing speaks against a copy: its publisher may have left long ago.

        A server that no orders name has nothing of streams that others have.
        """
        client, topic = copy.publisher, copy.topic
        managed = self.broker.topics.get(topic)
        is_refused = (
            managed is not None
            and not self.topics.is_named(server, topic, past=True)
            and managed.claims.owners.is_anothers(server, client)
        ) or (
            self._authoriser.knows(client)
            and self._authoriser.authorise(client, "publish", copy.topic) is not None
        )
        self._effects.counts["mesh_not_allowed"] += is_refused
        return not is_refused

    def _on_copy_nack(self, server: str, nack: CopyNack, now: float) -> None:
        # whether it is known here as a broker does not matter: a server that stood in for others
        # may never have heard of the one that has claimed the stream since
        topic, publisher, epoch = nack.topic, nack.publisher, nack.epoch
        managed = self.broker.topics.get(topic)
        is_asked_for = managed is not None and (
            server in managed.settings.keepers
            or managed.claims.owners.has_claimed(server, publisher)
        )
        if not is_asked_for and not self.topics.is_proved(server, topic):
            raise WireError(f"it has not claimed {topic!r} of {publisher!r}")
        found, gone = self.broker.recall(topic, publisher, epoch, nack.missing)
        after = Advance(topic, publisher, epoch, gone) if gone else None
        self._peers.send_missing(server, topic, found, after)

    def _on_spool_damaged(self, server: str, message: SpoolDamaged, _now: float) -> None:
        self._shares.ask(server, message.topic, bulk=False)

    def _share(self, server: str, topic: str, bulk: bool) -> None:
        """Send a spool: what the other one has comes as repetitions, without effect.

        To one that lost something all that is durable, and before any answer to its claims, which
        would let it go on without them.
        """
        if bulk:
            self.broker.share(topic, server)
        else:
            self._peers.send_copies(server, topic, self.broker.topics[topic].durable_messages())

    def _size_for(self, server: str, topic: str) -> int | None:
        """Return the size of a spool that a server may have."""
        managed = self.broker.topics.get(topic)
        if managed is None or server not in managed.settings.keepers:
            return None
        return managed.spool.size_bytes

    def _on_advance(self, server: str, advance: Advance, now: float) -> None:
        if not self.topics.is_broker(server, advance.topic):
            raise WireError(f"it is not a broker of {advance.topic!r}")
        if not (0 <= advance.epoch < NUMBER_END and 0 <= advance.through < NUMBER_END):
            raise WireError("Advance: a number is out of range")
        self.broker.advance(advance.topic, advance.publisher, advance.epoch, advance.through)
