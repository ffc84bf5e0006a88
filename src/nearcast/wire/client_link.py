"""What a client keeps for one session and forgets with it: channel, timers, receipts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from nearcast.wire.actions import Home, SendDatagram
from nearcast.wire.backoff import next_wait_s
from nearcast.wire.channel import RECEIPT_BITS, Channel
from nearcast.wire.framing import (
    SEALED_HEADER,
    SEALED_OVERHEAD,
    UNKNOWN_BYTES,
    Header,
    Kind,
    echoed_part,
    pack,
    write_header,
)
from nearcast.wire.messages import Received
from nearcast.wire.settings import WireSettings

__all__ = ["ClientLink"]

_NEVER = float("inf")
_PROBES = 6
"""Reports that are sent once more before a silent home counts as gone: losses happen."""
_RECEIPTS_AT_ONCE = RECEIPT_BITS * 3 // 4
"""Datagrams that are confirmed without delay, a few more or less by client: no more than a receipt
can tell of when one before them was lost, and well below what a server keeps unconfirmed."""
_GAP_WAIT_S = 0.02
"""How long datagrams may overtake each other before one counts as lost."""
_ALL_BITS = (1 << RECEIPT_BITS) - 1
_REMEMBERED = 64
"""Datagrams that the server may answer by not knowing the session: the last ones."""


class ClientLink:
    """An established session with a home."""

    def __init__(
        self,
        home: Home,
        channel: Channel,
        index: int,
        interval_s: float,
        settings: WireSettings,
        now: float,
        shift: float = 0.0,
    ) -> None:
        self.home = home
        self.channel = channel
        self.header = write_header(Header(Kind.SEALED, index))
        """How the server's datagrams of this session begin."""
        self.is_newest = True
        """Whether no datagram that was sent after the last one has arrived before it."""
        self.report_due = now
        """The first report confirms the session: it is repeated until the server is heard."""
        self._settings = settings
        self._interval_s = max(interval_s, settings.least_retry_s)
        self._shift = shift
        """Part of the first interval that is left out: clients that connect together must not
        report together for ever."""
        self._confirm_wait_s: float | None = 0.0
        self.last_heard = now
        self._asked_at = _NEVER
        """When the first question was sent since the server was last heard."""
        self._probes = 0
        self._reported_at: float | None = None
        """When the first report was sent that is not answered."""
        self.receipt_due = _NEVER
        """When notifications are confirmed at the latest."""
        self._receipts = 0
        self.is_receipt_patient = True
        """Whether the server may read what is confirmed after all else: nothing is missing."""
        # not all receivers of one notification confirm it in the same moment
        self._receipt_delay_s = settings.receipt_delay_s * (0.75 + shift / 2)
        self._rekey_at = now + settings.rekey_s * (0.75 + shift / 4)
        self._last_sent: deque[bytes] = deque(maxlen=_REMEMBERED)
        """What an UNKNOWN would repeat of the last datagrams."""
        self._receipts_at_once = round(_RECEIPTS_AT_ONCE * (0.75 + shift / 2))

    def is_rekey_due(self, now: float) -> bool:
        """Tell whether it is time for new keys: by age, or because counters run out."""
        return now >= self._rekey_at or self.channel.rekey_due

    def open(self, data: bytes, now: float) -> bytes:
        """Return the payload of a datagram and note that the server is alive."""
        window = self.channel.window
        highest = window.highest
        payload = self.channel.open(data)
        ahead = window.highest - highest
        self.is_newest = ahead > 0
        if ahead > 1:  # those between may only be late; else the server shall know soon
            self._receipts += 1
            self.receipt_due = min(self.receipt_due, now + _GAP_WAIT_S)
            self.is_receipt_patient = False
        self.last_heard, self._confirm_wait_s = now, None
        self._asked_at, self._probes = _NEVER, 0
        return payload

    def take_probe(self, now: float) -> bool:
        """Tell, once, that the server was not heard for a while and was not asked anything."""
        if now < self._probe_at:
            return False
        self.note_question(now)
        return True

    def note_question(self, now: float) -> None:
        """Note that something was sent which a running server answers."""
        self._asked_at = min(self._asked_at, now)

    def take_suspicion(self, now: float) -> bool:
        """Tell, once per while, whether questions stay without any answer; else ask again."""
        if now < self._suspicious_at:
            return False
        self._probes += 1
        self.report_due = now
        if self._probes <= _PROBES:
            return False
        self._asked_at = now
        self._probes = 0
        return True

    def is_silent(self, now: float) -> bool:
        """Tell whether the server was not heard for three report intervals."""
        return now >= self._silent_at

    def take_report_turn(self, now: float) -> bool:
        """Tell whether a report is due, and set the time of the next one."""
        if now < self.report_due:
            return False
        wait_s = self._interval_s
        if self._confirm_wait_s is not None:
            wait_s = next_wait_s(self._confirm_wait_s, wait_s, self._settings.first_retry_s)
            self._confirm_wait_s = wait_s
        else:
            wait_s *= 1 - self._shift
            self._shift = 0.0
        self.report_due = now + wait_s
        self._reported_at = now if self._reported_at is None else self._reported_at
        return True

    def take_answered(self) -> float | None:
        """Return when a report was sent that is answered now; None: its answer was heard."""
        reported_at, self._reported_at = self._reported_at, None
        return reported_at

    def note_notifications(self, now: float) -> None:
        """Remember to confirm a datagram with notifications."""
        self._receipts += 1
        if self._receipts == 1:
            self.receipt_due = now + self._receipt_delay_s
        elif self._receipts >= self._receipts_at_once:
            self.receipt_due = min(self.receipt_due, now)
            self.is_receipt_patient = False  # the server may wait for room

    def take_receipt(self, now: float, *, travels_along: bool) -> Received | None:
        """Return the receipt when it is due, or at once when a datagram goes out anyway."""
        if not self._receipts or (now < self.receipt_due and not travels_along):
            return None
        self.receipt_due, self._receipts, self.is_receipt_patient = _NEVER, 0, True
        window = self.channel.window
        return Received(window.highest, window.bitmap & _ALL_BITS, window.through + 1)

    def seal(self, frames: Iterable[bytes], mark: bytes = SEALED_HEADER) -> list[SendDatagram]:
        """Return the datagrams that hold these frames; fewer when the counters are used up."""
        sealed = []
        for group in pack(frames, self._settings.datagram_limit - SEALED_OVERHEAD):
            if self.channel.is_exhausted:
                break
            data = self.channel.seal_marked(mark, b"".join(group))
            self._last_sent.append(echoed_part(data))
            sealed.append(SendDatagram(self.home.address, data))
        return sealed

    def has_sent(self, answer: bytes) -> bool:
        """Tell whether an UNKNOWN answers one of the last datagrams."""
        return len(answer) == UNKNOWN_BYTES and echoed_part(answer) in self._last_sent

    def next_due(self) -> float:
        """Return when the session itself has something to do."""
        return min(
            self._silent_at, self.report_due, self.receipt_due, self._suspicious_at, self._probe_at
        )

    @property
    def _probe_at(self) -> float:
        return (
            self.last_heard + self._settings.probe_after_s if self._asked_at == _NEVER else _NEVER
        )

    @property
    def _suspicious_at(self) -> float:
        return self._asked_at + (self._probes + 1) / (_PROBES + 1) * self._settings.answer_within_s

    @property
    def _silent_at(self) -> float:
        return self.last_heard + self._settings.missed_reports * self._interval_s
