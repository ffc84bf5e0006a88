"""Tells many clients at once, in the server's multicast group; who misses it hears it in its session.

Sessions whose client may read all that is told there are offered the group's key with each report.
A client that hears the group says so, and which datagrams arrived; from then on it is told by
group. What it missed, or does not confirm in time, goes into its session like any notification.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nearcast.trust.credentials import ClientCredential
from nearcast.trust.rights import refusal
from nearcast.trust.topic_pattern import matches
from nearcast.wire.actions import Datagram, SendDatagram
from nearcast.wire.codec import encode
from nearcast.wire.group_audience import (
    AUDIENCE_BYTES,
    NOBODY,
    Audience,
    bitmap_of,
    split_audience,
)
from nearcast.wire.group_datagram import GROUP_OVERHEAD, GroupSealer
from nearcast.wire.group_members import GroupMember, GroupMembers
from nearcast.wire.group_messages import GroupKey, GroupReceived
from nearcast.wire.group_settings import GroupSettings
from nearcast.wire.messages import CloseReason
from nearcast.wire.server_session import ServerSession
from nearcast.wire.settings import RandomBytes, WireSettings

__all__ = ["GroupSender"]

_NEVER = float("inf")
_OFFERS = 4
"""How often a key is offered to a client that does not hear the group."""
_REPEATS_S = (0.05, 0.25)
"""When the last datagram is sent once more: who missed it has it, or sees what it missed before."""
_OVERLAP_INTERVALS = 2.5
"""Report intervals between the offer of a key and its use, when nobody was revoked."""
_LEAST_ROTATION_S = 1.0
"""Between two keys, however many clients are revoked; until then nothing is told by group."""
_HARMLESS = frozenset(
    (
        CloseReason.DONE,
        CloseReason.MOVED,
        CloseReason.STOPPED,
        CloseReason.REKEY,
        CloseReason.SILENT,
    )
)
"""Reasons to end a session after which the client may still know the group's key."""
_LEAST_AUDIENCE = AUDIENCE_BYTES + 64
"""Room beside the notifications: with less there would be many datagrams."""
_TOPICS_LIMIT = 4_096


class GroupSender:
    """The group of one server.

    Parameters
    ----------
    outgoing
        Takes what is to be sent.
    mark
        Has a session send what is in it.
    counts
        Takes what was told here, for metrics.
    """

    def __init__(
        self,
        settings: GroupSettings,
        wire: WireSettings,
        random_bytes: RandomBytes,
        outgoing: list[Datagram],
        mark: Callable[[ServerSession], None],
        counts: Counter[str],
    ) -> None:
        self._settings, self._wire, self._random_bytes = settings, wire, random_bytes
        self._outgoing, self._mark, self._counts = outgoing, mark, counts
        self._address = (settings.address, settings.port)
        self._room = wire.datagram_limit - GROUP_OVERHEAD
        self._overlap_s = _OVERLAP_INTERVALS * wire.report_interval_s
        self._signing_key = Ed25519PrivateKey.from_private_bytes(random_bytes(32))
        self._verifier = self._signing_key.public_key().public_bytes_raw()
        self._sealer = self._offered = GroupSealer(self._signing_key, random_bytes)
        """The key in use, and the one that clients are offered: the same, or its successor."""
        self._members = GroupMembers()
        self._hearing: dict[str, int] = {}
        """Slots of clients that are told by group."""
        self._left: dict[str, tuple[ClientCredential, int]] = {}
        """Clients whose session has ended and that may have a key which still counts."""
        self._is_taken: dict[str, bool] = {}
        """By topic: whether it is told by group."""
        self._split: tuple[tuple[str, ...], str, bytes, int, tuple[str, ...]] | None = None
        """The last audience with what was found: bitmap, how many, and who is told otherwise."""
        self._last_sent = b""
        self._repeats: list[float] = []
        self._beacon_at = self._rotate_at = self._switch_at = _NEVER
        self._made_at = float("-inf")
        self._is_suspended = False
        """Whether somebody has the key who must not: until there is another."""
        self._wait_s = 0.0
        """How long a datagram waits for receipts: as long as any member was told to take."""

    @property
    def members(self) -> int:
        """How many clients are told by group."""
        return len(self._hearing)

    # What the server has to tell

    def tell(
        self, topic: str, frame: bytes, clients: tuple[str, ...], left_out: str, now: float
    ) -> tuple[str, ...]:
        """Send a notification to those of the clients that hear the group; return the others."""
        if len(clients) < self._settings.least_receivers or not self._takes(topic):
            return clients
        if len(frame) + _LEAST_AUDIENCE > self._room or self._is_suspended:
            return clients
        known = self._split
        if known is None or known[0] is not clients or known[1] != left_out:
            known = self._split = (clients, left_out, *self._find(clients, left_out))
        if known[3] < self._settings.least_receivers:
            return clients
        for audience, head in split_audience(known[2], self._room - len(frame)):
            self._send((frame,), audience, head + frame, now)
        self._repeats = [now + after_s for after_s in _REPEATS_S]
        self._counts["group_notifications"] += known[3]
        return known[4]

    def _takes(self, topic: str) -> bool:
        found = self._is_taken.get(topic)
        if found is None:
            if len(self._is_taken) >= _TOPICS_LIMIT:
                self._is_taken.clear()
            found = any(matches(one, topic) for one in self._settings.topics)
            self._is_taken[topic] = found
        return found

    def _find(self, clients: tuple[str, ...], left_out: str) -> tuple[bytes, int, tuple[str, ...]]:
        slot_of = self._hearing.get
        slots, others = [], []
        for client in clients:
            slot = slot_of(client)
            if slot is None:
                others.append(client)
            elif client != left_out:
                slots.append(slot)
        return bitmap_of(slots, self._members.size), len(slots), tuple(others)

    # Members

    def offer(self, session: ServerSession) -> None:
        """Offer the key to a client that has just reported, unless it has it."""
        if self._is_suspended or session.init.visits or not self._may_read(session):
            return
        member = session.membership
        if not isinstance(member, GroupMember):
            member = session.membership = self._members.add(session)
            self._left.pop(session.client, None)  # from now on its session is looked at
            if len(self._members.by_slot) == 1:
                self._beacon_at = float("-inf")
        offered = self._offered.key_id
        if member.offered_id != offered:
            member.offered_id, member.offers = offered, 0
        if member.key_id == offered or member.offers >= _OFFERS:
            return
        member.offers += 1
        if self._sealer is not self._offered and member.key_id != self._sealer.key_id:
            self._queue(member, self._sealer)
        self._queue(member, self._offered)

    def _may_read(self, session: ServerSession) -> bool:
        rights = session.credential.rights
        return all(refusal(rights, "subscribe", one) is None for one in self._settings.topics)

    def _queue(self, member: GroupMember, sealer: GroupSealer) -> None:
        spread_s = self._spread_s()
        # reports, too, may be lost and repeated
        longest_s = spread_s or 1.5 * self._wire.report_interval_s
        self._wait_s = max(self._wait_s, longest_s + 2 * self._wire.notification_retry_s)
        key = GroupKey(
            *self._address,
            sealer.key_id,
            sealer.key,
            self._verifier,
            member.slot,
            member.first,
            round(spread_s * 1000),
            round(self._settings.beacon_s * 1000),
        )
        member.session.queue(encode(key))
        self._mark(member.session)

    def _spread_s(self) -> float:
        """Return in which time all members confirm, at the rate that the server wants.

        0: with their reports, which cost nothing more.
        """
        wire = self._wire
        wanted_s = len(self._members.by_slot) / self._settings.receipts_per_s
        if wanted_s > wire.report_interval_s / 2:
            return 0.0
        return max(wanted_s, wire.receipt_delay_s)

    def on_received(self, session: ServerSession, said: GroupReceived) -> bool:
        """Take a member's receipt; False: it is none."""
        member = session.membership
        if not isinstance(member, GroupMember):
            return False
        if not said.key_id:
            self._stop(member)
            return True
        self._repair(member, self._members.settle(member, said))
        is_current = said.key_id in (self._sealer.key_id, self._offered.key_id)
        if not is_current or said.highest < member.hears_from or self._is_suspended:
            return True
        member.key_id = said.key_id
        if not member.is_hearing and session.is_open:
            member.is_hearing, self._split = True, None
            self._hearing[session.client] = member.slot
        return True

    def _repair(self, member: GroupMember, copies: Sequence[bytes]) -> None:
        """Tell a member in its session what it did not hear in the group."""
        if copies:
            self._counts["group_repaired"] += len(copies)
            member.session.frames += copies
            self._mark(member.session)

    def _stop(self, member: GroupMember) -> None:
        """Tell a member everything in its session, until it says that it hears the group."""
        if member.is_hearing:
            self._repair(member, self._members.take_unconfirmed(member))
            self._drop(member)

    def _drop(self, member: GroupMember) -> None:
        if member.is_hearing:
            member.is_hearing, self._split = False, None
            del self._hearing[member.session.client]
        member.hears_from = self._members.counter

    def on_end(self, session: ServerSession, reason: CloseReason) -> None:
        """Take the slot of a session that has ended for a reason."""
        self.forget(session, is_revoked=reason not in _HARMLESS)

    def forget(self, session: ServerSession, *, is_revoked: bool) -> None:
        """Take the slot of a session that has ended."""
        member = session.membership
        if not isinstance(member, GroupMember):
            return
        session.membership = None
        self._drop(member)
        self._members.remove(member)
        if not member.offers:
            return
        if is_revoked:
            self.suspend()
        elif len(self._left) < self._wire.session_limit:
            self._left[session.client] = (session.credential, member.offered_id)
        else:
            self.suspend()  # nobody may be forgotten that has the key

    def end_invalid(self, is_invalid: Callable[[ClientCredential], bool]) -> None:
        """Use another key when a client that has left and has the key may not have it any more."""
        if any(is_invalid(credential) for credential, _ in self._left.values()):
            self.suspend()

    def suspend(self) -> None:
        """Tell nothing more by group until there is another key: somebody must not hear it."""
        if not self._is_suspended:
            self._is_suspended, self._switch_at = True, _NEVER
            for member in self._members.by_slot.values():
                self._drop(member)  # what is unconfirmed may still be confirmed

    # Time and datagrams out

    def flush(self, now: float) -> None:
        """Have sent what is due."""
        if now >= self.next_wakeup():
            self._on_time(now)

    def next_wakeup(self) -> float:
        """Return when `flush` has something to do at the latest."""
        due = min(self._beacon_at, self._rotate_at, self._switch_at, *self._repeats[:1])
        if self._is_suspended:
            due = min(due, self._made_at + _LEAST_ROTATION_S)
        return min(due, self._members.oldest_sent_at() + self._wait_s)

    def _send(self, frames: Sequence[bytes], audience: Audience, body: bytes, now: float) -> None:
        self._last_sent = self._sealer.seal(self._members.counter, body)
        self._members.note_sent(frames, audience, now)
        self._outgoing.append(SendDatagram(self._address, self._last_sent))
        self._counts["group_datagrams"] += 1
        self._beacon_at = now + self._settings.beacon_s

    def _on_time(self, now: float) -> None:
        self._change_keys(now)
        if self._repeats and now >= self._repeats[0]:
            self._repeats = [at for at in self._repeats if at > now]
            self._outgoing.append(SendDatagram(self._address, self._last_sent))
            self._counts["group_datagrams"] += 1
        if now >= self._beacon_at:
            self._send((), Audience(0, b""), NOBODY, now)
        while (flight := self._members.take_oldest(now - self._wait_s)) is not None:
            for slot in flight.awaited():
                member = self._members.by_slot[slot]
                self._repair(member, flight.copies)
                self._drop(member)

    def _change_keys(self, now: float) -> None:
        if self._is_suspended and now >= self._made_at + _LEAST_ROTATION_S:
            self._is_suspended = False
            self._make_key(now)
            self._switch()
        if now >= self._switch_at:
            self._switch()
        if not self._members.by_slot:
            self._beacon_at = self._rotate_at = _NEVER
            return
        if self._rotate_at == _NEVER:
            self._made_at = now if self._made_at == float("-inf") else self._made_at
            self._rotate_at = self._made_at + self._settings.rotation_s
        if now >= self._rotate_at and not self._is_suspended:
            self._make_key(now)
            self._switch_at = now + self._overlap_s

    def _make_key(self, now: float) -> None:
        self._offered = GroupSealer(self._signing_key, self._random_bytes)
        self._made_at, self._rotate_at = now, now + max(self._settings.rotation_s, self._overlap_s)

    def _switch(self) -> None:
        """Use the key that was offered; who has not confirmed it is told in its session."""
        self._sealer, self._switch_at = self._offered, _NEVER
        self._repeats = []  # sealed with the key before
        key_id = self._sealer.key_id
        self._left = {client: one for client, one in self._left.items() if one[1] == key_id}
        for member in self._members.by_slot.values():
            if member.key_id != key_id:
                self._drop(member)
        self._counts["group_keys"] += 1
