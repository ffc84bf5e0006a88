"""Flows at the manager: checked before anything is loaded, durable, told to servers and shown."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from nearcast.errors import ConfigError, ProcessorError
from nearcast.flow.flow import Component, ContentMapping, Flow
from nearcast.flow.flow_report import ComponentReport, FlowReport, HandOverReport
from nearcast.flow.messages import Part
from nearcast.routing.keys import INDEX_END
from nearcast.runtime.config import SiteConfig
from nearcast.runtime.manager_flows import FlowMove, FlowStart, ManagerFlows
from nearcast.runtime.manager_store import ManagerStore
from nearcast.server.flow_messages import FlowEvent, FlowReports, MovePart
from nearcast.server.manager import Manager
from nearcast.server.manager_state import ManagerState, PlanVersion, SiteServer, with_site
from nearcast.server.mesh_messages import decode_mesh, encode_mesh
from nearcast.server.orders_from_plan import PlannedTopic, SitePlan
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.signed import SigningKey

COUNT = Component("person-count", ("in",), "counts", {}, ContentMapping("camera"))
PEOPLE = Flow("people", ("in",), {"relay": Component("forward", ("in",), "out"), "count": COUNT})
SERVERS = {name: SiteServer(ServerOrder(name, "", 0, b"")) for name in ("cloud", "e1")}
PLAN = SitePlan((PlannedTopic("in", 5, ("e1",), True),), [])


class Asked:
    """A manager's flows over a true store, and what goes to servers."""

    def __init__(
        self, tmp_path: Path, allowed: tuple[str, ...] = (), plan: SitePlan = PLAN
    ) -> None:
        self.store = ManagerStore(tmp_path / "manager.db")
        state = with_site(None, SERVERS, plan, PlanVersion(1, 0.0, None, None, None))
        self.store.save_site(state, plan)
        signer = SigningKey(b"s" * 32)
        self.manager = Manager(state, self.store.clients, signer, cloud="cloud", incarnation=1)
        self.sent: list[tuple[str, bytes]] = []
        site = SiteConfig(tmp_path, allowed_processors=allowed)
        self.flows = ManagerFlows(
            site, self.manager, self._install, self.sent.extend, lambda: 100.0
        )

    def _install(self, state: ManagerState) -> None:
        self.store.save_flows(state)
        self.manager.install(state, 100.0)

    def run(self, flow: Flow, **places: str) -> dict[str, Any]:
        return asyncio.run(self.flows.run(FlowStart(flow, places)))


def test_a_flow_begins_where_it_is_placed_and_is_durable(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    assert asked.run(PEOPLE, count="e1") == {
        "number": 2,
        "begins_at": {"relay": "cloud", "count": "e1"},
    }
    assert asked.run(PEOPLE)["number"] == 3
    found = asked.store.load()
    assert found is not None
    assert found == asked.manager.state
    (order,) = found.flows
    assert (order.flow, order.number) == (PEOPLE, 3)
    asked.flows.stop("people")
    found = asked.store.load()
    assert found is not None
    assert found.flows == ()
    assert asked.run(PEOPLE)["number"] == 5


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_flow_may_begin_where_the_plan_has_its_brokers(tmp_path: Path) -> None:
    alone = SitePlan((PlannedTopic("in", 5, ("e1",), delegates=False),), [])
    for number, (plan, begins_at) in enumerate(((alone, "e1"), (PLAN, "cloud"))):
        asked = Asked(_made(tmp_path / str(number)), plan=plan)
        start = FlowStart(PEOPLE, {"relay": "cloud"}, by_plan=True)
        found = asyncio.run(asked.flows.run(start))
        assert found["begins_at"] == {"relay": "cloud", "count": begins_at}
        assert asked.run(PEOPLE)["begins_at"] == {"relay": "cloud", "count": "cloud"}


@pytest.mark.parametrize(
    ("flow", "places", "mistake"),
    [
        (PEOPLE, {"count": "e9"}, "component 'count': there is no server 'e9'"),
        (PEOPLE, {"nobody": "e1"}, "no component 'nobody'"),
        (Flow("a@b", ("in",), PEOPLE.components), {}, "name 'a@b'"),
        (Flow("x", ("in", "more"), PEOPLE.components), {}, "no component reads 'more'"),
    ],
)
def test_a_flow_with_mistakes_does_not_begin(
    tmp_path: Path, flow: Flow, places: dict[str, str], mistake: str
) -> None:
    asked = Asked(tmp_path)
    with pytest.raises(ConfigError, match=mistake):
        asked.run(flow, **places)
    assert asked.manager.state.flows == ()


@pytest.mark.parametrize(
    "component",
    [
        Component("made_up_module:Processor", ("in",), "out"),
        Component("forward", ("in",), "out", {}, ContentMapping(function="made_up_module:name")),
    ],
)
def test_code_that_is_not_allowed_is_not_loaded(
    tmp_path: Path, component: Component, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_up_module.py").write_text("Processor = name = print\n")
    monkeypatch.syspath_prepend(tmp_path)
    flow = Flow("x", ("in",), {"one": component})
    with pytest.raises(ProcessorError, match=r"'made_up_module:.*' is not allowed here"):
        Asked(tmp_path).run(flow)
    assert "made_up_module" not in sys.modules


def test_a_part_is_moved_by_the_server_that_has_it(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.run(PEOPLE)
    asked.flows.move("people", FlowMove("count", "cloud", "e1", 0, INDEX_END // 2))
    ((server, frame),) = asked.sent
    channel = PeerChannels(7)
    (raw,) = channel.receive("manager", frame, 100.0)
    part = Part(None, 0, INDEX_END // 2)
    assert (server, decode_mesh(raw)) == ("cloud", MovePart("people", "count", part, "e1"))
    for name, wrong in (
        ("other", FlowMove("count", "cloud", "e1", 0, 1)),
        ("people", FlowMove("nobody", "cloud", "e1", 0, 1)),
        ("people", FlowMove("count", "cloud", "e9", 0, 1)),
        ("people", FlowMove("count", "cloud", "e1", 1, 1)),
        ("people", FlowMove("count", "cloud", "e1", 0, INDEX_END + 1)),
    ):
        with pytest.raises(ConfigError):
            asked.flows.move(name, wrong)
    assert len(asked.sent) == 1


def test_what_servers_report_is_shown_with_the_graph(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.run(PEOPLE)
    part = Part(("jp", "yrp"), 0, 8)
    count = ComponentReport("count", (part,), 3, 4, 5, 50, 0, 0, (HandOverReport(part, "e2"),), "")
    idle = ComponentReport("relay", (), 0, 0, 0, 0, 0, 0, (), "")
    gone = FlowReport("people", 1, (count,))
    reports = FlowReports(
        (FlowReport("people", 2, (count, idle)), gone),
        {"people": {"count": 2.5}},
        (FlowEvent(9.0, "people", "count moved"), FlowEvent(8.0, "other", "began")),
    )
    channel = PeerChannels(7)
    channel.send("manager", encode_mesh(reports))
    for _, frame in channel.poll(100.0):
        asked.manager.on_mesh("e1", frame, 100.0)
    (shown,) = asked.flows.show()
    assert (shown["name"], shown["number"], shown["sources"]) == ("people", 2, ["in"])
    assert shown["components"]["relay"]["places"] == []
    (place,) = shown["components"]["count"]["places"]
    told = {"net": "jp.yrp", "low": 0, "high": 8}
    assert place == {
        "server": "e1",
        "parts": [told],
        "per_s": 2.5,
        "processed": 50,
        "queued": 3,
        "outgoing": 4,
        "unpublished": 5,
        "under_way": [{"part": told, "to": "e2"}],
        "refusal": "",
        "set_aside": 0,
        "mapping_errors": 0,
    }
    assert shown["events"] == [
        {"at_s": 9.0, "server": "e1", "what": "count moved", "is_fault": False}
    ]
