"""The sessions of a server by index and by client, confirmed and half-open."""

from __future__ import annotations

from collections.abc import Iterator

from nearcast.wire.server_session import ServerSession
from nearcast.wire.settings import RandomBytes, WireSettings

__all__ = ["SessionTable"]


class SessionTable:
    """A client has at most one session in use and one that waits for its first datagram.

    Thus an INIT that somebody replays, which nobody can follow up, never disturbs a session.
    """

    def __init__(self, settings: WireSettings) -> None:
        self._settings = settings
        self.by_index: dict[int, ServerSession] = {}
        self.by_client: dict[str, ServerSession] = {}
        """Confirmed sessions only."""
        self._half_open: dict[str, ServerSession] = {}

    def make_room(self, client: str) -> bool:
        """Forget the client's half-open session; tell whether there is room for a new one."""
        half_open = self._half_open.get(client)
        if half_open is not None:
            self.remove(half_open)
        return len(self.by_index) < self._settings.session_limit

    def new_index(self, random_bytes: RandomBytes) -> int:
        """Return an index that no session has."""
        index = int.from_bytes(random_bytes(4), "big")
        while index in self.by_index:
            index = int.from_bytes(random_bytes(4), "big")
        return index

    def add(self, session: ServerSession) -> None:
        """Add a half-open session."""
        self.by_index[session.index] = self._half_open[session.client] = session

    def confirm(self, session: ServerSession) -> ServerSession | None:
        """Put a half-open session into use; return the one that it replaces."""
        del self._half_open[session.client]
        old = self.by_client.get(session.client)
        if old is not None:
            self.remove(old)
        self.by_client[session.client] = session
        return old

    def remove(self, session: ServerSession) -> None:
        """Forget a session."""
        self.by_index.pop(session.index, None)
        for table in (self.by_client, self._half_open):
            if table.get(session.client) is session:
                del table[session.client]

    def silent(self, now: float) -> Iterator[ServerSession]:
        """Yield the sessions that missed their reports or were never confirmed."""
        settings = self._settings
        silent_s = settings.missed_reports * settings.report_interval_s
        for session in list(self.by_index.values()):
            limit_s = silent_s if session.is_confirmed else settings.half_open_s
            if now - session.last_heard > limit_s:
                yield session
