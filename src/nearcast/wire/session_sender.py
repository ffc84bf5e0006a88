"""What goes out to clients at the end of a pass, and notifications again until they are confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nearcast.wire.actions import Datagram
from nearcast.wire.flights import Packet, pack_frames
from nearcast.wire.server_session import ServerSession
from nearcast.wire.settings import WireSettings

__all__ = ["SessionSender"]


class SessionSender:
    """Sessions with something to send, and those with unconfirmed notifications."""

    def __init__(self, settings: WireSettings) -> None:
        self._wait_s = settings.notification_retry_s
        self.queued: list[ServerSession] = []
        """Sessions with something to send, in the order in which it came up."""
        self.outgoing: list[Datagram] = []
        """Datagrams that are ready."""
        self._awaiting: dict[int, ServerSession] = {}
        """Sessions with unconfirmed notifications, by index."""
        self._next_resend = float("inf")
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

    def forget(self, session: ServerSession) -> None:
        """Repeat nothing more for a session."""
        self._awaiting.pop(session.index, None)

    def flush(self, now: float) -> list[Datagram]:
        """Return all datagrams to send: what is queued, and notifications due again.

        Sessions that have the same frames to get share the packing of them.
        """
        if not self.queued and not self.outgoing and now < self._next_resend:
            return []  # nearly always, when other servers talk
        sent = self.outgoing[:]
        self.outgoing.clear()  # others hold the list, too
        if now >= self._next_resend:
            self._resend(now, sent)
        queued, self.queued = self.queued, []
        if self._has_urgent:
            self._has_urgent = False
            queued.sort(key=lambda session: session.urgent == 0)
        wait_s, awaiting = self._wait_s, self._awaiting
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
                if session.send(packets, sent):
                    awaiting[session.index] = session
                continue
            if len(frames) != 1 or frames[0] is not alone:  # else as for the session before
                alone = frames[0] if len(frames) == 1 else None
                key = tuple(map(id, frames))
                known = packed.get(key)
                if known is None:
                    known = packed[key] = (pack_frames(frames, session.room, now), frames)
                packets = known[0]
            if session.send(packets, sent):
                awaiting[session.index] = session
        if awaiting and queued:
            self._next_resend = min(self._next_resend, now + wait_s)
        return sent

    def next_wakeup(self) -> float:
        """Return when `flush` may have something to repeat; infinity when nothing waits."""
        return float("-inf") if self.queued or self.outgoing else self._next_resend

    def _resend(self, now: float, sent: list[Datagram]) -> None:
        self._next_resend = float("inf")
        for index, session in list(self._awaiting.items()):
            if session.is_open and session.awaits_receipts:
                sent.extend(session.resend(now))
                self._next_resend = min(self._next_resend, session.next_resend())
            else:
                del self._awaiting[index]
