"""A processor's state moves with its topic: offered by a past broker, taken by a new one.

A server numbers its offers. It stores an offer before it makes it, and how it ended: the state is
then durable at the other server, and this one begins anew; or it stays here. Until that is known it
processes nothing of the topic and offers the state to nobody else; if the other server is away for
too long, it begins anew and sets the state aside until it knows. The taker stores the number
with the state. So a crash of either side neither loses a state nor counts it twice. The numbers
are kept as positions of streams that no client publishes.
"""

from __future__ import annotations

from typing import NamedTuple

from nearcast.broker.sequence_gate import MARK, SequenceGate
from nearcast.broker.topic_processing import TopicProcessing

__all__ = ["SETTLED", "Offer", "StateTransfer", "offered_to", "taken_from"]

_OFFERED = f"{MARK}to/"
SETTLED = f"{MARK}settled"
"""The stream of offers whose end is known."""


def offered_to(server: str) -> str:
    """Return the stream of the offers that were made to a server."""
    return _OFFERED + server


def taken_from(server: str) -> str:
    """Return the stream of the states that were taken from a server."""
    return f"{MARK}from/{server}"


class Offer(NamedTuple):
    """What a server that yields streams says about processors' states."""

    state: bytes = b""
    number: int = 0
    """Of the offer; 0: it makes none."""
    has: int = 0
    """The last offer of the other server that was taken here."""


class StateTransfer:
    """The state of one topic's processor, given and taken; the caller stores the numbers."""

    def __init__(self, processing: TopicProcessing, gate: SequenceGate) -> None:
        self._processing, self._gate = processing, gate
        self.receiver = ""
        """The server that has an offer and did not say what became of it."""
        self._number = 0
        """Of that offer, or of the last one."""
        self._is_firm = False
        """Whether that offer may be made again; not after a restart or once it was asked about."""
        self._is_sent = True
        """Whether its receiver may have heard of it."""
        self._untold: dict[str, int] = {}
        """Offers that were taken here, by giver: to be told when they are durable."""
        self._declined: dict[str, int] = {}
        """The last offer of each server that was not taken: nor will it be later."""

    def restore(self) -> None:
        """Begin with the numbers that the gate found in the log."""
        numbers = {
            name.removeprefix(_OFFERED): stream.sequence
            for name, stream in self._gate.streams.items()
            if name.startswith(_OFFERED)
        }
        last = max(numbers, key=numbers.__getitem__, default="")
        self._number = max(numbers.get(last, 0), self._sequence(SETTLED))
        if numbers.get(last, 0) > self._sequence(SETTLED):
            self.receiver = last

    # Giving

    def may_offer(self, server: str) -> bool:
        """Tell whether the state could go to a server now."""
        return not self.receiver or (self.receiver == server and self._is_firm)

    def is_ready(self, server: str) -> bool:
        """Tell whether all that there is to offer to a server is stored as its offer."""
        if self.is_aside:
            return server != self.receiver  # to others there is nothing to offer for now
        return self.may_offer(server) and (self.receiver == server or not self._has_state)

    @property
    def is_aside(self) -> bool:
        """Whether the state that was offered is set aside."""
        return bool(self.receiver and self._processing.aside)

    @property
    def is_asked_about(self) -> bool:
        """Whether a server has an offer, and did not say what became of it."""
        return bool(self.receiver) and self._is_sent

    @property
    def _has_state(self) -> bool:
        return bool(self._processing.state) and self._processing.has_state

    def offer(self, server: str) -> int:
        """Begin to offer the state to a server; return the offer's number, 0 without a state."""
        if self.receiver != server:
            if not self._has_state:
                return 0
            self._number += 1
            self.receiver, self._is_firm, self._is_sent = server, True, False
        return self._number

    def withdraw(self) -> int:
        """Give up an offer that nobody has heard of; return its number, 0 if there is none."""
        if not self.receiver or self._is_sent:
            return 0
        self.receiver = ""
        return self._number

    def give_up(self) -> int:
        """Go on although the receiver is away; return the number of the offer if this ends it.

        Where two states cannot become one the state stays, and the receiver may have it too.
        """
        if self.is_aside:
            return 0
        if not (self._is_sent and self._has_state and self._processing.can_merge):
            self.receiver = ""
            return self._number
        self._is_firm = False
        self._processing.set_aside()
        return 0

    def query(self) -> Offer:
        """Return what asks the receiver of the open offer if it has it; it takes it no more."""
        self._is_firm = False
        return Offer(number=self._number)

    def made(self, server: str) -> Offer:
        """Return the offer to a server."""
        if self.receiver != server:
            return Offer()
        self._is_sent = True
        return Offer(self._processing.state or b"", self._number)

    def on_answered(self, server: str, number: int, taken: bool) -> tuple[int, bytes]:
        """Hear what became of an offer; return as `on_reported` does."""
        if number != self._number:
            return 0, b""  # said again of an earlier one
        return self.on_reported(server, number if taken else 0)

    def on_reported(self, server: str, has: int) -> tuple[int, bytes]:
        """Hear which offer a server took last.

        Returns
        -------
        tuple[int, bytes]
            Number of the offer that this ends, 0 for none, and a state that comes back.
        """
        if self.receiver != server:
            return 0, b""
        aside, self.receiver, self._processing.aside = self._processing.aside, "", b""
        if has != self._number:
            return self._number, aside
        if not aside:
            self._processing.begin_anew()
        return self._number, b""

    # Taking

    def may_take(self, server: str, number: int) -> bool:
        """Tell whether an offer is a new one."""
        return number > max(self._declined.get(server, 0), self._sequence(taken_from(server)))

    def has_taken(self, server: str, number: int) -> bool:
        """Tell whether an offer was taken here; then it is told again."""
        if number > self._sequence(taken_from(server)):
            self._declined[server] = number
            return False
        self._untold[server] = number
        return True

    def taken(self, server: str) -> int | None:
        """Return the last offer of a server that was taken here; None: it is not durable yet."""
        stream = self._gate.streams.get(taken_from(server))
        if stream is None:
            return 0
        return stream.sequence if stream.is_durable else None

    def take_told(self) -> list[tuple[str, int]]:
        """Return which offers, by giver, have become durable here since the last call."""
        if not self._untold:
            return []
        told = [one for one in self._untold.items() if self.taken(one[0]) is not None]
        for server, _ in told:
            del self._untold[server]
        return told

    def _sequence(self, mark: str) -> int:
        stream = self._gate.streams.get(mark)
        return stream.sequence if stream is not None else 0
