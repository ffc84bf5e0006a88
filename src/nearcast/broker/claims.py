"""The claims of a topic and its gate: streams are fenced, yielded and won."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nearcast.broker.actions import Actions, Ask, Deny, Yield
from nearcast.broker.ownership import Ownership, StreamClaim, Token
from nearcast.broker.sequence_gate import SequenceGate
from nearcast.spool.changes import Position
from nearcast.wire.publication import Publication

__all__ = ["TopicClaims"]


class TopicClaims:
    """Keeps `Stream.is_owned` of a topic's streams true."""

    def __init__(self, topic: str, server: str, gate: SequenceGate) -> None:
        self._topic, self._gate = topic, gate
        self.ownership = Ownership(server)
        self._moved: dict[str, None] = {}
        """Publishers whose claims may be won by now."""

    @property
    def are_open(self) -> bool:
        """Whether claims are not won yet."""
        return bool(self.ownership.claims)

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
        others: Iterable[str],
        now_s: float,
        actions: Actions,
    ) -> bool:
        """Tell whether the stream of a message is owned now; else it waits until it is."""
        publisher, ownership = publication.publisher, self.ownership
        claim = ownership.claims.get(publisher)
        if claim is None:
            if not ownership.may_claim(publisher, version):
                actions.busy.append((publication, home))
                return False
            if not others:
                self._gate.begin(publisher, publication.epoch).is_owned = True
                return True
            claim = ownership.claim(publisher, version, others, now_s)
        claim.hold(publication, home)
        return False

    def flush(self, actions: Actions) -> None:
        """End a pass: claim what it wants, and yield what is durable."""
        self._ask(self.ownership.take_unsent(), actions)
        self.yield_durable(actions)

    def repeat(
        self, is_away: Callable[[str], bool], may_ask: Callable[[str], bool], actions: Actions
    ) -> None:
        """Go on without servers that are away, and ask the others again."""
        ownership = self.ownership
        for server in {one for claim in ownership.claims.values() for one in claim.unheard}:
            if is_away(server):
                self._moved.update(dict.fromkeys(ownership.give_up(server)))
        self._ask(ownership.repeated(may_ask), actions)

    def _ask(self, claims: dict[tuple[str, Token], list[str]], actions: Actions) -> None:
        for (server, token), publishers in claims.items():
            actions.claims.append(Ask(server, self._topic, token, tuple(publishers)))

    def on_yielded(self, server: str, token: Token, positions: Iterable[Position]) -> None:
        """Note how far streams have come at another server, which has given them up."""
        for position in positions:
            if self.ownership.on_yielded(server, token, position):
                self._moved[position.publisher] = None

    def forget(self, publisher: str) -> None:
        """Forget who has claimed a stream that nothing was heard of for long."""
        self.ownership.forget(publisher)

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
                elif position is not None:
                    lacking.append((server, position))
            if not claim.unheard:
                del self.ownership.claims[publisher]
                epoch = max(claim.held)[0] if claim.held else 0
                self._gate.begin(publisher, epoch).is_owned = True
                actions.pauses_s.append(now_s - claim.since_s)
                actions.taken_over += claim.given_up > 0
                won.append(claim)
        return won, lacking

    def _has_reached(self, position: Position) -> bool:
        if not position.sequence and position.publisher not in self._gate.streams:
            return True
        stream = self._gate.begin(position.publisher, position.epoch)
        return stream.position[1:] >= position[1:]

    # Claims of others

    def on_claim(self, publishers: Iterable[str], token: Token, actions: Actions) -> None:
        """Stop taking messages of streams that another server claims; what is pending goes on."""
        ownership, denied = self.ownership, dict[Token, list[str]]()
        for publisher in publishers:
            if not ownership.concede(publisher, token):
                denied.setdefault(ownership.strongest(publisher), []).append(publisher)
                continue
            stream = self._gate.streams.get(publisher)
            if stream is not None and stream.is_owned:
                stream.is_owned = False
                self._gate.drop_held(stream)
        for against, losers in denied.items():
            actions.claims.append(Deny(token.server, self._topic, token, tuple(losers), against))

    def yield_durable(self, actions: Actions) -> None:
        """Answer claims whose streams are durable here as far as they have come."""
        owed = self.ownership.owed
        if not owed:
            return
        yielded: dict[Token, list[Position]] = {}
        for publisher, claims in list(owed.items()):
            stream = self._gate.streams.get(publisher)
            if stream is None or stream.is_durable:
                position = Position(publisher, 0, 0) if stream is None else stream.position
                for token in claims.values():
                    yielded.setdefault(token, []).append(position)
                del owed[publisher]
        for token, positions in yielded.items():
            actions.claims.append(Yield(token.server, self._topic, token, tuple(positions)))
