"""Flows on whole servers: their brokers, logs, channels and clients, in virtual time."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count, pairwise

import pytest
from msgspec import structs

from nearcast.broker.requests import ProcessRequest
from nearcast.flow.flow import Component, ContentMapping, Flow
from nearcast.flow.flow_orders import FlowOrder
from nearcast.flow.messages import Done, Part, Work
from nearcast.flow.stored import FLOW_TOPICS
from nearcast.routing.index_mapping import content_index
from nearcast.routing.keys import INDEX_END
from nearcast.server.site_orders import ClientOrder, TopicOrder
from nearcast.testing.recording_processor import RECORDING
from nearcast.wire.notification import Notification
from nearcast.wire.publication import decode_record
from server.flow_site import FIRST, KEYS, RECORDS, SECOND, FlowSite

HALF = INDEX_END // 2


def test_what_devices_publish_goes_through_all_components_to_subscribers() -> None:
    made = FlowSite(1)
    made.publish(60)
    made.site.run(5.0)
    made.check()
    assert not any(one.session.unacknowledged for one in made.devices)
    (publisher,) = {one.publisher for one in made.watcher.notified}
    assert publisher == "flow:records/second@cloud"
    (shown,) = made.node("cloud").flows.status()
    (place,) = shown["components"]["first"]["places"]
    assert place["parts"] == [{"net": None, "low": 0, "high": INDEX_END}]
    assert (place["processed"], place["queued"], place["unpublished"]) == (60, 0, 0)
    for name in ("e0", "e1"):
        (shown,) = made.node(name).flows.status()
        assert all(
            one["outgoing"] == 0
            for component in shown["components"].values()
            for one in component["places"]
        )
    made.site.run(5.0)
    assert made.node("cloud").counts["flow_processed"] == 120


def test_a_part_moves_with_its_state_while_messages_come() -> None:
    made = FlowSite(2)
    made.publish(30)
    made.move("first", "cloud", "e0", 0, HALF)
    made.publish(30)
    made.move("second", "cloud", "e1", HALF, INDEX_END)
    made.publish(30)
    made.move("first", "e0", "e1", 0, HALF)
    made.publish(30)
    made.site.run(10.0)
    made.check()
    (shown,) = made.node("e1").flows.status()
    assert [one["parts"] for one in shown["components"]["first"]["places"]] == [
        [{"net": None, "low": 0, "high": HALF}]
    ]


def test_events_tell_how_long_a_hand_over_took_whatever_fails_meanwhile() -> None:
    made = FlowSite(2)
    made.publish(30)
    made.move("first", "cloud", "e0", 0, HALF)
    made.publish(30)
    node, now = made.node("cloud"), made.site.servers["cloud"].clock.read()
    for number in range(50):
        node.flows._note("records", "first", "failed", f"message {number}", now)
    made.site.run(5.0)
    for server, event in (("cloud", "handed over"), ("e0", "taken")):
        (shown,) = made.node(server).flows.status()
        (told,) = [one["what"] for one in shown["events"] if event in one["what"]]
        held_up = r"held up \d+ ms, " if server == "cloud" else ""
        assert re.fullmatch(rf"first {event}: .* {held_up}\d+ ms in all", told), told
    (shown,) = made.node("cloud").flows.status()
    assert sum(one["is_fault"] for one in shown["events"]) == 20


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_or_done_twice_when_servers_are_killed_anywhere(seed: int) -> None:
    made = FlowSite(seed, is_inline=bool(seed % 2))
    rng = made.site.random
    for _ in range(12):
        made.publish(10)
        made.move_some()
        server = rng.choice(list(made.site.servers.values()))
        if server.node is None:
            server.restart()
        elif rng.random() < 0.3:
            server.end_host()
        else:
            server.crash_in(rng.randrange(60))
    made.settle()
    made.check()


@pytest.mark.parametrize("at", ["process", "split", "merge"])
def test_a_component_that_ends_its_process_costs_one_message_or_one_move(at: str) -> None:
    made = FlowSite(9)
    made.publish(20)
    made.move("first", "cloud", "e0", 0, HALF)  # so that e0 has a state to merge another with
    made.publish(20)
    made.site.run(5.0)

    def is_deadly(request: ProcessRequest) -> bool:
        if at == "split":
            return request.split is not None
        if at == "merge":
            return request.merge is not None
        return any(b'"poison"' in one.payload for one in request.batch)

    made.site.is_deadly = is_deadly
    if at == "process":
        poison = {"key": "k0", "publisher": "d0", "number": 1, "poison": True}
        made.devices[0].publish("in", json.dumps(poison).encode())
    else:
        giver, taker = ("cloud", "e1") if at == "split" else ("cloud", "e0")
        made.move("first", giver, taker, HALF, INDEX_END)
    made.publish(30)
    made.site.run(70.0)
    made.check()
    aside = sum(server.counts["flow_set_aside"] for server in made.site.servers.values())
    assert aside == (1 if at == "process" else 0)
    said = " ".join(
        str(one.fields) for server in made.site.servers.values() for one in server.incidents
    )
    assert {"process": "set aside", "split": "not moved", "merge": "taken back"}[at] in said
    made.site.is_deadly = lambda request: False
    made.move("first", "cloud", "e1", HALF, INDEX_END)
    made.publish(10)
    made.site.run(20.0)
    made.check()


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_another_plan_neither_undoes_nor_loses_what_has_moved(seed: int) -> None:
    made = FlowSite(seed)
    made.publish(20)
    made.move("first", "cloud", "e0", 0, HALF)
    made.move("second", "cloud", "e1", HALF, INDEX_END)
    made.publish(20)
    made.site.run(3.0)
    before = _parts(made)
    assert before["first"] == {"e0": [(0, HALF)], "cloud": [(HALF, INDEX_END)]}
    # homes change, and the source gets brokers: streams move while messages are in outboxes
    clients = (
        ClientOrder("d0", "e1", {"in": "e1"}),
        ClientOrder("d1", "e0", {"in": "cloud"}),
        ClientOrder("w", "e0"),
    )
    topics = (TopicOrder("in", 100, ("e1", "cloud"), version=2),)
    made.move("first", "cloud", "e1", HALF, INDEX_END)  # is under way meanwhile
    made.obey((made.order,), clients, topics)
    made.publish(30)
    made.site.run(30.0)
    made.check()
    after = _parts(made)
    assert after == {**before, "first": {"e0": [(0, HALF)], "e1": [(HALF, INDEX_END)]}}


def _parts(made: FlowSite) -> dict[str, dict[str, list[tuple[int, int]]]]:
    """Return what servers hold, by component and server."""
    found: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for name in made.site.servers:
        (shown,) = made.node(name).flows.status()
        for component, one in shown["components"].items():
            for place in one["places"]:
                if place["parts"]:
                    parts = [(part["low"], part["high"]) for part in place["parts"]]
                    found.setdefault(component, {})[name] = parts
    return found


def test_states_that_end_the_process_do_not_bring_a_component_to_rest() -> None:
    """Another server may send such ones again and again."""
    made = FlowSite(17)
    made.publish(20)
    made.move("first", "cloud", "e0", 0, HALF)
    made.publish(20)
    made.site.run(3.0)
    made.site.is_deadly = lambda request: request.merge is not None
    host = made.site.servers["e0"].host
    for _ in range(20):
        made.move("first", "cloud", "e0", HALF, INDEX_END)
        made.publish(4)
        made.site.run(0.9)
    assert 1 <= host.deaths <= 3  # once in 10 s, and not once a second
    made.site.run(3.0)
    made.check()
    made.site.is_deadly = lambda request: False
    made.site.run(10.0)
    made.move("first", "cloud", "e0", HALF, INDEX_END)
    made.site.run(5.0)
    made.check()
    assert _parts(made)["first"] == {"e0": [(0, INDEX_END)]}


def test_a_processor_that_cannot_be_made_in_its_process_lets_its_messages_wait() -> None:
    made = FlowSite(10)
    made.site.allowed_processors |= {"no_such:Thing"}
    for server in made.site.servers.values():
        server.kill()
        server.restart()
    broken = Flow("other", ("more",), {"one": Component("no_such:Thing", ("more",), "x")})
    made.obey((made.order, FlowOrder(broken, 2, {"one": "e0"})))
    made.devices[1].publish("more", b"{}")
    made.publish(10)
    made.site.run(5.0)
    made.check()
    (_, shown) = made.node("e0").flows.status()
    (place,) = shown["components"]["one"]["places"]
    assert "no_such" in place["refusal"]
    assert place["processed"] == 0
    (_, shown) = made.node("e1").flows.status()
    assert [one["outgoing"] for one in shown["components"]["one"]["places"]] == [1]


def test_a_flow_that_is_stopped_leaves_nothing_and_runs_anew_from_nothing() -> None:
    made = FlowSite(4)
    made.publish(10)
    made.site.run(3.0)
    made.check()
    made.obey(())
    made.site.run(3.0)
    for server in made.site.servers.values():
        assert not [one for one in server.stored.topics if one.startswith(FLOW_TOPICS)]
    made.publish(5)
    made.site.run(3.0)
    assert len(made.heard()) == 10  # sources are topics like any others meanwhile
    heard, made.published = made.heard(), []
    made.obey((structs.replace(made.order, number=2),))
    made.site.run(1.0)
    made.publish(10)
    made.site.run(5.0)
    made.watcher.events = made.watcher.events[-10:]
    assert heard
    made.check()


def test_a_server_that_may_not_run_a_processor_says_so_and_messages_wait() -> None:
    made = FlowSite(5)
    moved = Flow("other", ("more",), {"one": Component("no_such:Thing", ("more",), "x")})
    made.obey((made.order, FlowOrder(moved, 2, {"one": "e0"})))
    made.devices[1].publish("more", b"{}")
    made.site.run(3.0)
    (_, shown) = made.node("e0").flows.status()
    (place,) = shown["components"]["one"]["places"]
    assert "not allowed" in place["refusal"]
    assert any("not allowed" in one["what"] for one in shown["events"])
    (_, shown) = made.node("e1").flows.status()
    assert [one["outgoing"] for one in shown["components"]["one"]["places"]] == [1]
    assert made.devices[1].session.unacknowledged == 0  # it is safe in the outbox


@pytest.mark.parametrize("is_inline", [True, False])
def test_what_may_come_into_a_loop_is_loaded_before_any_hand_over(
    monkeypatch: pytest.MonkeyPatch, is_inline: bool
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr("nearcast.server.flow_part.load_processor", loaded.append)
    flows = FlowSite(1, is_inline=is_inline)
    assert loaded == [RECORDING] * 3 * is_inline  # at all servers; else in their child processes
    flows.obey((flows.order,))
    assert loaded == [RECORDING] * 3 * is_inline  # once


def test_what_cannot_be_loaded_is_told_where_it_is_to_run_only() -> None:
    nowhere = "no_such_module:Processor"
    flow = Flow("records", ("in",), {"first": structs.replace(FIRST, processor=nowhere)})
    flows = FlowSite(1, flow, is_inline=True, allowed=(nowhere,))
    told = {
        server: flows.node(server).flows.status()[0]["components"]["first"]["places"]
        for server in ("cloud", "e0")
    }
    assert "cannot be loaded" in told["cloud"][0]["refusal"]
    assert not told["e0"]


def test_a_mapping_that_a_server_may_not_load_holds_up_its_sources_there() -> None:
    made = FlowSite(6)
    mapping = ContentMapping(function="os:system")
    moved = Flow("other", ("more",), {"one": Component("forward", ("more",), "x", {}, mapping)})
    made.obey((made.order, FlowOrder(moved, 2, {"one": "e0"})))
    made.site.run(1.0)
    made.devices[1].publish("more", b"true")
    made.publish(5)
    made.site.run(3.0)
    made.check()
    assert made.devices[1].session.unacknowledged == 1
    assert made.node("e1").counts["busy"] > 0
    made.obey((made.order,))
    made.site.run(5.0)
    assert made.devices[1].session.unacknowledged == 0


@pytest.mark.parametrize(
    "name",
    [
        "raises",
        "raises_the_unspeakable",
        "leaves",
        "recurses",
        "returns_float",
        "returns_nothing",
        "returns_list",
        "returns_strange_text",
    ],
)
def test_a_mapping_that_raises_or_returns_nonsense_loses_nothing_and_is_counted(name: str) -> None:
    function = f"server.bad_mappings:{name}"
    components = {
        "first": structs.replace(FIRST, mapping=ContentMapping(function=function)),
        "second": SECOND,
    }
    made = FlowSite(14, Flow("records", ("in",), components), allowed=(function,))
    made.publish(25, 0.003)
    made.site.run(6.0)
    made.check()
    counts = [server.counts["flow_mapping_errors"] for server in made.site.servers.values()]
    assert sum(counts) == 25
    assert made.node("cloud").flows.status()[0]["components"]["first"]["places"]
    for server in ("e0", "e1"):
        (shown,) = made.node(server).flows.status()
        (place,) = shown["components"]["first"]["places"]
        assert place["mapping_errors"] == made.node(server).counts["flow_mapping_errors"] > 0
        (told,) = [one["what"] for one in shown["events"] if one["is_fault"]]  # once for all
        assert told.startswith("first mapping failed: content mapping r")


def test_a_mapping_that_has_hung_a_server_does_not_run_there_again() -> None:
    function = "server.bad_mappings:raises"
    components = {
        "first": structs.replace(FIRST, mapping=ContentMapping(function=function)),
        "second": SECOND,
    }
    made = FlowSite(16, Flow("records", ("in",), components), allowed=(function,))
    made.site.limits["hung_processors"] = frozenset({function})
    made.site.servers["e0"].kill()
    made.site.servers["e0"].restart()
    made.site.run(5.0)
    made.publish(20)
    made.site.run(5.0)
    (shown,) = made.node("e0").flows.status()
    assert any("has hung this server" in one["what"] for one in shown["events"])
    assert made.node("e0").counts["busy"] > 0
    made.site.limits["hung_processors"] = frozenset[str]()
    made.site.servers["e0"].kill()
    made.settle()
    made.check()


def test_a_server_that_lies_on_the_ring_about_its_range_costs_a_detour() -> None:
    made = FlowSite(15)
    made.move("second", "cloud", "e1", 0, HALF)
    made.site.run(3.0)
    whole = (Part(None, 0, INDEX_END),)
    for component in ("first", "second"):
        made.node("e0").ring.finder.hold("records", component, whole)
        made.node("e0").ring.finder.meet("records", component, ("e1",))
    made.site.run(15.0)  # what was found before is outdated
    made.publish(60)
    made.site.run(20.0)
    made.check()
    (shown,) = made.node("e0").flows.status()
    assert not any(
        place["parts"] or place["processed"]
        for one in shown["components"].values()
        for place in one["places"]
    )


def test_what_a_lying_server_draws_and_says_it_has_done_is_lost_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = FlowSite(15)
    made.site.run(10.0)
    eighths = [INDEX_END * eighth // 8 for eighth in range(9)]
    parts = tuple(Part(None, *ends) for ends in pairwise(eighths))  # keys above that of the cloud
    made.node("e0").ring.finder.hold("records", "first", parts)
    made.node("e0").ring.finder.meet("records", "first", ("e1",))
    liar = made.node("e0").flows._runtime._flows["records"]
    drawn: set[int] = set()

    def on_work(sender: str, message: Work) -> None:
        numbers = tuple(item.number for item in message.items)
        drawn.update(_number(message.topic, item.record) for item in message.items)
        about = (message.flow, message.run, message.component, message.topic, message.birth)
        liar.effects.send(sender, Done(*about, numbers, parts[0]))  # so it gets more of them

    monkeypatch.setattr(liar, "on_work", on_work)
    made.site.servers["cloud"].kill()  # else it is known at once who has the component
    made.publish(10)
    made.site.run(20.0)
    made.site.servers["cloud"].restart()
    made.publish(50)
    made.site.run(30.0)
    assert not any(one.session.unacknowledged for one in made.devices)
    heard = Counter(number for _, _, number in made.heard())
    lost = set(range(60)) - set(heard)
    assert lost  # others that it drew were under way to the cloud server as well
    assert lost <= drawn
    assert set(heard.values()) == {1}


def _number(topic: str, record: bytes) -> int:
    return int(json.loads(decode_record(topic, record).payload)["number"])


def test_publishers_wait_while_a_component_is_away_and_nothing_is_lost() -> None:
    made = FlowSite(7)
    made.site.servers["cloud"].kill()
    for server in ("e0", "e1"):
        outbox = made.node(server).flows._runtime._settings
        object.__setattr__(outbox, "outbox_messages", 8)
    made.publish(60)
    made.site.run(3.0)
    assert sum(one.session.unacknowledged for one in made.devices) > 0
    made.settle()
    made.check()
    object.__setattr__(outbox, "outbox_messages", 4096)


def test_only_the_manager_has_parts_moved() -> None:
    made = FlowSite(8)
    node = made.node("cloud")
    before = node.counts["mesh_refused"]
    from nearcast.server.flow_messages import MovePart
    from nearcast.server.mesh_messages import encode_mesh

    message = MovePart("records", "first", Part(None, 0, HALF), "e0")
    node._peers.dispatch("e0", [encode_mesh(message)], made.site.now)
    assert node.counts["mesh_refused"] == before + 1
    made.move("nobody", "cloud", "e0", 0, HALF)
    made.move("first", "cloud", "nowhere", 0, HALF)
    (shown,) = made.node("cloud").flows.status()
    assert sum("not moved" in one["what"] for one in shown["events"]) == 2
    assert made.order.flow == RECORDS


@pytest.mark.parametrize(("sync_ms", "hop_ms"), [(3.0, 1.0), (0.1, 10.0)])
def test_a_hand_over_holds_messages_up_for_two_syncs_and_four_hops_and_no_timer(
    sync_ms: float, hop_ms: float
) -> None:
    component = Component(RECORDING, ("in",), "out", {}, ContentMapping("key"))
    made = FlowSite(3, Flow("records", ("in",), {"first": component}), is_inline=True)
    site = made.site
    site.sync_s, site.network.delay_s = sync_ms / 1e3, lambda _giver, _taker: hop_ms / 1e3
    moved = [key for key in KEYS if (index := content_index(key)) is not None and index < HALF]
    sent_s: list[float] = []
    moves = {50: ("cloud", "e0"), 110: ("e0", "cloud"), 170: ("cloud", "e0")}
    for number in range(230):
        if number in moves:
            made.move("first", *moves[number], 0, HALF)
        body = {"key": moved[number % len(moved)], "publisher": "d1", "number": number}
        made.devices[1].publish("in", json.dumps(body).encode())
        sent_s.append(site.now)
        site.run(0.003)
    site.run(1.0)
    heard_s = {
        json.loads(one.payload)["number"]: at_s
        for at_s, one in made.watcher.events
        if isinstance(one, Notification)
    }
    delays_ms = [1e3 * (heard_s[number] - at_s) for number, at_s in enumerate(sent_s)]
    usual_ms = max(delays_ms[10:30])
    first_ms, *others_ms = (max(delays_ms[at - 15 : at + 40]) - usual_ms for at in moves)
    # what comes while a sync runs waits for the next one: it may take twice as long
    allowed_ms = 2 * 2 * sync_ms + 4 * hop_ms + 0.1
    assert 0 < min(others_ms) <= max(others_ms) < allowed_ms
    # a server that tells something of the output for the first time asks who hears it
    assert first_ms < allowed_ms + 2 * hop_ms


def test_hard_work_has_its_turn_when_all_that_arrived_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = FlowSite(3, is_inline=True)
    flows, passes = made.node("cloud").flows, list[str]()
    ticks = count()
    monkeypatch.setattr(flows, "_clock", lambda: 0.02 * next(ticks))  # all takes too long
    runtime = flows._runtime
    for owner, name in ((flows, "on_timer"), (runtime, "run")):
        call = getattr(owner, name)
        monkeypatch.setattr(owner, name, partial(_noted, passes, name, call))
    made.publish(60, pause_s=0.0005)
    made.site.run(5.0)
    made.check()
    assert passes.count("run") > 20
    assert "run run" not in " ".join(passes)


def _noted(passes: list[str], name: str, call: Callable[[float], None], now: float) -> None:
    passes.append(name)
    call(now)
