"""The sessions of a server by index and by client, confirmed and half-open."""

from __future__ import annotations

from collections.abc import Iterator

from nearcast.wire.server_session import ServerSession
from nearcast.wire.session_index import with_prefix
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["SessionTable"]


class SessionTable:
    """A client has at most one session in use, and a few that wait for their first datagram.

    Thus an INIT that somebody replays, which nobody can follow up, never disturbs a session.
    """

    def __init__(self, settings: WireSettings, index_prefix: int) -> None:
        self._settings, self._index_prefix = settings, index_prefix
        self.by_index: dict[int, ServerSession] = {}
        self.by_client: dict[str, ServerSession] = {}
        """Confirmed sessions only."""
        self._dropped_before = 0
        self._half_open: dict[str, list[ServerSession]] = {}
        """By client, the oldest first."""

    def is_crowded(self, client: str) -> bool:
        """Tell whether a client has too many waiting sessions for all to be its own."""
        return len(self._half_open.get(client, ())) >= self._settings.half_open_limit

    @property
    def notifications_dropped(self) -> int:
        """Unconfirmed notifications that were given up, of sessions past and present."""
        present = sum(one.notifications_dropped for one in self.by_client.values())
        return self._dropped_before + present

    def epoch_of(self, client: str) -> int:
        """Return the epoch of the program that has a client's session; 0: there is none."""
        return found.epoch if (found := self.by_client.get(client)) else 0

    def is_meant(self, client: str, epoch: int) -> bool:
        """Tell whether what a program with an epoch lacks is for the one that is here.

        Of which program something is may be unknown (0): it is not for one in its first session,
        which has left nothing behind anywhere.
        """
        found = self.by_client.get(client)
        return found is not None and (found.epoch == epoch if epoch else found.init.epoch > 0)

    def address_of(self, client: str) -> Address | None:
        """Return where a client has proved to receive."""
        return found.address if (found := self.by_client.get(client)) else None

    def is_visitor(self, client: str) -> bool:
        """Tell whether a client has its home elsewhere and is here to publish only."""
        return (found := self.by_client.get(client)) is not None and found.init.visits

    def heard_at(self, client: str) -> float:
        """Return when a client was last heard here."""
        return found.last_heard if (found := self.by_client.get(client)) else float("-inf")

    def has_room(self, client: str) -> bool:
        """Tell whether a client may be sent many more notifications without any loss."""
        return (found := self.by_client.get(client)) is None or found.has_room

    def note_lost(self, client: str) -> None:
        """Have a client begin a new session, in which it asks for what it lacks."""
        session = self.by_client.get(client)
        if session is not None:
            session.has_lost = True

    def make_room(self, client: str) -> bool:
        """Forget one half-open session if the client has many; tell whether one more has room.

        Those whose INIT had no cookie go first: only they can be a replayer's.
        """
        if self.is_crowded(client):
            self.remove(min(self._half_open[client], key=lambda one: one.has_cookie))
        return len(self.by_index) < self._settings.session_limit

    def new_index(self, random_bytes: RandomBytes) -> int:
        """Return an index that no session has."""
        while True:
            index = with_prefix(int.from_bytes(random_bytes(4), "big"), self._index_prefix)
            if index not in self.by_index:
                return index

    def add(self, session: ServerSession) -> None:
        """Add a half-open session."""
        self.by_index[session.index] = session
        self._half_open.setdefault(session.client, []).append(session)

    def confirm(self, session: ServerSession) -> ServerSession | None:
        """Put a half-open session into use; return the one that it replaces."""
        self._stop_waiting(session)
        old = self.by_client.get(session.client)
        if old is not None:
            self.remove(old)
        self.by_client[session.client] = session
        return old

    def remove(self, session: ServerSession) -> None:
        """Forget a session."""
        if self.by_index.pop(session.index, None) is not None:
            self._dropped_before += session.notifications_dropped
        client = session.client
        if self.by_client.get(client) is session:
            del self.by_client[client]
        elif not session.is_confirmed:
            self._stop_waiting(session)

    def _stop_waiting(self, session: ServerSession) -> None:
        waiting = self._half_open[session.client]
        waiting.remove(session)
        if not waiting:
            del self._half_open[session.client]

    def rekey_overdue(self, now: float) -> list[ServerSession]:
        """Return the confirmed sessions whose keys served too long, or nearly too often.

        Clients replace them in time. The counters that are left at that point last longer than
        the time until this is asked again.
        """
        limit_s = 2 * self._settings.rekey_s
        return [
            one
            for one in self.by_client.values()
            if now - one.opened_at > limit_s or one.channel.rekey_due
        ]

    def silent(self, now: float) -> Iterator[ServerSession]:
        """Yield the sessions that missed their reports or were never confirmed."""
        settings = self._settings
        silent_s = settings.missed_reports * settings.report_interval_s
        for session in list(self.by_index.values()):
            limit_s = silent_s if session.is_confirmed else settings.half_open_s
            # one that is muted cannot be heard; without its session the kernel would let it through
            if now - max(session.last_heard, session.pace.muted_until) > limit_s:
                yield session
