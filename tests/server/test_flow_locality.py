"""What a flow's component has in a net gets the messages of that net; nobody else sees them."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from nearcast.flow.flow import Component, Flow
from nearcast.flow.messages import Work
from nearcast.flow.running_flow import RunningFlow
from nearcast.routing.keys import INDEX_END, NetPath
from server.flow_site import FlowSite

NORTH: NetPath = ("north",)
SOUTH: NetPath = ("south",)
PASSING = Flow("records", ("in",), {"first": Component("forward", ("in",), "out")})


def _two_nets(monkeypatch: pytest.MonkeyPatch) -> tuple[FlowSite, Counter[tuple[str, str]]]:
    """Return e0 with a device in the north, where e1 has all of the component; and who sent whom."""
    made = FlowSite(5, PASSING, nets={"e0": NORTH, "e1": NORTH})
    sent: Counter[tuple[str, str]] = Counter()
    take = RunningFlow.on_work

    def on_work(self: RunningFlow, sender: str, message: Work) -> None:
        sent[sender, self.server] += len(message.items)
        take(self, sender, message)

    monkeypatch.setattr(RunningFlow, "on_work", on_work)
    made.move("first", "cloud", "e1", 0, INDEX_END, NORTH)
    made.site.run(15.0)
    return made, sent


def test_messages_go_from_their_net_to_what_is_in_it_and_not_by_the_cloud(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, sent = _two_nets(monkeypatch)
    made.publish(10)
    made.site.run(15.0)
    sent.clear()  # at first nobody knew
    made.publish(60)
    made.site.run(5.0)
    assert set(sent) == {("e0", "e1"), ("e1", "e1")}
    assert sent.total() == 60
    assert Counter(made.heard()) == Counter(made.published)


def test_the_ring_tells_each_net_what_is_in_it_and_others_who_has_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, _ = _two_nets(monkeypatch)
    made.publish(10)
    probes = [INDEX_END * step // 8 for step in range(8)]
    find = partial(made.node("e0").ring.finder.find, "records", "first")
    for _ in range(3):  # to ask, and to hear the answers
        found = {net: {find(net, index) for index in probes} for net in (NORTH, SOUTH)}
        made.node("e0").ring.finder.finish(made.site.servers["e0"].clock.read())
        made.site.run(1.0)
    assert found == {NORTH: {"e1"}, SOUTH: {"cloud"}}
