"""Processors for trials: one that tells what it has counted, one that is hard work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from time import thread_time

from nearcast.broker.notifications import Notification
from nearcast.broker.topic_spool import SpoolView
from nearcast.errors import ConfigError
from nearcast.wire.publication import Publication

__all__ = ["GRIND", "TALLY", "Grind", "Tally", "grind", "rounds_for"]

TALLY = "nearcast.experiments.flows.trial_processors:Tally"
GRIND = "nearcast.experiments.flows.trial_processors:Grind"


class Tally:
    """Counts the messages of each key, and tells the count with each message."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return each message with the count of its key."""
        for message in batch:
            body = json.loads(message.payload)
            key = body["key"]
            self._counts[key] = self._counts.get(key, 0) + 1
            told = {**body, "count": self._counts[key]}
            yield Notification(json.dumps(told).encode(), cause=message)

    def state(self) -> bytes:
        """Return the counts."""
        return json.dumps(self._counts).encode()

    def restore(self, state: bytes) -> None:
        """Go on from these counts."""
        self._counts = json.loads(state)

    def split(self, goes: Callable[[str], bool]) -> bytes:
        """Give the counts of keys away."""
        gone = {key: count for key, count in self._counts.items() if goes(key)}
        self._counts = {key: count for key, count in self._counts.items() if key not in gone}
        return json.dumps(gone).encode()

    def merge(self, state: bytes) -> None:
        """Add other counts."""
        for key, count in json.loads(state).items():
            self._counts[key] = self._counts.get(key, 0) + count


class Grind:
    """Works hard for each message, then passes it on.

    Parameters
    ----------
    rounds
        How often a message is hashed.
    """

    def __init__(self, rounds: int = 20_000) -> None:
        if rounds < 1:
            raise ConfigError("rounds must be positive")
        self._rounds = rounds

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return each message after the work."""
        for message in batch:
            grind(message.payload, self._rounds)
            yield Notification(message.payload, cause=message)


def grind(payload: bytes, rounds: int) -> bytes:
    """Return the hash of the hash of the hash of something: hard work."""
    for _ in range(rounds):
        payload = sha256(payload).digest()
    return payload


def rounds_for(milliseconds: float) -> int:
    """Return how often to hash for a message to take so long on this machine."""
    tried, least_s = 50_000, float("inf")
    for _ in range(5):  # a core that was idle is slow at first, and so is one that others use
        began_s = thread_time()
        grind(b"", tried)
        least_s = min(least_s, thread_time() - began_s)
    return max(1, round(tried * milliseconds / 1e3 / least_s))
