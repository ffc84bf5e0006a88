"""Clients between two homes: nothing that is meant for them gets lost on the way.

The last home keeps them subscribed until the next one has told the brokers, and sends on what
comes for them; the next one keeps that until they are there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["HandoverBuffer"]

_KEPT_LIMIT = 1_024
"""Notifications kept for a client that is expected."""


@dataclass(slots=True)
class _Kept:
    until: float
    frames: deque[bytes] = field(default_factory=lambda: deque(maxlen=_KEPT_LIMIT))


class HandoverBuffer:
    """Clients that left for another home, and kept for those that are expected here."""

    def __init__(self, grace_s: float, client_limit: int = 10_000) -> None:
        self._grace_s, self._client_limit = grace_s, client_limit
        self._left: dict[str, tuple[float, Sequence[str]]] = {}
        self._kept: dict[str, _Kept] = {}

    def leave(self, client: str, topics: Sequence[str], now: float) -> None:
        """Note that a client has left, with what it subscribed to."""
        self._left[client] = (now + self._grace_s, topics)

    def arrive(self, client: str) -> Sequence[bytes]:
        """Note that a client is here; return what was kept for it."""
        self._left.pop(client, None)
        return self.take_kept(client)

    def take_kept(self, client: str) -> Sequence[bytes]:
        """Return what was kept for a client, once."""
        kept = self._kept.pop(client, None)
        return tuple(kept.frames) if kept is not None else ()

    def keep(self, client: str, frames: Iterable[bytes], now: float) -> bool:
        """Keep kept until the client is here; False when there is no room."""
        kept = self._kept.get(client)
        if kept is None:
            if len(self._kept) >= self._client_limit:
                return False
            kept = self._kept[client] = _Kept(now)
        kept.until = now + self._grace_s
        kept.frames.extend(frames)
        return True

    def expire(self, now: float) -> tuple[list[tuple[str, Sequence[str]]], int]:
        """Return the clients whose next home has had its time, and how many notifications were given up."""
        gone = [one for one, (until, _) in self._left.items() if until <= now]
        late = [one for one, kept in self._kept.items() if kept.until <= now]
        given_up = sum(len(self._kept.pop(client).frames) for client in late)
        return [(client, self._left.pop(client)[1]) for client in gone], given_up
