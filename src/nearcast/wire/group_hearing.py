"""A client in the multicast group of its home: opens what comes there, and says what has come.

All members confirm what they heard, spread over a time that the server tells, so that they do not
answer all at once; sooner when datagrams are missing before one that has come. A client that hears
nothing for a while, or too much that is forged, says so and is told in its session.
"""

from __future__ import annotations

from collections.abc import Callable

from nearcast.wire.channel import RECEIPT_BITS, REPLAY_WINDOW
from nearcast.wire.client_context import ClientContext
from nearcast.wire.codec import Refused, encode
from nearcast.wire.group_audience import read_audience
from nearcast.wire.group_datagram import GroupOpener, counter_of
from nearcast.wire.group_messages import GroupKey, GroupReceived
from nearcast.wire.group_settings import check_group
from nearcast.wire.replay_window import ReplayWindow
from nearcast.wire.settings import Address

__all__ = ["GroupHearing"]

_NEVER = float("inf")
_KEYS = 2
"""That count at a time: the last one, and the one before it."""
_SILENT_BEACONS = 3
"""After this number without any datagram the group counts as not heard."""
_GAP_WAIT_S = 0.02
"""How long datagrams may overtake each other before one counts as lost."""
_REPORTS_SPREAD_S = 5.0
"""The spread of what cannot wait for the next report, where receipts do."""
_GAP_SPREAD = 0.2
"""Part of the spread of receipts in which members ask for what they miss: all may miss the same."""
_MOST_UNTOLD = REPLAY_WINDOW * 3 // 4
"""Datagrams that are confirmed without delay: no more than the server keeps."""
_MOST_BEHIND_A_GAP = RECEIPT_BITS * 3 // 4
"""The same when one before them is missing: no more than a receipt can tell of."""
_FORGED_LIMIT = 16
"""Datagrams of members that are not the server's before the group is left: each costs the time of
a signature, and the next key may be out of their reach."""
_LAST_COUNTER = (1 << 63) - 1


class GroupHearing:
    """What a client knows of the group in one session; `restart` forgets it.

    Parameters
    ----------
    hear
        Takes the frames of what is for this client, and the time.
    make_opener
        Returns what opens datagrams, from a key and the server's verifying key.
    """

    def __init__(
        self,
        context: ClientContext,
        hear: Callable[[bytes, float], None],
        make_opener: Callable[[bytes, bytes], GroupOpener] = GroupOpener,
    ) -> None:
        self._context, self._hear, self._make_opener = context, hear, make_opener
        self.restart()

    def restart(self) -> None:
        """Forget the group: there is another session, or none."""
        self.address: Address | None = None
        """The group to listen to; None: to none."""
        self._keys: dict[int, GroupOpener] = {}
        """By id, the last one last."""
        self._told: GroupKey | None = None
        """The last key as the server told it."""
        self._window = ReplayWindow(REPLAY_WINDOW)
        self._heard_key = 0
        """The last key that something was heard with."""
        self._silent_at = _NEVER
        """When the group counts as not heard; infinity: it is not heard."""
        self._has_left = False
        """Whether the server has to know that the group is not heard any more."""
        self._told_up_to = -1
        """The highest counter that the server was told of."""
        self._forged = 0
        self._receipt_due = _NEVER
        self._shift = 0.0
        """From 0 to 1: not all members confirm in the same moment."""

    @property
    def is_hearing(self) -> bool:
        """Whether the group is heard."""
        return self._silent_at != _NEVER

    @property
    def due(self) -> float:
        """When there is something to say."""
        return min(self._receipt_due, self._silent_at)

    def on_key(self, told: GroupKey, now: float) -> None:
        """Take a key of the server; Refused when it cannot be used."""
        known = self._told
        if told.key_id in self._keys:
            return
        if known is not None and known.key_id == told.key_id:
            return  # left, because of what others forged with it
        try:
            check_group((told.host, told.port))
            opener = self._make_opener(told.key, told.verifier)
        except ValueError:
            raise Refused("unusable_group") from None
        if told.first > _LAST_COUNTER or not told.beacon_ms or not told.key_id:
            raise Refused("unusable_group")
        if self._window.highest < told.first - 1:
            self._window = ReplayWindow(REPLAY_WINDOW)
            self._window.highest = told.first - 1
        self._keys[told.key_id], self._told, self._forged = opener, told, 0
        while len(self._keys) > _KEYS:
            del self._keys[next(iter(self._keys))]
        self.address = (told.host, told.port)
        self._shift = int.from_bytes(self._context.random_bytes(2), "big") / 65_536
        if self.is_hearing:  # the server may use it soon
            self._confirm_by(now + self._spread_s * self._shift)

    def receive(self, key_id: int, data: bytes, now: float) -> None:
        """Take a datagram of the group, or raise Refused: at little cost until it is the server's."""
        opener, told = self._keys.get(key_id), self._told
        if opener is None or told is None:
            raise Refused("group_key")
        counter, window = counter_of(data), self._window
        if counter > _LAST_COUNTER or counter < told.first or not window.is_new(counter):
            raise Refused("group_replayed")
        try:
            body = opener.open(data)
        except Refused as refusal:
            if refusal.reason == "group_signature":
                self._on_forged(now)
            raise
        if key_id != self._heard_key or not self.is_hearing:
            if not self._heard_key:  # what came before was told in the session
                window.highest = max(window.highest, counter - 1)
                self._told_up_to = window.highest
            self._heard_key, self._has_left = key_id, False
            self._confirm_by(now + self._spread_s * self._shift)
        elif counter > window.highest + 1:  # those between may only be late
            spread_s = _GAP_SPREAD * self._spread_s
            self._confirm_by(now + _GAP_WAIT_S + spread_s * self._shift)
        window.take(counter)
        self._silent_at = now + _SILENT_BEACONS * told.beacon_ms / 1000
        audience, frames = read_audience(body)
        if not frames:
            return
        untold = window.highest - self._told_up_to
        behind_gap = min(untold, window.highest - window.through)
        if untold >= _MOST_UNTOLD or behind_gap >= _MOST_BEHIND_A_GAP:
            self._confirm_by(now)
        elif told.spread_ms:
            self._confirm_by(now + self._spread_s * (1 + 3 * self._shift) / 4)
        if told.slot in audience:
            self._hear(frames, now)

    @property
    def _spread_s(self) -> float:
        told = self._told
        return told.spread_ms / 1000 if told is not None and told.spread_ms else _REPORTS_SPREAD_S

    def _confirm_by(self, due: float) -> None:
        self._receipt_due = min(self._receipt_due, due)

    def _on_forged(self, now: float) -> None:
        self._forged += 1
        if self._forged > _FORGED_LIMIT:
            self._keys.clear()
            self._leave(now)

    def _leave(self, now: float) -> None:
        self._silent_at, self._receipt_due, self._has_left = _NEVER, now, True

    def take_receipt(self, now: float, *, travels_along: bool) -> list[bytes]:
        """Return what the server has to know, when it is due or a report goes out anyway."""
        if now >= self._silent_at:
            self._leave(now)
        if now < self._receipt_due and not travels_along:
            return []
        self._receipt_due = _NEVER
        if self._has_left:
            return [encode(GroupReceived(0))]
        if self._told is None or not self.is_hearing:
            return []
        window = self._window
        self._told_up_to = window.highest
        bitmap = window.bitmap & (1 << RECEIPT_BITS) - 1
        said = GroupReceived(self._told.key_id, window.highest, bitmap, window.through + 1)
        return [encode(said)]
