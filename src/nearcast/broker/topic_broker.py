"""The broker of one topic: gate, settlement, processor and spool in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nearcast.broker.acknowledgements import Acknowledgements
from nearcast.broker.actions import Actions, Copy, Nack, Refusal
from nearcast.broker.audiences import SubscriberLookup
from nearcast.broker.claims import TopicClaims
from nearcast.broker.notices import decode_entry, encode_entry
from nearcast.broker.once_gate import OnceGate
from nearcast.broker.ownership import Ownership
from nearcast.broker.processor import Processor, ProcessorWatch
from nearcast.broker.recall import is_durable, recall
from nearcast.broker.replay import Replay, replay
from nearcast.broker.requests import ProcessResult
from nearcast.broker.sequence_gate import Ranges, SequenceGate, Stream, Verdict, is_well_formed
from nearcast.broker.settlement import Deferred, Settlement
from nearcast.broker.topic_processing import TopicProcessing
from nearcast.broker.topic_settings import TopicSettings
from nearcast.broker.topic_spool import TopicSpool
from nearcast.spool.changes import LiveTopic, TopicChange
from nearcast.wire.publication import Origin, Publication

__all__ = ["TopicBroker"]


class TopicBroker:
    """State machine of one topic; `Broker` drives it.

    Parameters
    ----------
    processor
        To be run here; None when a host process has it.
    next_request
        Gives names for requests to the host.
    server
        This server's id, which notifications and claims name.
    incarnation
        Another number after each start of the server.
    first_offset
        What the offsets of its records begin after.
    """

    def __init__(
        self,
        settings: TopicSettings,
        processor: Processor | None,
        lookup: SubscriberLookup,
        clock: Callable[[], float],
        next_request: Callable[[], int],
        watch: ProcessorWatch | None = None,
        server: str = "",
        incarnation: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.processing = TopicProcessing(settings, processor, clock, watch)
        self.spool = TopicSpool(settings.spool, settings.spool_bytes)
        self._server = server
        self.unreadable = 0
        """Records of the log that could not be read."""
        self.durable_end = first_offset
        """Where offsets began in this incarnation, and the highest one whose record is durable."""
        self.is_due = False
        """Whether the broker's pass has to call `run`; the broker sets it."""
        self.urgency = 0  # of the most urgent message of the pass
        self._gate = SequenceGate()
        self._streams = self._gate.streams
        self._settlement = Settlement(
            settings, self.processing, self.spool, self._gate, lookup, clock, next_request, server
        )
        self._settlement.end = first_offset
        self._pending = self._settlement.pending
        self._pending_limit = settings.room
        self._behind: dict[tuple[str, str | None], int] = {}
        """Publishers with missing publications in this pass, with the broker that copies them,
        and up to which."""
        self.claims = TopicClaims(
            settings.topic,
            Ownership(server, incarnation),
            self._gate,
            self.processing,
            self._advance,
        )
        self.acknowledgements = Acknowledgements(settings.topic, self._gate, self.spool, clock)
        self._room_due_s, self._once = float("-inf"), OnceGate(settings.stream_limit)

    @property
    def settings(self) -> TopicSettings:
        """How the topic is managed; other brokers may be put in, for the rest begin anew."""
        return self._settlement.settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        self._settlement.settings = settings

    @property
    def end(self) -> int:
        """The highest offset so far."""
        return self._settlement.end

    @property
    def streams(self) -> int:
        """Publishers that are remembered."""
        return len(self._streams)

    @property
    def waiting(self) -> int:
        """Publications that wait for the processor or are with it."""
        return len(self._settlement)

    def hold_up(self, held_up: bool) -> None:
        """Send publishers back for a while, or no longer."""
        self._settlement.is_held_up = held_up
        self._pending_limit = 0 if held_up else self.settings.room

    def restore(self, live: LiveTopic, actions: Actions, *, durable: bool) -> None:
        """Begin with what a log has of the topic (`durable` here already), or another broker."""
        publications = []
        for entry in live.records:
            try:
                publications.append(decode_entry(self.settings.topic, entry))
            except ValueError:
                self.unreadable += 1
        for publication in publications:
            self.spool.append(publication)
        self._settlement.end = max(live.end, *(one.offset for one in publications), 0)
        self._gate.restore(live.positions.values(), publications)
        actions.reports += self.processing.restore(live.state, live.aside)
        self.claims.restore()
        self._settlement.begin()
        self.durable_end = self.end if durable else 0
        for stream in self._streams.values() if durable else ():
            stream.durable = stream.settled

    def export(self) -> LiveTopic:
        """Return all that another broker needs to go on from here; what waits comes again."""
        streams = self._streams.values()
        settled = {one.publisher: one.settled for one in streams if one.settled is not None}
        state, aside = self.processing.state, self.processing.aside
        topic = LiveTopic(positions=settled, state=state, end=self.end, aside=aside)
        kept = (one for one in self.spool.view() if one.origin is not Origin.ONCE)
        topic.records.extend(map(encode_entry, kept))
        return topic

    def admit(
        self,
        publication: Publication,
        home: str | None,
        now_s: float,
        actions: Actions,
        version: int | None = None,
    ) -> None:
        """Take a publication from its publisher; `run` at the end of the pass does the rest.

        Parameters
        ----------
        home
            The server that forwarded it; None when its publisher has a session here.
        version
            Of the topic's assignment by which it was sent here; None: by which this server goes.
        """
        stream = self._streams.get(publication.publisher)
        if (
            stream is not None
            and publication.sequence == stream.sequence + 1
            and publication.epoch == stream.epoch
            and stream.is_owned
            and not stream.held
            and len(self._pending) < self._pending_limit
        ):
            stream.sequence += 1
            stream.home, stream.wants_ack = home, True
            stream.pending += 1
            self._pending.append(publication)
        else:
            self._admit_unusual(publication, home, now_s, actions, version)

    def _admit_unusual(
        self,
        publication: Publication,
        home: str | None,
        now_s: float,
        actions: Actions,
        version: int | None,
    ) -> None:
        if publication.publisher not in self._streams:
            self._make_room(now_s)
        if self._is_crowded(publication.publisher):
            actions.refusals.append(Refusal(publication, Verdict.TOO_MANY_PUBLISHERS, None, home))
            return
        was_taken = self._gate.took(publication)
        if self._settlement.is_full(publication.origin, publication.urgency) and not was_taken:
            actions.busy.append((publication, home))
            return
        stream = self._streams.get(publication.publisher)
        is_stale = stream is not None and publication.epoch < stream.epoch
        is_owned = stream is not None and stream.is_owned
        if not (is_owned or was_taken or is_stale) and is_well_formed(publication):
            version = self.settings.version if version is None else version
            others = self.settings.asked
            if not self.claims.own(publication, home, version, others, now_s, actions):
                return
        self._skip_settled(publication)
        stream = self._pass_gate(publication, None, actions, home)
        if stream is None:
            return
        stream.home = home
        if publication.sequence <= stream.sequence:
            settings = self.settings
            again = self.acknowledgements.on_duplicate(
                stream, publication.sequence, settings.level, actions
            )
            actions.copies += [
                Copy(server, settings.topic, tuple(again), True)
                for server in settings.keepers
                if again
            ]

    def expect(self, publisher: str, now_s: float) -> None:
        """Claim the stream of a publisher that may send soon, while there is room."""
        settings = self.settings
        if self.streams + len(self.claims.ownership.claims) < settings.stream_limit // 2:
            self.claims.expect(publisher, settings.version, settings.asked, now_s)

    def _is_crowded(self, publisher: str) -> bool:
        """Tell whether a publisher is unknown, and there is no room for it."""
        claims = self.claims.ownership.claims
        return (
            self.streams + len(claims) >= self.settings.stream_limit
            and publisher not in self._streams
            and publisher not in claims
        )

    def _make_room(self, now_s: float) -> None:
        """Forget publishers that were idle for long, if there are many.

        Of no others: what they have sent and not heard an acknowledgement of could be taken again.
        """
        settings = self.settings
        if self.streams < settings.stream_limit // 2 or now_s < self._room_due_s:
            return
        self._room_due_s = now_s + settings.stream_idle_s
        for publisher in self._gate.forget_idle():
            self.claims.forget(publisher)
            self._settlement.forgotten.append(publisher)

    def _skip_settled(self, publication: Publication) -> None:
        """Go on where the publisher is: all before was acknowledged, here or elsewhere."""
        place = publication.epoch, min(publication.oldest, publication.sequence) - 1
        stream = self._streams.get(publication.publisher)
        known = (stream.epoch, stream.sequence) if stream is not None else (-1, 0)
        if place > known and place[1] > 0 and self._gate.may_take(publication):
            self.advance(publication.publisher, *place)

    def admit_copy(self, publication: Publication, copied_by: str, actions: Actions) -> None:
        """Take a publication that another broker of the topic copied here."""
        if self._is_crowded(publication.publisher):
            actions.refusals.append(Refusal(publication, Verdict.TOO_MANY_PUBLISHERS))
        elif self._settlement.is_full(Origin.COPY) and not self._gate.took(publication):
            actions.busy.append((publication, None))
        else:
            self._pass_gate(publication, copied_by, actions)
            self.claims.on_copied(publication.publisher)
            if self.settings.level > 1 and (stream := self._streams.get(publication.publisher)):
                self.acknowledgements.secure(stream.position, actions)  # who copies has it durably

    def _pass_gate(
        self,
        publication: Publication,
        copied_by: str | None,
        actions: Actions,
        home: str | None = None,
    ) -> Stream | None:
        """Put what the gate lets through into the queue; return the stream if it is known."""
        verdict, released = self._gate.admit(publication)
        stream = self._streams.get(publication.publisher)
        if stream is None or verdict in (Verdict.MALFORMED, Verdict.STALE_EPOCH):
            epoch = stream.epoch if stream is not None and verdict is Verdict.STALE_EPOCH else None
            actions.refusals.append(Refusal(publication, verdict, epoch, home))
            return None
        behind = (publication.publisher, copied_by)
        if verdict is Verdict.TAKEN:
            self._push(stream, released)
        elif verdict is Verdict.DUPLICATE:
            actions.duplicates += 1
            if publication.sequence > stream.sequence:  # it still waits, and so does its publisher
                self._behind.setdefault(behind, 0)
        elif verdict is Verdict.HELD:
            actions.held += 1
            self._behind.setdefault(behind, 0)
        else:
            self._behind[behind] = max(self._behind.get(behind, 0), publication.sequence)
        return stream

    def _push(self, stream: Stream, released: Iterable[Publication]) -> None:
        for one in released:
            self._pending.append(one)
            stream.pending += 1
            if one.origin is Origin.DIRECT:
                stream.wants_ack = True
            else:
                self._settlement.is_mixed = True

    def admit_once(self, publication: Publication, home: str | None, actions: Actions) -> None:
        """Take a publication without acknowledgement: newer ones than before, gaps or not."""
        verdict, epoch = self._once.judge(publication)
        if verdict is Verdict.DUPLICATE:
            actions.duplicates += 1
        elif verdict is not Verdict.TAKEN:
            actions.refusals.append(Refusal(publication, verdict, epoch, home))
        elif self._settlement.is_full(Origin.ONCE, publication.urgency):
            actions.busy.append((publication, None))
        else:
            self._once.note(publication)
            self._pending.append(publication)

    def advance(self, publisher: str, epoch: int, through: int) -> None:
        """Stop waiting for a publisher's messages up to `through`: they are settled elsewhere."""
        if not self._is_crowded(publisher):
            self._advance(publisher, epoch, through)

    def _advance(self, publisher: str, epoch: int, through: int) -> None:
        known = self._streams.get(publisher)
        before = known.position if known is not None else None
        released = self._gate.advance(publisher, epoch, through)
        stream = self._streams[publisher]
        self._push(stream, released)
        reached = stream.position
        self.claims.on_copied(publisher)
        if reached != before:
            self._pending.append(reached)
            self._settlement.is_mixed = True
            stream.pending += 1

    def begin(self, now_s: float, actions: Actions) -> None:
        """Process what the pass has brought, where nothing comes before; `run` does the rest."""
        if not (self._behind or self.claims.are_moved or self.claims.are_open):
            self._settlement.begin_batch(now_s, actions)

    def run(self, now_s: float, actions: Actions) -> Deferred:
        """Do what the pass has brought: process, spool, ask for what is missing."""
        if self.claims.are_moved:
            self._win_claims(now_s, actions)
        if self._behind:
            self._ask_for_missing(now_s, actions)
        self.claims.make_offers()
        if self.urgency:
            self._settlement.has_urgent, self.urgency = True, 0
        deferred = self._settlement.advance(now_s, actions)
        self.acknowledgements.answer_copies(actions)
        self.claims.flush(self._settlement.settings.past_brokers, actions)
        return deferred

    def _win_claims(self, now_s: float, actions: Actions) -> None:
        """Take what waited for claims that are won, and ask for what those still lack."""
        won, lacking = self.claims.win(now_s, actions)
        for server, position in lacking:
            behind = (position.publisher, server)
            self._behind[behind] = max(self._behind.get(behind, 0), position.sequence)
        if won and self.settings.strangers:
            self.settings = self.settings.without_strangers(one.answered for one in won)
        for claim in won:
            for _, (publication, home) in sorted(claim.held.items()):
                self.admit(publication, home, now_s, actions)

    def _ask_for_missing(self, now_s: float, actions: Actions) -> None:
        behind, self._behind = self._behind, {}
        for (publisher, copied_by), through in behind.items():
            stream = self._streams[publisher]
            missing = self._gate.missing(publisher, through)
            if not missing or not stream.may_ask(missing[-1][1], now_s):
                continue  # they came later in this pass, or are on their way
            actions.nacks.append(
                Nack(self.settings.topic, publisher, stream.epoch, missing, stream.home, copied_by)
            )

    def on_processed(self, result: ProcessResult, now_s: float, actions: Actions) -> Deferred:
        """Go on with what the host made of a batch."""
        return self._settlement.on_processed(result, now_s, actions)

    def on_durable(self, change: TopicChange, actions: Actions) -> None:
        """Note that a change is synced; acknowledge what publishers wait for."""
        self.durable_end = max(self.durable_end, change.end)
        self.acknowledgements.on_durable(change.positions, self._settlement.settings.level, actions)
        self.claims.yield_durable(actions)

    def replay(self, since: int, through: int, client: str) -> Replay:
        """Return the notifications after an offset again, for one client or for all."""
        return replay(self.spool.view(), self._server, since, through, client)

    def recall(self, publisher: str, epoch: int, missing: Ranges) -> tuple[list[Publication], int]:
        """Return what is still spooled of missing messages, and the last one that is not, or 0."""
        return recall(self.spool, publisher, epoch, missing, self._streams.get(publisher))

    def durable_messages(self) -> list[Publication]:
        """Return all that is spooled and that no crash can undo."""
        stream_of = self._streams.get
        return [one for one in self.spool.view() if is_durable(one, stream_of(one.publisher))]
