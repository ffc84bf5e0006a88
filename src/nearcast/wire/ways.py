"""The ways of a client into its site: servers to try while its home does not answer."""

from __future__ import annotations

from collections.abc import Sequence

from nearcast.wire.actions import Home
from nearcast.wire.messages import Way

__all__ = ["WAY_LIMIT", "Ways"]

WAY_LIMIT = 8
"""Most servers that a client is told."""
_LEAST_TRIES = 3
_MOST_TRIES = 6


class Ways:
    """What the home said last, then what the client began with."""

    def __init__(self, servers: Sequence[Home] = ()) -> None:
        self._given = tuple(servers)
        self._told: dict[int, Home] = {}
        self._turn = 0

    @property
    def servers(self) -> tuple[Home, ...]:
        """All of them, the best first."""
        told = [self._told[number] for number in sorted(self._told)]
        return tuple(dict.fromkeys((*told, *self._given)))

    def learn(self, way: Way, server: Home) -> bool:
        """Take a way that the home told, and the server that it leads to; False if it is none."""
        if not way.number < way.count <= WAY_LIMIT:
            return False
        self._told[way.number] = server
        for number in [one for one in self._told if one >= way.count]:
            del self._told[number]
        return True

    def next(self, but: Home) -> Home | None:
        """Return the server to try next, in turn; None when there is no other."""
        others = [server for server in self.servers if server != but]
        if not others:
            return None
        server = others[self._turn % len(others)]
        self._turn += 1
        return server

    @property
    def patience(self) -> int:
        """How many INITs one of them gets before the next one: more in each round."""
        return min(_MOST_TRIES, _LEAST_TRIES + self._turn // max(1, len(self.servers)))

    def begin(self) -> None:
        """Begin with the best again."""
        self._turn = 0
