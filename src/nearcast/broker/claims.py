"""The claims of a topic and its gate: streams are fenced, yielded and won."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from nearcast.broker.actions import Actions, Ask, Deny, Taken, TakenOver, Yield
from nearcast.broker.doubtful_streams import DoubtfulStreams
from nearcast.broker.ownership import NOBODY, Ownership, StreamClaim, Token
from nearcast.broker.sequence_gate import MARK, SequenceGate
from nearcast.broker.state_transfer import SETTLED, Offer, StateTransfer, offered_to, taken_from
from nearcast.broker.stream_owners import StreamOwners
from nearcast.broker.topic_processing import TopicProcessing
from nearcast.spool.changes import Position
from nearcast.trust.flow_publishers import is_flow_publisher
from nearcast.wire.publication import Publication

__all__ = ["CLAIMED", "TopicClaims"]

CLAIMED = f"{MARK}claimed/"
"""What the streams of servers that have claimed something begin with."""


class TopicClaims:
    """Keeps `Stream.is_owned` of a topic's streams true.

    Parameters
    ----------
    advance
        Stores a stream's position, together with the processor's state.
    """

    def __init__(
        self,
        topic: str,
        ownership: Ownership,
        gate: SequenceGate,
        processing: TopicProcessing,
        advance: Callable[[str, int, int], None],
    ) -> None:
        self._topic, self._gate, self._processing = topic, gate, processing
        self._advance = advance
        self.states = StateTransfer(processing, gate)
        self._whole: dict[str, None] = {}
        """Servers that take the whole topic over, and were not answered yet."""
        self.ownership, self.owners = ownership, StreamOwners(gate.streams, ownership)
        self.claimers: dict[str, None] = {}
        """Servers that streams were yielded to, ever: asked too, whatever the orders say."""
        self._doubtful = DoubtfulStreams()
        self._moved: dict[str, None] = {}
        """Publishers whose claims may be won by now."""

    def restore(self) -> None:
        """Begin with what the gate found in the log."""
        self.states.restore()
        names = [one for one in self._gate.streams if one.startswith(CLAIMED)]
        self.claimers = dict.fromkeys(one.removeprefix(CLAIMED) for one in names)

    @property
    def are_open(self) -> bool:
        """Whether claims are not won or not answered yet."""
        return bool(self.ownership.claims or self._whole or self.states.is_asked_about)

    @property
    def are_doubtful(self) -> bool:
        """Whether streams were won without servers that may own them too."""
        return bool(self._doubtful)

    @property
    def is_blocked(self) -> bool:
        """Whether a server has to wait until another one says if it has the state."""
        return any(not self.states.may_offer(one) for one in self._whole)

    @property
    def _is_active(self) -> bool:
        """Whether something of the topic is processed here, or is about to be."""
        return bool(self.ownership.claims) or any(
            one.is_owned for one in self._gate.streams.values()
        )

    def make_offers(self) -> None:
        """Store that the state is offered to a server, which is answered when that is durable."""
        if not self._whole:
            return
        states = self.states
        if self._is_active:  # the topic has come back meanwhile: its state stays
            self._whole = {}
            self._end_offer(states.withdraw())
        elif all(one.is_durable for one in self._gate.streams.values()):
            server = next((one for one in self._whole if states.may_offer(one)), "")
            number = states.offer(server) if server else 0
            if number:
                self._advance(offered_to(server), 0, number)

    def _end_offer(self, number: int) -> None:
        if number:
            self._advance(SETTLED, 0, number)

    @property
    def are_moved(self) -> bool:
        """Whether claims may be won by now."""
        return bool(self._moved)

    # Claims made here

    def own(
        self,
        publication: Publication,
        home: str | None,
        version: int,
        others: tuple[str, ...],
        now_s: float,
        actions: Actions,
    ) -> bool:
        """Tell whether the stream of a message is owned now; else it waits until it is."""
        publisher, ownership = publication.publisher, self.ownership
        if is_flow_publisher(publisher):  # no other server has any of it
            self._gate.begin(publisher, publication.epoch).own()
            return True
        claim = ownership.claims.get(publisher)
        if claim is None:
            if not ownership.may_claim(publisher, version):
                actions.busy.append((publication, home))
                return False
            others = self._asked(others)
            if not others:
                self._gate.begin(publisher, publication.epoch).own()
                return True
            claim = ownership.claim(publisher, version, others, now_s)
        claim.hold(publication, home, now_s)
        return False

    def expect(self, publisher: str, version: int, others: tuple[str, ...], now_s: float) -> None:
        """Claim a stream whose publisher may send soon, unless another server is known to have it."""
        ownership, others = self.ownership, self._asked(others)
        is_known = publisher in ownership.claims or self.owners.owns(publisher)
        is_free = ownership.strongest(publisher).server in ("", ownership.server)
        if others and is_free and not is_known and ownership.may_claim(publisher, version):
            ownership.claim(publisher, version, others, now_s)

    def _asked(self, others: tuple[str, ...]) -> tuple[str, ...]:
        """Return all servers that may have a stream, besides those that settings name."""
        receiver = self.states.receiver
        receivers = (receiver,) if receiver else ()
        return tuple(dict.fromkeys((*others, *self.claimers, *receivers)))

    def also_ask(self, others: tuple[str, ...]) -> None:
        """Ask servers that were not known when claims were made, and may have streams of these."""
        self.ownership.also_ask(self._asked(others))

    def flush(self, past_brokers: Container[str], actions: Actions) -> None:
        """End a pass: claim what it wants, and yield what is durable."""
        if unsent := self.ownership.take_unsent():
            self._ask(unsent, past_brokers, actions)
        self.yield_durable(actions)

    def repeat(
        self,
        is_away: Callable[[str], bool],
        may_ask: Callable[[str], bool],
        is_known: Callable[[str], bool],
        past_brokers: Container[str],
        actions: Actions,
    ) -> None:
        """Go on without servers that are away or not known any more, and ask the others again."""
        ownership, states, receiver = self.ownership, self.states, self.states.receiver
        if receiver and not is_known(receiver):
            self._on_reported(states.on_reported(receiver, 0), actions)
        unheard = {one for claim in ownership.claims.values() for one in claim.unheard}
        for server in unheard:
            if not is_known(server):
                self._moved.update(dict.fromkeys(ownership.excuse(server)))
        for server in filter(is_away, filter(is_known, unheard)):
            self._moved.update(dict.fromkeys(ownership.give_up(server)))
        if (self.is_blocked or receiver in unheard) and is_away(receiver):
            self._end_offer(states.give_up())
        if states.is_asked_about and may_ask(receiver):  # its answer may be lost with it
            actions.claims.append(Yield(receiver, self._topic, NOBODY, (), states.query()))
        self._ask(ownership.repeated(may_ask), past_brokers, actions)

    def ask_doubtful(
        self,
        may_ask: Callable[[str], bool],
        is_known: Callable[[str], bool],
        past_brokers: Container[str],
        actions: Actions,
    ) -> None:
        """Ask servers that streams were won without, and that may be back, to stop taking them."""
        self._ask(self._doubtful.repeated(may_ask, is_known), past_brokers, actions)

    def _ask(
        self,
        claims: dict[tuple[str, Token], list[str]],
        past_brokers: Container[str],
        actions: Actions,
    ) -> None:
        for (server, token), publishers in claims.items():
            whole = server in past_brokers
            actions.claims.append(Ask(server, self._topic, token, tuple(publishers), whole))

    def on_yielded(
        self,
        server: str,
        token: Token,
        positions: Iterable[Position],
        offer: Offer,
        may_give: bool,
        actions: Actions,
    ) -> None:
        """Note how far streams have come at another server, and which states it has or offers.

        Without `may_give` it keeps its state: it hears so, and its streams are won as well.
        """
        states, number = self.states, offer.number
        is_wanted = self.ownership.waits_for(server, token)
        if is_wanted:  # else it may have said so before it heard of the offer
            self._on_reported(states.on_reported(server, offer.has), actions)
        if number and is_wanted and may_give and states.receiver:
            return  # the own state may be gone: the offer is made again when that is known
        for position in positions:
            self._doubtful.on_yielded(server, token, position.publisher)
            if self.ownership.on_yielded(server, token, position):
                self._moved[position.publisher] = None
        if number and is_wanted and states.may_take(server, number):
            if may_give:
                self._take(offer.state, actions)
                self._advance(taken_from(server), 0, number)
            else:
                actions.states_not_merged += 1
        if number and not states.has_taken(server, number):
            actions.claims.append(Taken(server, self._topic, number, False))

    def on_taken(self, server: str, number: int, taken: bool, actions: Actions) -> None:
        """Begin anew if the state that was offered is durable elsewhere."""
        self._on_reported(self.states.on_answered(server, number, taken), actions)

    def _on_reported(self, ended: tuple[int, bytes], actions: Actions) -> None:
        number, state = ended
        if state:
            self._take(state, actions)
        self._end_offer(number)

    def _take(self, state: bytes, actions: Actions) -> None:
        used, reports = self._processing.take_over(state)
        actions.reports += reports
        actions.states_not_merged += not used

    def may_answer(self, server: str, token: Token, publishers: Iterable[str]) -> bool:
        """Tell whether a server was asked for streams by a claim, and has not answered."""
        doubtful = self._doubtful
        return self.ownership.waits_for(server, token) or (
            bool(doubtful) and any(doubtful.is_asked(server, token, one) for one in publishers)
        )

    def on_denied(self, server: str, publisher: str, token: Token, against: Token) -> None:
        """Lose a claim, also one that was won while the server that denies it was away.

        Both would own the stream: its next message claims it again, by a higher token.
        """
        if self._doubtful.is_asked(server, token, publisher):
            self.ownership.note(publisher, against)
            self._stop(publisher)
        self.ownership.lose(publisher, token, against)

    def _stop(self, publisher: str) -> None:
        """Take no more messages of a stream; what is pending goes on."""
        self._doubtful.drop(publisher)
        stream = self._gate.streams.get(publisher)
        if stream is not None and stream.is_owned:
            stream.is_owned = False
            self._gate.drop_held(stream)

    def forget(self, publisher: str) -> None:
        """Forget who has claimed a stream that nothing was heard of for long."""
        self.ownership.forget(publisher)
        self._doubtful.drop(publisher)

    def on_copied(self, publisher: str) -> None:
        """Note that a stream has advanced by what others sent."""
        if publisher in self.ownership.claims:
            self._moved[publisher] = None

    def win(
        self, now_s: float, actions: Actions
    ) -> tuple[list[StreamClaim], list[tuple[str, Position]]]:
        """Return the claims that are won now, and what others have to send before more are."""
        moved, self._moved = self._moved, {}
        won, lacking = list[StreamClaim](), list[tuple[str, Position]]()
        for publisher in moved:
            claim = self.ownership.claims.get(publisher)
            if claim is None:
                continue
            for server, position in list(claim.unheard.items()):
                if position is not None and self._has_reached(position):
                    del claim.unheard[server]
                    claim.answered[server] = None
                elif position is not None:
                    lacking.append((server, position))
            if not claim.unheard:
                del self.ownership.claims[publisher]
                epoch = max(claim.held)[0] if claim.held else 0
                self._gate.begin(publisher, epoch).own()
                self._doubtful.drop(publisher)
                actions.claimed += 1
                if claim.held:
                    actions.pauses_s.append(now_s - claim.since_s)
                if claim.given_up:
                    lost = TakenOver(self._topic, publisher, claim.given_up)
                    actions.taken_over.append(lost)
                    self._doubtful.add(publisher, claim.token, claim.given_up)
                    # they may have acknowledged what was held: who still waits sends it again
                    actions.busy += [claim.held[one] for one in sorted(claim.held)[-1:]]
                    claim.held.clear()
                won.append(claim)
        return won, lacking

    def _has_reached(self, position: Position) -> bool:
        if not position.sequence and position.publisher not in self._gate.streams:
            return True
        stream = self._gate.begin(position.publisher, position.epoch)
        return stream.position[1:] >= position[1:]

    # Claims of others

    def on_claim(
        self, publishers: Iterable[str], token: Token, whole: bool, actions: Actions
    ) -> None:
        """Stop taking messages of streams that another server claims; what is pending goes on.

        If it takes the `whole` topic over, nothing of it is processed here any more.
        """
        ownership, denied = self.ownership, dict[Token, list[str]]()
        if whole and token.version >= ownership.least_version:
            self._give_up_all(token)
        for publisher in publishers:
            if not ownership.concede(publisher, token):
                denied.setdefault(ownership.strongest(publisher), []).append(publisher)
                continue
            if token.server not in self.claimers:
                self.claimers[token.server] = None
                self._advance(CLAIMED + token.server, 0, 1)
            self._stop(publisher)
        if whole and not ownership.owes(token.server):
            self._whole.pop(token.server, None)  # no answer goes there that could carry the state
        for against, losers in denied.items():
            actions.claims.append(Deny(token.server, self._topic, token, tuple(losers), against))

    def _give_up_all(self, token: Token) -> None:
        self.ownership.least_version = token.version
        self.ownership.claims.clear()
        self._whole[token.server] = None
        self.disown()

    def disown(self) -> None:
        """Take no more messages of any stream: each is claimed again."""
        for publisher in self._gate.streams:
            self._stop(publisher)

    def yield_durable(self, actions: Actions) -> None:
        """Answer claims whose streams are durable here as far as they have come.

        Before that, tell which states are.
        """
        for server, number in self.states.take_told():
            actions.claims.append(Taken(server, self._topic, number))
        owed = self.ownership.owed
        if not owed:
            return
        streams, states = self._gate.streams, self.states
        # a state is given when all that it comes from is durable, to one server at a time
        is_whole = (
            bool(self._whole)
            and not self._is_active
            and all(one.is_durable for one in streams.values())
        )
        yielded: dict[Token, list[Position]] = {}
        for publisher, claims in list(owed.items()):
            stream = streams.get(publisher)
            if stream is None or stream.is_durable:
                position = Position(publisher, 0, 0) if stream is None else stream.position
                for server in list(claims):
                    if self._may_yield(server, is_whole):
                        yielded.setdefault(claims.pop(server), []).append(position)
            if not claims:
                del owed[publisher]
        for token, positions in yielded.items():
            server = token.server
            offer = states.made(server) if server in self._whole else Offer()
            offer = offer._replace(has=states.taken(server) or 0)
            actions.claims.append(Yield(server, self._topic, token, tuple(positions), offer))
        for token in yielded:
            self._whole.pop(token.server, None)

    def _may_yield(self, server: str, is_whole: bool) -> bool:
        states, mark = self.states, self._gate.streams.get(CLAIMED + server)
        if mark is not None and not mark.is_durable:
            return False  # after a restart it has to be asked
        if states.taken(server) is None:
            return False  # it has to hear that its state is here
        return server not in self._whole or (is_whole and states.is_ready(server))
