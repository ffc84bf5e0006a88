"""Which edge server becomes the home of a client that no plan knows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from nearcast.server.manager_state import SiteServer

__all__ = ["HomeChoice"]


class HomeChoice:
    """How many clients each server has, whether of the plan or enrolled besides."""

    def __init__(self, servers: Mapping[str, SiteServer], taken: Mapping[str, int]) -> None:
        self._servers = {
            name: server for name, server in servers.items() if server.place_km is not None
        }
        self._taken = Counter(taken)

    def move(self, old_home: str | None, place_km: tuple[float, float]) -> str:
        """Give up a home and return the new one: the nearest server with room for a client.

        The nearest of all where none has; the first of equally near ones by name.
        """
        if old_home is not None:
            self._taken[old_home] -= 1
        full_first = [
            (self._taken[name] >= one.client_limit, math.dist(place_km, one.place_km), name)
            for name, one in self._servers.items()
            if one.place_km is not None
        ]
        home = min(full_first)[2]
        self._taken[home] += 1
        return home
