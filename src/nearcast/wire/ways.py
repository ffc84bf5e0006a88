"""The ways of a client into its site: servers to try while its home does not answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearcast.wire.actions import Home
from nearcast.wire.messages import Way

__all__ = ["WAY_LIMIT", "Ways"]

WAY_LIMIT = 8
"""Most servers that a client is told."""
_LEAST_TRIES = 3
_MOST_TRIES = 6
_MET_LIMIT = 16


class Ways:
    """What the home said last, what the client began with, and where it was.

    The last two no home can take away.

    Parameters
    ----------
    is_revoked
        Tells which servers must not be gone to.
    """

    def __init__(
        self,
        servers: Sequence[Home] = (),
        is_revoked: Callable[[Home], bool] = lambda server: False,
    ) -> None:
        self._given, self._is_revoked = tuple(servers), is_revoked
        self._told: dict[int, Home] = {}
        self._met: dict[Home, None] = {}
        """Servers that have answered."""
        self._turn = 0

    @property
    def servers(self) -> tuple[Home, ...]:
        """All of them, the best first."""
        told = [self._told[number] for number in sorted(self._told)]
        found = dict.fromkeys((*told, *self._given, *self._met))
        return tuple(server for server in found if not self._is_revoked(server))

    def learn(self, way: Way, server: Home) -> bool:
        """Take a way that the home told, and the server that it leads to; False if it is none."""
        if not way.number < way.count <= WAY_LIMIT:
            return False
        self._told[way.number] = server
        for number in [one for one in self._told if one >= way.count]:
            del self._told[number]
        return True

    def met(self, server: Home) -> None:
        """Note a server that has proved to be where it was said to be."""
        self._met.pop(server, None)
        self._met[server] = None
        if len(self._met) > _MET_LIMIT:
            del self._met[next(iter(self._met))]

    def has_met(self, server: Home) -> bool:
        """Tell whether a server has proved to be where it was said to be."""
        return server in self._met

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
