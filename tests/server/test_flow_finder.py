"""Servers find who has an index of a component through the overlay."""

from __future__ import annotations

from nearcast.flow.finder import Finder
from nearcast.flow.messages import Part
from nearcast.routing.keys import CLOUD, INDEX_END, NetPath
from nearcast.server.flow_finder import FlowFinder
from nearcast.server.site_orders import Orders
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite

HALF = INDEX_END // 2
YRP: NetPath = ("jp", "yrp")
KYOTO: NetPath = ("jp", "kyoto")


class _Finders:
    """A site of one ring, with a finder at each server."""

    def __init__(self, servers: int = 5) -> None:
        self.site = SimulatedSite(1, Network(delay_s=lambda _a, _b: 0.007))
        for number in range(servers):
            self.site.add_server(f"e{number}")
        self.site.obey(Orders(1, 1, "", self.site.server_orders(), (), ()))
        self.site.run(30.0)
        self.finders: dict[str, FlowFinder] = {}
        for name, server in self.site.servers.items():
            assert server.node is not None
            self.finders[name] = FlowFinder(server.node.ring.overlay)

    def __getitem__(self, name: str) -> Finder:
        return self.finders[name]

    def settle(self, seconds: float = 2.0) -> None:
        """End the pass of each server, and let messages travel."""
        for name, finder in self.finders.items():
            server = self.site.servers[name]
            now = server.clock.read()
            finder.finish(now)
            assert server.node is not None
            server.do(server.node.on_timer(now))
        self.site.run(seconds)

    def find(self, name: str, net: NetPath, index: int) -> str | None:
        """Return what a server finds, if it gets the time to ask."""
        self[name].find("people", "match", net, index)
        self.settle()
        return self[name].find("people", "match", net, index)


def test_the_server_that_holds_everything_is_found_from_every_net() -> None:
    finders = _Finders()
    finders["e1"].hold("people", "match", (Part(None, 0, INDEX_END),))
    finders.settle()
    assert finders["e3"].find("people", "match", YRP, 7) is None
    for net in (CLOUD, YRP):
        assert finders.find("e3", net, INDEX_END - 1) == "e1"
    assert finders["e3"].find("people", "match", YRP, 7) == "e1", "one answer counts for a range"
    assert finders.find("e3", YRP, 8) == "e1"
    assert finders["e3"].find("people", "count", YRP, 7) is None


def test_each_half_is_found_after_a_split() -> None:
    finders = _Finders()
    finders["e1"].hold("people", "match", (Part(None, HALF, INDEX_END),))
    finders["e2"].hold("people", "match", (Part(None, 0, HALF),))
    for name in ("e1", "e2"):
        finders[name].meet("people", "match", YRP)
    finders.settle()
    for net in (CLOUD, YRP, KYOTO):
        assert finders.find("e0", net, HALF - 1) == "e2"
        assert finders.find("e0", net, HALF) == "e1"


def test_a_net_of_its_own_goes_to_who_has_it() -> None:
    finders = _Finders()
    finders["e1"].hold("people", "match", (Part(None, 0, INDEX_END),))
    finders["e1"].meet("people", "match", YRP)
    finders.settle()
    finders["e2"].hold("people", "match", (Part(YRP, 0, HALF),))
    finders.settle()
    assert finders.find("e0", YRP, 5) == "e2"
    assert finders.find("e0", KYOTO, 5) == "e1"


def test_what_moved_is_found_anew_after_a_while() -> None:
    finders = _Finders()
    finders["e1"].hold("people", "match", (Part(None, 0, INDEX_END),))
    finders.settle()
    assert finders.find("e0", YRP, 5) == "e1"
    finders["e2"].hold("people", "match", (Part(None, 0, INDEX_END),))
    finders["e1"].hold("people", "match", ())
    finders.settle(11.0)
    finders.settle()  # the answer is outdated now
    assert finders.find("e0", YRP, 5) == "e2"
    status = finders.site.servers["e1"].node
    assert status is not None
    ring = status.ring.overlay.status()
    assert ring is not None
    assert ring.keys == 1, "its own place only"


def test_a_burst_asks_a_few_times_only_and_tables_are_limited() -> None:
    finders = _Finders(2)
    finder = finders.finders["e0"]
    for index in range(1_000):
        finder.find("people", "match", YRP, index)
    assert len(finder._to_ask) == 8
    for number in range(3_000):
        finder.find(f"flow{number}", "match", YRP, 1)
    assert len(finder._asked) == 1_024
    assert finder.refused == 3_001 - 1_024
    finders.settle(20.0)
    assert not finder._asked
    for number in range(2_000):
        finder.meet("people", "match", (f"n{number}",))
    assert len(finder._nets["people\x00match"]) == 1_024
