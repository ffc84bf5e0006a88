"""Reads a server's port: datagrams of sessions, and of strangers no more than helps newcomers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from nearcast.links.sorted_port import SortedPort
from nearcast.wire.settings import Address

__all__ = ["LEAST_STRANGERS_PER_S", "STRANGERS_PER_S", "PortReader"]

Batch = list[tuple[bytes, Address]]
STRANGERS_PER_S = 20_000.0
"""Several times what is ever answered; the kernel drops what comes beyond it, which costs less."""
LEAST_STRANGERS_PER_S = 2_000.0
"""As few are read while datagrams of sessions wait too long."""
_LATE_S = 0.005
_RISE = 1.1
"""Per window, when none has waited so long."""
_WINDOW_S = 0.01
_FLOOD_S = 1.0
"""How long it counts as a flood that a window was not enough."""
_PER_PASS = 64
_GATHER_S = 0.0005
"""From a pass with publications to the next one with datagrams, at least, while the loop is busy:
two or three messages in one pass cost each two thirds of what one alone does."""
_BUSY_SHARE, _CALM_SHARE = 0.85, 0.5
"""Of the loop's time: when it begins to gather, and when it has so much left, gathering, that it
need not any more."""
_PER_SHORT_PASS = 8
"""As few are read in a pass while urgent datagrams come, which wait for a whole pass at worst."""
_SHORT_PASSES_S = 1.0
"""How long urgent datagrams count as coming after the last one."""
_PATIENT_S = 0.1
"""How long patient datagrams wait for a pass that reads them along; then they have one of their
own. To look sooner would wake up a server with little to do, each time for next to nothing."""
_MANY_PATIENT_S = 0.01
"""The same where many may come: some 400 fit into a buffer of the size that kernels grant by
default, which the receipts of thousands of subscribers fill soon."""
_MANY = 64
_STRANGERS_PER_PASS = 16
"""Few: datagrams of sessions that come meanwhile wait for no more than these."""


class PortReader:
    """Tells of datagrams between `start` and `stop`.

    Parameters
    ----------
    on_datagrams
        Called with each batch of datagrams of sessions, and how many seconds the first waited if
        others wait still, else 0, or None for those that are marked as urgent; tells whether
        publications were among them.
    on_strangers
        Called with each batch of others, and whether more come than are read.
    unconfirmed
        Returns from how many sessions patient datagrams may be on their way.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        port: SortedPort,
        on_datagrams: Callable[[Batch, float | None], bool],
        on_strangers: Callable[[Batch, bool], None],
        unconfirmed: Callable[[], int],
    ) -> None:
        self._loop, self._port = loop, port
        self._on_datagrams, self._on_strangers = on_datagrams, on_strangers
        self._unconfirmed = unconfirmed
        self._muted: frozenset[int] = frozenset()
        self._is_busy = False
        self._rate_per_s, self._is_late = STRANGERS_PER_S, False
        self._left = 0
        """How many strangers may still be read in this window."""
        self._window_ends_s = self._flooded_until_s = float("-inf")
        self._pause: asyncio.TimerHandle | None = None
        self._patient_pause: asyncio.TimerHandle | None = None
        self._heeds_patient, self._patient_from_s = False, float("-inf")
        """Whether patient datagrams have a pass of their own, and from when on they have again."""
        self._urgent_until_s = float("-inf")
        self.waited_s = 0.0
        """How long the first datagram of the last batch waited."""

    def start(self) -> None:
        """Read from now on."""
        self._loop.add_reader(self._port.sessions.fileno(), self._read_sessions)
        if self._port.urgent is not None:
            self._loop.add_reader(self._port.urgent.fileno(), self._read_urgent)
        self._heed_patient()
        self._heed_strangers()

    def stop(self) -> None:
        """Read no more."""
        self._loop.remove_reader(self._port.sessions.fileno())
        for other in (self._port.urgent, self._port.patient, self._port.strangers):
            if other is not None:
                self._loop.remove_reader(other.fileno())
        for pause in (self._pause, self._patient_pause):
            if pause is not None:
                pause.cancel()

    def mute(self, sessions: frozenset[int]) -> None:
        """Have the kernel drop what these sessions send, where it can: all is refused anyway."""
        if sessions != self._muted:
            self._muted = sessions
            for one in (self._port.sessions, self._port.urgent, self._port.patient):
                if one is not None:
                    with contextlib.suppress(OSError):
                        one.drop(sessions)

    def note_load(self, busy_share: float) -> None:
        """Hear which share of the loop's time was used of late: datagrams gather when it is high.

        Each message costs less then and takes longer: no bargain while there is time left.
        """
        self._is_busy = busy_share > (_CALM_SHARE if self._is_busy else _BUSY_SHARE)

    def take_patient(self) -> Batch:
        """Return patient datagrams that wait: they cost less in a pass that there is anyway."""
        patient = self._port.patient
        if patient is None:
            return []
        batch = patient.take(_PER_PASS)
        if len(batch) < _PER_PASS:
            are_many = self._unconfirmed() > _MANY or len(batch) > _MANY // 2
            pause_s = _MANY_PATIENT_S if are_many else _PATIENT_S
            self._patient_from_s = self._loop.time() + pause_s
            if self._heeds_patient:
                self._heeds_patient = False
                self._loop.remove_reader(patient.fileno())
                self._heed_patient()
        return batch

    def _heed_patient(self) -> None:
        """Have patient datagrams read when they come, unless that was done a moment ago."""
        if self._port.patient is None:
            return
        if self._loop.time() < self._patient_from_s:
            self._patient_pause = self._loop.call_at(self._patient_from_s, self._heed_patient)
        else:
            self._heeds_patient = True
            self._loop.add_reader(self._port.patient.fileno(), self._read_patient)

    def _read_patient(self) -> None:
        if batch := self.take_patient():
            self._on_datagrams(batch, 0.0)

    def _read_urgent(self) -> None:
        urgent = self._port.urgent
        assert urgent is not None
        batch = urgent.take(_PER_PASS)
        if batch:
            self._urgent_until_s = self._loop.time() + _SHORT_PASSES_S
            self._on_datagrams(batch, None)

    def _read_sessions(self) -> None:
        limit = _PER_PASS
        if self._urgent_until_s > float("-inf"):
            self._read_urgent()
            if self._loop.time() < self._urgent_until_s:
                limit = _PER_SHORT_PASS
            else:
                self._urgent_until_s = float("-inf")
        batch, self.waited_s = self._port.sessions.drain(limit)
        if self.waited_s > _LATE_S:
            self._is_late = True
        is_full = len(batch) == limit  # others wait already
        # A process that was not run for a while finds old datagrams, however few: that is no reason
        # to turn publishers away.
        has_publications = batch and self._on_datagrams(batch, self.waited_s if is_full else 0.0)
        if has_publications and self._is_busy and not is_full:
            self._port.sessions.gather(_GATHER_S)

    def _heed_strangers(self) -> None:
        if self._port.strangers is not None:
            self._loop.add_reader(self._port.strangers.fileno(), self._read_strangers)

    def _begin_window(self, now_s: float) -> None:
        """Read fewer strangers while sessions wait: the processor has too much to do."""
        if self._is_late:
            self._rate_per_s = max(LEAST_STRANGERS_PER_S, self._rate_per_s / 2)
        else:
            self._rate_per_s = min(STRANGERS_PER_S, self._rate_per_s * _RISE)
        self._is_late = False
        self._left, self._window_ends_s = round(self._rate_per_s * _WINDOW_S), now_s + _WINDOW_S

    def _read_strangers(self) -> None:
        strangers = self._port.strangers
        assert strangers is not None
        now_s = self._loop.time()
        if now_s >= self._window_ends_s:
            self._begin_window(now_s)
        batch = strangers.take(min(_STRANGERS_PER_PASS, self._left))
        self._left -= len(batch)
        if self._left <= 0:
            self._flooded_until_s = now_s + _FLOOD_S
            self._loop.remove_reader(strangers.fileno())
            self._pause = self._loop.call_at(self._window_ends_s, self._heed_strangers)
        if batch:
            self._on_strangers(batch, now_s < self._flooded_until_s)
