"""What goes out to clients at the end of a pass, and notifications again until they are confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from math import ceil

from nearcast.wire.actions import Datagram
from nearcast.wire.flights import Packet, pack_frames
from nearcast.wire.server_session import ServerSession
from nearcast.wire.settings import WireSettings

__all__ = ["SessionSender"]

_TOGETHER_S = 0.02
"""Sessions are looked at together: each wake-up costs more than a look."""


class SessionSender:
    """Sessions with something to send, and those with unconfirmed notifications."""

    def __init__(self, settings: WireSettings) -> None:
        self._wait_s = settings.notification_retry_s
        self.queued: list[ServerSession] = []
        """Sessions with something to send, in the order in which it came up."""
        self.outgoing: list[Datagram] = []
        """Datagrams that are ready."""
        self._awaiting: dict[int, ServerSession] = {}
        """Sessions with unconfirmed notifications, by index; each has an entry in `_due_at`."""
        self._due_at: dict[float, list[int]] = {}
        """When to look at which sessions next. All of ten thousand would take too long."""
        self._times: list[float] = []
        """A heap of the times in `_due_at`."""
        self._has_urgent = False

    def mark(self, session: ServerSession) -> None:
        """Have the next flush send what a session has."""
        if not session.is_queued:
            session.is_queued = True
            self.queued.append(session)

    def notify_urgently(
        self, sessions: Mapping[str, ServerSession], clients: Iterable[str], frame: bytes
    ) -> list[str]:
        """Have the next flush send a notification before all else; return who has no session."""
        missing = []
        self._has_urgent = True
        for client in clients:
            session = sessions.get(client)
            if session is None:
                missing.append(client)
            else:
                session.queue_urgent(frame)
                self.mark(session)
        return missing

    def unconfirmed(self) -> int:
        """Return how many sessions may have notifications that no receipt has confirmed."""
        return len(self._awaiting)

    def forget(self, session: ServerSession) -> None:
        """Repeat nothing more for a session."""
        self._awaiting.pop(session.index, None)

    def flush(self, now: float) -> list[Datagram]:
        """Return all datagrams to send: what is queued, and notifications due again.

        Sessions that have the same frames to get share the packing of them.
        """
        is_resend_due = bool(self._times) and now >= self._times[0]
        if not (self.queued or self.outgoing or is_resend_due):
            return []  # nearly always, when other servers talk
        sent = self.outgoing[:]
        self.outgoing.clear()  # others hold the list, too
        if is_resend_due:
            self._resend(now, sent)
        queued, self.queued = self.queued, []
        if self._has_urgent:
            self._has_urgent = False
            queued.sort(key=lambda session: session.urgent == 0)
        awaiting, fresh = self._awaiting, list[int]()
        # the frames are kept beside their packets, so that no other frame can get the same id
        packed: dict[tuple[int, ...], tuple[list[Packet], list[bytes]]] = {}
        alone: bytes | None = None
        packets: list[Packet] = []
        for session in queued:
            session.is_queued, since = False, session.waits_since
            frames = session.take_frames(now) if session.is_open else None
            if not frames:
                continue
            if since is not None:
                packets, alone = pack_frames(frames, session.room, now, since), None
            elif len(frames) != 1 or frames[0] is not alone:  # else as for the session before
                alone = frames[0] if len(frames) == 1 else None
                key = tuple(map(id, frames))
                known = packed.get(key)
                if known is None:
                    known = packed[key] = (pack_frames(frames, session.room, now), frames)
                packets = known[0]
            if session.send(packets, sent) and session.index not in awaiting:
                awaiting[session.index] = session
                fresh.append(session.index)
        if fresh:
            self._look_again(fresh, now + self._wait_s)
        return sent

    def next_wakeup(self) -> float:
        """Return when `flush` may have something to repeat; infinity when nothing waits."""
        if self.queued or self.outgoing:
            return float("-inf")
        return self._times[0] if self._times else float("inf")

    def _look_again(self, sessions: Iterable[int], due: float) -> None:
        """Look at sessions, by their indices, at a time or soon after it."""
        due = ceil(due / _TOGETHER_S) * _TOGETHER_S
        known = self._due_at.get(due)
        if known is None:
            known = self._due_at[due] = []
            heappush(self._times, due)
        known += sessions

    def _resend(self, now: float, sent: list[Datagram]) -> None:
        while self._times and self._times[0] <= now:
            for index in self._due_at.pop(heappop(self._times)):
                session = self._awaiting.get(index)
                if session is None or not (session.is_open and session.awaits_receipts):
                    self._awaiting.pop(index, None)
                    continue
                due = session.next_resend()
                if due <= now:
                    sent.extend(session.resend(now))
                    due = session.next_resend()
                # not at once when it cannot be sent anything now
                self._look_again((index,), due if due > now else now + self._wait_s)
