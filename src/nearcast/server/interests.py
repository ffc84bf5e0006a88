"""Interests: the topics and patterns that clients here subscribe to, and which servers know it.

All servers are asked once whether they have topics of an interest; those that have are told its
subscribers, those that come to have one ask for them. A home thus remembers servers by what its own
clients want, and a broker subscribers by what it brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from nearcast.server.home_clients import HomeClients

__all__ = ["Interest", "Interests", "Knowledge"]


class Knowledge(Enum):
    """What a server knows of an interest; one that has nothing of it is not listed."""

    ASKED = "asked"
    """It has not answered whether it has topics of it."""
    LATE = "late"
    """The same, of a server that came after the interest: it may have processed some already."""
    DOUBTFUL = "doubtful"
    """It was told the subscribers, and may have forgotten them since."""
    TOLD = "told"


@dataclass(slots=True)
class Interest:
    """A topic or pattern."""

    name: str
    number: int
    """Of the question to all servers."""
    servers: dict[str, Knowledge] = field(default_factory=dict)
    unused_since: float | None = None
    """Since when nobody here subscribes to it."""

    @property
    def holders(self) -> list[str]:
        """Servers that were told the subscribers."""
        return [one for one in self.servers if not self.is_open(one)]

    def is_open(self, server: str) -> bool:
        """Tell whether a server was asked and has not answered."""
        return self.servers.get(server) in (Knowledge.ASKED, Knowledge.LATE)


class Interests:
    """What clients here want to hear.

    Parameters
    ----------
    linger_s
        How long an interest stays after its last subscriber: brokers hear a while later that a
        client has left, and who comes back need not wait for all servers.
    """

    def __init__(self, clients: HomeClients, linger_s: float) -> None:
        self._clients, self._linger_s = clients, linger_s
        self._by_name: dict[str, Interest] = {}
        self._by_number: dict[int, Interest] = {}

    def begin(self, name: str, number: int, servers: Iterable[str]) -> Interest:
        """Note an interest of which servers are asked now."""
        interest = Interest(name, number, dict.fromkeys(servers, Knowledge.ASKED))
        self._by_name[name] = self._by_number[number] = interest
        return interest

    def get(self, name: str) -> Interest | None:
        """Return the interest in a topic or pattern, if there is one."""
        return self._by_name.get(name)

    def asked_as(self, number: int) -> Interest | None:
        """Return the interest that servers were asked for by this number."""
        return self._by_number.get(number)

    def holders(self, name: str) -> list[str]:
        """Return the servers that were told the subscribers of a topic or pattern."""
        interest = self._by_name.get(name)
        return interest.holders if interest is not None else []

    def matching(self, topic: str) -> Iterator[Interest]:
        """Yield the interests that a topic is of."""
        for name in self._clients.names(topic):
            interest = self._by_name.get(name)
            if interest is not None:
                yield interest

    def known_to(self, server: str) -> Iterator[Interest]:
        """Yield the interests that a server was told or asked of."""
        return (one for one in self._by_name.values() if server in one.servers)

    def doubt(self, server: str, concerns: Callable[[str], bool]) -> None:
        """Note that a server may have forgotten what it was told, of the names concerned."""
        for one in self.known_to(server):
            if one.servers[server] is Knowledge.TOLD and concerns(one.name):
                one.servers[server] = Knowledge.DOUBTFUL

    def take_unused(self, servers: Collection[str], now: float) -> list[Interest]:
        """Forget, and return, what nobody has wanted for a while; forget servers that are gone."""
        unused = []
        for one in list(self._by_name.values()):
            for server in [each for each in one.servers if each not in servers]:
                del one.servers[server]
            if self._clients.subscribers(one.name):
                one.unused_since = None
            elif one.unused_since is None:
                one.unused_since = now
            elif now - one.unused_since >= self._linger_s:
                del self._by_name[one.name], self._by_number[one.number]
                unused.append(one)
        return unused

    @property
    def all(self) -> Collection[Interest]:
        """All of them."""
        return self._by_name.values()
