"""The load's sessions with edge servers: sealed, durable publications, receipts and all."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from select import select

from nearcast.experiments.latency.arrivals import Heard
from nearcast.experiments.latency.lean_sessions import (
    GroupListener,
    LeanSession,
    SessionSocket,
    SharedOpener,
)
from nearcast.experiments.latency.wakeups import Wakeups
from nearcast.experiments.latency.workload import TOPICS, topic_name
from nearcast.links.steady_clock import steady_now
from nearcast.sdk.credentials import load_credentials
from nearcast.wire.settings import WireSettings

__all__ = ["NearcastConnections"]

_START_S = 150.0
_AT_ONCE = 200
_READS = 64
"""Sessions that connect or subscribe at the same time."""
_PUBLISH_LIMIT = WireSettings().publish_limit


class NearcastConnections:
    """One session per publisher and subscriber.

    Parameters
    ----------
    publishers, subscribers
        Credential files.
    sessions_per_socket
        1 as real clients have it; more where a thousand sockets would only cost the load.
    topics
        How many topics subscribers subscribe to.
    probe_after_s
        See `LeanSession`: ten thousand that ask every three seconds are much for one process.
    """

    def __init__(
        self,
        publishers: Sequence[Path],
        subscribers: Sequence[Path],
        *,
        sessions_per_socket: int = 1,
        topics: int = TOPICS,
        probe_after_s: float | None = None,
    ) -> None:
        self._probe_after_s = probe_after_s
        self._carriers: dict[socket.socket, SessionSocket | GroupListener] = {}
        self._waiting: list[deque[tuple[str, bytes]]] = [deque() for _ in publishers]
        """Messages for which a session had no room."""
        self.sockets: list[socket.socket] = []
        self._touched: set[LeanSession] = set()
        """Sessions whose next time to run may have changed."""
        self._wakeups = Wakeups()
        self._publishers = self._open(publishers, sessions_per_socket)
        self._subscribers = self._open(subscribers, sessions_per_socket)
        self.sessions = [*self._publishers, *self._subscribers]
        self.listeners: list[GroupListener] = []
        """Sockets of the multicast group, as many as there are for subscribers' sessions."""
        self.heard: list[Heard] = [one.heard for one in self._subscribers]
        for first in range(0, len(self._subscribers), _AT_ONCE):
            self._subscribe(self._subscribers[first : first + _AT_ONCE], topics)

    def _open(self, files: Sequence[Path], per_socket: int) -> list[LeanSession]:
        """Connect sessions, some at a time: servers refuse more handshakes than they can do."""
        found: list[LeanSession] = []
        for index, path in enumerate(files):
            if index % per_socket == 0:
                carrier = SessionSocket(1 if per_socket == 1 else _READS)
                self._carriers[carrier.socket] = carrier
                self.sockets.append(carrier.socket)
            found.append(LeanSession(load_credentials(path), carrier, self._probe_after_s))
            self._touched.add(found[-1])
            if index % _AT_ONCE == _AT_ONCE - 1 or index == len(files) - 1:
                recent = found[-_AT_ONCE:]
                self._until(partial(_are_connected, recent), "connections")
        return found

    def _subscribe(self, sessions: Sequence[LeanSession], topics: int) -> None:
        for session in sessions:
            for number in range(topics):
                session.subscribe(topic_name(number))
        self._touched.update(sessions)
        self._until(lambda: all(one.confirmed >= topics for one in sessions), "subscriptions")

    def _until(self, is_done: Callable[[], bool], what: str) -> None:
        limit = steady_now() + _START_S
        while not is_done():
            if steady_now() > limit:
                raise RuntimeError(f"no {what} after {_START_S:.0f} s")
            self.tick()
            for source in select(self.sockets, (), (), 0.002)[0]:
                self.read(source)

    def publish(self, number: int, payload: bytes) -> None:
        """Take a durable publication."""
        self._waiting[number % len(self._publishers)].append((topic_name(number), payload))

    def flush(self) -> None:
        """Send what was published and still has room among the unacknowledged ones."""
        now = steady_now()
        for session, waiting in zip(self._publishers, self._waiting, strict=True):
            if not waiting:
                continue
            while waiting and session.unacknowledged < _PUBLISH_LIMIT:
                session.publish(*waiting.popleft(), now)
            session.send_published(now)
            self._touched.add(session)

    def join_group(self, sessions_per_socket: int) -> None:
        """Have all subscribers hear the multicast group, and the server know it."""
        some = self._subscribers
        self._until(lambda: all(one.group.address for one in some), "keys of the group")
        for first in range(0, len(some), sessions_per_socket):
            members = some[first : first + sessions_per_socket]
            assert members[0].group.address is not None
            listener = GroupListener(members[0].group.address, members)
            self._carriers[listener.socket] = listener
            self.listeners.append(listener)
            self.sockets.append(listener.socket)
        self._until(lambda: all(one.group.is_hearing for one in some), "datagrams of the group")
        known = steady_now() + WireSettings().report_interval_s  # each receipt goes out before
        self._until(lambda: steady_now() > known, "end of a pause")

    def group_openers(self) -> list[SharedOpener]:
        """Return what has opened the datagrams of the group."""
        carriers = {one.carrier for one in self._subscribers}
        return [opener for one in carriers for opener in one.openers.values()]

    def datagrams(self) -> int:
        """Return how many datagrams with notifications servers have sent, the group's once."""
        by_group = self.listeners[0].datagrams if self.listeners else 0
        return by_group + sum(one.unicast_datagrams for one in self._subscribers)

    def read(self, source: socket.socket) -> None:
        """Read what has arrived at a socket."""
        self._touched.update(self._carriers[source].read(steady_now()))

    def tick(self) -> None:
        """Send receipts, reports and repetitions that are due."""
        if any(self._waiting):
            self.flush()
        self._wakeups.run_due(self._touched, steady_now())
        self._touched.clear()

    def unacknowledged(self) -> int:
        """Return how many publications are not known to be durable."""
        waiting = sum(map(len, self._waiting))
        return waiting + sum(one.unacknowledged for one in self._publishers)

    def close(self) -> None:
        """End all sessions."""
        for session in self.sessions:
            session.close()
            session.run(steady_now())
        for one in self.sockets:
            one.close()


def _are_connected(sessions: Sequence[LeanSession]) -> bool:
    return all(one.is_connected for one in sessions)
