"""Clients between two homes: nothing that is meant for them gets lost on the way.

The last home keeps them subscribed until the next one has told the brokers, and sends on what
comes for them; the next one keeps that until they are there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["Departures"]

_MAIL_LIMIT = 1_024
"""Notifications kept for a client that is expected."""


@dataclass(slots=True)
class _Mail:
    until: float
    frames: deque[bytes] = field(default_factory=lambda: deque(maxlen=_MAIL_LIMIT))


class Departures:
    """Clients that left for another home, and mail for those that are expected here."""

    def __init__(self, grace_s: float, client_limit: int = 10_000) -> None:
        self._grace_s, self._client_limit = grace_s, client_limit
        self._left: dict[str, tuple[float, Sequence[str]]] = {}
        self._mail: dict[str, _Mail] = {}

    def leave(self, client: str, topics: Sequence[str], now: float) -> None:
        """Note that a client has left, with what it subscribed to."""
        self._left[client] = (now + self._grace_s, topics)

    def arrive(self, client: str) -> Sequence[bytes]:
        """Note that a client is here; return its mail."""
        self._left.pop(client, None)
        mail = self._mail.pop(client, None)
        return tuple(mail.frames) if mail is not None else ()

    def keep(self, client: str, frames: Iterable[bytes], now: float) -> bool:
        """Keep mail until the client is here; False when there is no room."""
        mail = self._mail.get(client)
        if mail is None:
            if len(self._mail) >= self._client_limit:
                return False
            mail = self._mail[client] = _Mail(now)
        mail.until = now + self._grace_s
        mail.frames.extend(frames)
        return True

    def expire(self, now: float) -> tuple[list[tuple[str, Sequence[str]]], int]:
        """Return the clients whose next home has had its time, and how much mail was given up."""
        gone = [one for one, (until, _) in self._left.items() if until <= now]
        late = [one for one, mail in self._mail.items() if mail.until <= now]
        given_up = sum(len(self._mail.pop(client).frames) for client in late)
        return [(client, self._left.pop(client)[1]) for client in gone], given_up
