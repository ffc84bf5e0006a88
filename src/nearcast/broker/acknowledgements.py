"""When publishers hear that their messages are safe: durable here (level 1), or on two servers.

At level 2 the copies for other servers want an answer, and an acknowledgement says how far both
sides are. A message that no second server has in time is refused, never acknowledged at level 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nearcast.broker.actions import Ack, Actions, CopiesDurable, Refusal
from nearcast.broker.recall import recall
from nearcast.broker.sequence_gate import SequenceGate, Stream, Verdict
from nearcast.broker.topic_spool import TopicSpool
from nearcast.spool.changes import Position
from nearcast.wire.publication import Publication

__all__ = ["Acknowledgements"]


class Acknowledgements:
    """What a topic's publishers and copying brokers are told once something is durable.

    Parameters
    ----------
    clock
        Tells since when a message waits for a second server.
    """

    def __init__(
        self, topic: str, gate: SequenceGate, spool: TopicSpool, clock: Callable[[], float]
    ) -> None:
        self._topic, self._gate, self._spool, self._clock = topic, gate, spool, clock
        self._secured: dict[str, Position] = {}
        """How far a second server has each publisher's messages, durably."""
        self._unsecured: dict[str, float] = {}
        """Publishers whose durable messages wait for a second server, since when."""
        self._owed: dict[tuple[str, str], Position | None] = {}
        """Publishers and the brokers that copy them here: what those were told."""

    @property
    def are_due(self) -> bool:
        """Whether messages wait for a second server."""
        return bool(self._unsecured)

    def on_durable(self, positions: Iterable[Position], level: int, actions: Actions) -> None:
        """Note that positions are synced; acknowledge what publishers wait for."""
        streams, topic = self._gate.streams, self._topic
        for position in positions:
            stream = streams.get(position.publisher)
            if stream is None:
                continue
            known = stream.durable
            if known is None or known[1:] < position[1:]:
                stream.durable = position
            if stream.wants_ack and stream.epoch == position.epoch:
                if level > 1:
                    self._acknowledge_secured(stream, actions)
                    continue
                actions.acks.append(Ack(topic, *position, stream.home))
                stream.wants_ack = stream.sequence > position.sequence
        self.answer_copies(actions)

    def on_duplicate(
        self, stream: Stream, sequence: int, level: int, actions: Actions
    ) -> list[Publication]:
        """Acknowledge a repeated message; return what has to be copied again for that."""
        stream.wants_ack = True
        durable = stream.durable
        if durable is None or durable.epoch != stream.epoch or sequence > durable.sequence:
            return []
        if level == 1:
            ack = Ack(self._topic, stream.publisher, *durable[1:], stream.home)
            if ack not in actions.acks:
                actions.acks.append(ack)
            return []
        if self._acknowledge_secured(stream, actions) >= sequence:
            return []
        missing = ((sequence, sequence),)
        return recall(self._spool, stream.publisher, stream.epoch, missing, stream)[0]

    # Level 2 where messages are processed

    def secure(self, position: Position, actions: Actions) -> None:
        """Note that another server has messages, durably."""
        known = self._secured.get(position.publisher)
        if known is None or known[1:] < position[1:]:
            self._secured[position.publisher] = position
        stream = self._gate.streams.get(position.publisher)
        if stream is not None and stream.wants_ack:
            self._acknowledge_secured(stream, actions)

    def _acknowledge_secured(self, stream: Stream, actions: Actions) -> int:
        """Acknowledge what is durable on both servers; return up to which sequence."""
        publisher, reached = stream.publisher, 0
        durable, secured = stream.durable, self._secured.get(publisher)
        if durable is None or durable.epoch != stream.epoch:
            return 0
        if secured is not None and secured.epoch == stream.epoch:
            reached = min(durable.sequence, secured.sequence)
            actions.acks.append(Ack(self._topic, publisher, stream.epoch, reached, stream.home, 2))
            stream.wants_ack = stream.sequence > reached
        if durable.sequence > reached:
            self._unsecured.setdefault(publisher, self._clock())
        else:
            self._unsecured.pop(publisher, None)
        return reached

    def refuse_unsecured(self, now_s: float, patience_s: float, actions: Actions) -> None:
        """Refuse messages that no second server has taken for a while."""
        for publisher, since_s in list(self._unsecured.items()):
            stream = self._gate.streams.get(publisher)
            if now_s - since_s < patience_s and stream is not None:
                continue
            del self._unsecured[publisher]
            if stream is None or stream.durable is None:
                continue
            secured = self._secured.get(publisher)
            is_known = secured is not None and secured.epoch == stream.epoch
            first = secured.sequence + 1 if is_known and secured is not None else 1
            missing = ((first, stream.durable.sequence),)
            found, _ = recall(self._spool, publisher, stream.epoch, missing, stream)
            stream.wants_ack = stream.sequence > stream.durable.sequence
            for one in found:
                refusal = Refusal(one, Verdict.NO_SECOND_SERVER, None, stream.home)
                actions.refusals.append(refusal)

    # Level 2 where the copies are

    def owe(self, publisher: str, server: str) -> None:
        """Note that a broker wants to know when what it copied here is durable."""
        self._owed.setdefault((publisher, server), None)

    def answer_copies(self, actions: Actions) -> None:
        """Tell brokers how far their copies are durable here."""
        for (publisher, server), told in list(self._owed.items()):
            stream = self._gate.streams.get(publisher)
            if stream is None or stream.is_durable:
                del self._owed[publisher, server]
            if stream is None or stream.durable is None:
                continue
            if stream.durable != told:
                actions.copy_acks.append(CopiesDurable(server, self._topic, stream.durable))
                if (publisher, server) in self._owed:
                    self._owed[publisher, server] = stream.durable
