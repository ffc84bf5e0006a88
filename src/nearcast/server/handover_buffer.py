"""Clients between two homes: nothing that is meant for them gets lost on the way.

The last home keeps them subscribed until the next one has told the brokers, and sends on what
comes for them; the next one keeps that until they are there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["KEPT_LIMIT", "HandoverBuffer", "Kept"]

_CLIENT_LIMIT = 1_024
"""Notifications kept for a client that is expected."""
KEPT_LIMIT = 100_000
"""Notifications kept for all of them, about 120 MB at most; for as many clients at most."""


class Kept(NamedTuple):
    """A notification that waits for its client."""

    frame: bytes
    epoch: int
    """Of the program that it is for; 0: unknown."""
    since: float


@dataclass(slots=True)
class _Waiting:
    until: float
    is_spare: bool = True
    """Whether all of it reaches the client at its present home too."""
    frames: deque[Kept] = field(default_factory=lambda: deque(maxlen=_CLIENT_LIMIT))


class HandoverBuffer:
    """Clients that left for another home, and kept for those that are expected here."""

    def __init__(self, grace_s: float, frame_limit: int = KEPT_LIMIT) -> None:
        self._grace_s, self._frame_limit = grace_s, frame_limit
        self.frames = 0
        """Notifications that are kept."""
        self._left: dict[str, tuple[float, Sequence[str]]] = {}
        self._kept: dict[str, _Waiting] = {}

    def leave(self, client: str, topics: Sequence[str], now: float) -> None:
        """Note that a client has left, with what it subscribed to."""
        self._left[client] = (now + self._grace_s, topics)

    def stay(self, client: str) -> None:
        """Note that a client that has left is back, or coming."""
        self._left.pop(client, None)

    def take_kept(self, client: str) -> Sequence[Kept]:
        """Return what was kept for a client, once."""
        kept = self._kept.pop(client, None)
        if kept is None:
            return ()
        self.frames -= len(kept.frames)
        return tuple(kept.frames)

    def keep(
        self,
        client: str,
        frames: Iterable[bytes],
        now: float,
        epoch: int,
        *,
        is_spare: bool = False,
    ) -> bool:
        """Keep notifications until the client is here; False when there is no room."""
        kept = self._kept.get(client)
        clients = len(self._kept) if kept is None else 0
        if max(self.frames, clients) >= self._frame_limit:
            return False
        if kept is None:
            kept = self._kept[client] = _Waiting(now)
        kept.until = now + self._grace_s
        kept.is_spare = kept.is_spare and is_spare
        before = len(kept.frames)
        kept.frames.extend(Kept(frame, epoch, now) for frame in frames)
        self.frames += len(kept.frames) - before
        return True

    def expire(self, now: float) -> tuple[list[tuple[str, Sequence[str]]], int]:
        """Return the clients whose next home has had its time, and how many notifications were given up."""
        gone = [one for one, (until, _) in self._left.items() if until <= now]
        late = [one for one, kept in self._kept.items() if kept.until <= now]
        spare = {client for client in late if self._kept[client].is_spare}
        taken = {client: len(self.take_kept(client)) for client in late}
        given_up = sum(size for client, size in taken.items() if client not in spare)
        return [(client, self._left.pop(client)[1]) for client in gone], given_up
