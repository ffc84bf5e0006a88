"""A server with too much to do gives a part to one that offered room on the ring, and gets it back."""

from __future__ import annotations

from nearcast.flow.messages import Part
from nearcast.routing.keys import INDEX_END
from nearcast.server.flow_messages import RoomAnswer, RoomWanted
from nearcast.server.mesh_messages import encode_mesh
from server.flow_site import FlowSite


def run_with_loads(flows: FlowSite, loads: dict[str, float], seconds: float) -> None:
    """Let the site work while the shells say how busy they are."""
    for _ in range(int(seconds)):
        for server, share in loads.items():
            flows.node(server).flows.load.busy_share = share
        flows.publish(10)
        flows.site.run(1.0)


def held(flows: FlowSite, server: str, component: str) -> list[Part]:
    """Return the parts that a server has of a component."""
    reports = flows.node(server).flows.watch.read(()).flows
    return [
        part
        for flow in reports
        for one in flow.components
        if one.component == component
        for part in one.held
    ]


def test_too_much_work_goes_to_who_offers_room_and_comes_back() -> None:
    flows = FlowSite(3, is_inline=True)
    run_with_loads(flows, {"cloud": 0.95, "e0": 0.1, "e1": 0.7}, 20.0)
    moved = held(flows, "e0", "first") + held(flows, "e0", "second")
    assert moved
    assert not held(flows, "e1", "first") + held(flows, "e1", "second")
    kept = held(flows, "cloud", "first") + held(flows, "cloud", "second")
    assert sum(part.high - part.low for part in (*moved, *kept)) == 2 * INDEX_END
    flows.settle()
    flows.check()
    # nothing to do for long: all goes back
    for _ in range(60):
        for server in ("cloud", "e0", "e1"):
            flows.node(server).flows.load.busy_share = 0.05
        flows.site.run(1.0)
    assert not held(flows, "e0", "first") + held(flows, "e0", "second")
    flows.publish(20)
    flows.settle()
    flows.check()


def test_room_is_kept_for_one_asker_and_a_false_answer_moves_nothing() -> None:
    flows = FlowSite(4)
    for _ in range(10):
        for server in ("cloud", "e0", "e1"):
            flows.node(server).flows.load.busy_share = 0.6
        flows.node("e0").flows.load.busy_share = 0.1
        flows.site.run(1.0)
    said: list[tuple[str, object]] = []
    node = flows.node("e0")
    node._peers.send = lambda server, message: said.append((server, message))  # type: ignore[method-assign]
    now = flows.site.servers["e0"].clock.read()
    for asker in ("e1", "cloud", "e1"):
        node._peers.dispatch(asker, [encode_mesh(RoomWanted(1))], now)
    assert said == [
        ("e1", RoomAnswer(1, True)),
        ("cloud", RoomAnswer(1, False)),
        ("e1", RoomAnswer(1, True)),
    ]
    flows.node("cloud")._peers.dispatch("e1", [encode_mesh(RoomAnswer(1, True))], now)
    flows.site.run(5.0)
    assert not held(flows, "e1", "first") + held(flows, "e1", "second")
