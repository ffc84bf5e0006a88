"""Servers that manage topics though no orders say so, or did: as they, or others, have told."""

from __future__ import annotations

from collections.abc import Container

__all__ = ["Told", "ToldBrokers"]

Told = dict[str, dict[str, None]]
"""Servers by topic."""


class ToldBrokers:
    """What was told of topics; a server is in one table of a topic at most.

    Parameters
    ----------
    limit
        Topics in each table.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.volunteers: Told = {}
        """Servers that have proved that they manage a topic."""
        self.stand_ins: Told = {}
        """Servers of which it is said without proof: they may have streams, and get no copies."""
        self.past: Told = {}
        """Servers that managed a topic once."""

    @property
    def topics(self) -> int:
        """Topics of which something was told."""
        return len(self.volunteers.keys() | self.stand_ins.keys() | self.past.keys())

    def of(self, topic: str) -> list[str]:
        """Return all servers that may have something of a topic."""
        return [one for table in self._tables for one in table.get(topic, {})]

    def note(self, kept: Told, server: str, topic: str) -> bool:
        """Keep a server in one of the tables, and in no other; tell whether there is room."""
        self.drop(server, topic)
        has_room = topic in kept or len(kept) < self._limit
        if has_room:
            kept.setdefault(topic, {})[server] = None
        return has_room

    def drop(self, server: str, topic: str) -> None:
        """Forget that a server has something of a topic."""
        for table in self._tables:
            servers = table.get(topic, {})
            servers.pop(server, None)
            if not servers:
                table.pop(topic, None)

    def keep_only(self, servers: Container[str]) -> None:
        """Forget all servers but these."""
        for table in self._tables:
            for told in table.values():
                for server in [one for one in told if one not in servers]:
                    del told[server]

    @property
    def _tables(self) -> tuple[Told, Told, Told]:
        return self.volunteers, self.stand_ins, self.past
