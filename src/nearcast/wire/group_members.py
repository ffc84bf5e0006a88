"""The members of a server's group, and what was told there and is unconfirmed by some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from nearcast.wire.channel import RECEIPT_BITS, REPLAY_WINDOW
from nearcast.wire.codec import mark_copy
from nearcast.wire.group_audience import Audience
from nearcast.wire.group_messages import GroupReceived
from nearcast.wire.server_session import ServerSession

__all__ = ["GroupFlight", "GroupMember", "GroupMembers"]


class GroupFlight:
    """The notifications of one datagram to the group, until all that it was for confirm it."""

    __slots__ = ("_start", "_waiting", "copies", "sent_at")

    def __init__(self, frames: Sequence[bytes], audience: Audience, now: float) -> None:
        self.copies = [mark_copy(frame) for frame in frames]
        """What a member gets in its session that has not heard the group."""
        self._start, self._waiting = audience.start, bytearray(audience.bitmap)
        self.sent_at = now

    def take(self, slot: int) -> bool:
        """Wait for a member no longer; tell whether it was waited for."""
        was_awaited = self.awaits(slot)
        if was_awaited:
            self._waiting[(slot >> 3) - self._start] &= ~(1 << (slot & 7))
        return was_awaited

    def awaits(self, slot: int) -> bool:
        """Tell whether a member has not confirmed it."""
        place = (slot >> 3) - self._start
        return 0 <= place < len(self._waiting) and bool(self._waiting[place] >> (slot & 7) & 1)

    def awaited(self) -> Iterator[int]:
        """Yield the slots of all that have not confirmed it."""
        for place, byte in enumerate(self._waiting, self._start):
            while byte:
                yield place * 8 + (byte & -byte).bit_length() - 1
                byte &= byte - 1


class GroupMember:
    """A session that was offered the group's key."""

    __slots__ = (
        "_members",
        "first",
        "hears_from",
        "is_hearing",
        "key_id",
        "offered_id",
        "offers",
        "session",
        "settled",
        "slot",
    )

    def __init__(self, session: ServerSession, slot: int, members: GroupMembers) -> None:
        self.session, self.slot, self._members = session, slot, members
        self.first = self.settled = self.hears_from = members.counter
        """From which counter on the slot is this member's; up to which counter all was confirmed,
        or told in the session; what it has to hear before it counts as hearing."""
        self.is_hearing = False
        """Whether it is told by group."""
        self.key_id = 0
        """The last key that it has confirmed."""
        self.offered_id = self.offers = 0
        """The last key that it was offered, and how often."""

    def unconfirmed(self) -> list[bytes]:
        """Return the notifications that were told by group and may not have arrived."""
        return [copy for one in self._members.flights_of(self) for copy in one.copies]

    def since(self) -> float:
        """Return when the first of them was told; infinity: there are none."""
        return next((one.sent_at for one in self._members.flights_of(self)), float("inf"))


class GroupMembers:
    """Members by slot; the lowest free slot is the next one's, so that bitmaps stay short."""

    def __init__(self) -> None:
        self.counter = 0
        """Of the next datagram."""
        self.by_slot: dict[int, GroupMember] = {}
        self.size = 0
        """All slots are below."""
        self._free: list[int] = []
        self._flights: dict[int, GroupFlight] = {}
        """By counter, which rises."""

    def add(self, session: ServerSession) -> GroupMember:
        """Give a session a slot."""
        if self._free:
            slot = heappop(self._free)
        else:
            slot, self.size = self.size, self.size + 1
        member = self.by_slot[slot] = GroupMember(session, slot, self)
        return member

    def remove(self, member: GroupMember) -> None:
        """Take a slot back; what is unconfirmed in it is forgotten."""
        del self.by_slot[member.slot]
        for flight in self.flights_of(member):
            flight.take(member.slot)
        heappush(self._free, member.slot)

    def note_sent(self, frames: Sequence[bytes], audience: Audience, now: float) -> None:
        """Note the datagram with the next counter; without frames nobody has to confirm it."""
        if frames:
            self._flights[self.counter] = GroupFlight(frames, audience, now)
        self.counter += 1

    def flights_of(self, member: GroupMember, end: int | None = None) -> Iterator[GroupFlight]:
        """Yield what a member has not confirmed, before a counter."""
        first = max(member.settled, next(iter(self._flights), self.counter))
        for counter in range(first, self.counter if end is None else end):
            flight = self._flights.get(counter)
            if flight is not None and flight.awaits(member.slot):
                yield flight

    def settle(self, member: GroupMember, said: GroupReceived) -> list[bytes]:
        """Take a receipt; return the notifications of datagrams that did not arrive."""
        highest, slot = said.highest, member.slot
        end = min(highest + 1, self.counter)  # it cannot have heard what was not sent
        first = max(member.settled, next(iter(self._flights), end))
        oldest, missing = highest - REPLAY_WINDOW + 1, list[bytes]()
        for counter in range(first, end):
            flight = self._flights.get(counter)
            if flight is None or not flight.take(slot):
                continue
            age = highest - counter
            if not (
                oldest <= counter < said.all_below
                or (age < RECEIPT_BITS and said.bitmap >> age & 1)
            ):
                missing += flight.copies
        member.settled = max(member.settled, end)
        return missing

    def take_unconfirmed(self, member: GroupMember) -> list[bytes]:
        """Return all that a member has not confirmed, and wait for it no longer."""
        missing = member.unconfirmed()
        for flight in self.flights_of(member):
            flight.take(member.slot)
        member.settled = self.counter
        return missing

    def oldest_sent_at(self) -> float:
        """Return when the oldest unconfirmed datagram was sent; infinity: there is none."""
        return next((one.sent_at for one in self._flights.values()), float("inf"))

    def take_oldest(self, sent_before: float) -> GroupFlight | None:
        """Return a datagram that has waited long enough, or of which too many wait."""
        if not self._flights:
            return None
        counter, flight = next(iter(self._flights.items()))
        # receipts cannot tell of counters that are further back
        if flight.sent_at > sent_before and counter > self.counter - REPLAY_WINDOW:
            return None
        del self._flights[counter]
        return flight
