"""What flows use of servers is not given away by the next plan."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import ConfigError
from nearcast.planning.flow_use import ShownFlows, read_shown_flows, without_flow_use

END = 1 << 62


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    folder = tmp_path / "two"
    folder.mkdir()
    (folder / "scenario.json").write_text('{"name": "two", "width_km": 9, "height_km": 9}')
    tables = {
        "servers": "server_id,x_km,y_km,storage,compute\ne0,0,0,100,1000\ne1,1,0,100,1000",
        "clients": "client_id,x_km,y_km\na,0,0\nb,1,0\nc,1,1",
        "topics": "topic_id,spool\nin,10\nother,4",
        "members": "topic_id,client_id,publishes,subscribes\n"
        "in,a,true,true\nin,b,true,false\nin,c,false,true\nother,c,true,true",
    }
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text + "\n")
    return read_scenario(folder)


def _shown(tmp_path: Path, places: dict[str, list[dict[str, object]]]) -> ShownFlows:
    """Two components in a row behind "in", as a manager shows them."""
    components = {
        "first": {"inputs": ["in"], "output": "made", "places": places.get("first", [])},
        "second": {"inputs": ["made"], "output": "out", "places": places.get("second", [])},
    }
    flow = {"name": "f", "number": 3, "sources": ["in"], "components": components, "events": []}
    path = tmp_path / "flows.json"
    path.write_text(json.dumps({"flows": [flow]}))
    return read_shown_flows(path)


def _at(server: str, low: int, high: int, net: str | None = None) -> dict[str, object]:
    return {"server": server, "per_s": 1.0, "parts": [{"net": net, "low": low, "high": high}]}


def test_each_component_counts_as_a_broker_for_its_share(
    tmp_path: Path, scenario: Scenario
) -> None:
    places = {
        "first": [_at("e0", 0, END // 4), _at("cloud", END // 4, END)],
        "second": [_at("e0", 0, END), _at("e1", 0, END // 2, "e1")],
    }
    left = without_flow_use(scenario, _shown(tmp_path, places)).servers
    # "in" has a spool of 10 and 2 publishers: 10 and 20 for all of it; a net is one of two
    np.testing.assert_allclose(left.storage, [100 - 2.5 - 10, 100 - 2.5])
    np.testing.assert_allclose(left.compute, [1000 - 5 - 20, 1000 - 5])
    np.testing.assert_allclose(scenario.servers.storage, [100, 100])


def test_what_is_used_up_is_nothing_and_never_less(tmp_path: Path, scenario: Scenario) -> None:
    places = {"first": [_at("e1", 0, END)] * 12, "second": []}
    left = without_flow_use(scenario, _shown(tmp_path, places)).servers
    assert list(left.storage) == [100, 0]


def test_what_is_not_known_counts_for_nothing(tmp_path: Path, scenario: Scenario) -> None:
    shown = _shown(tmp_path, {"first": [_at("nowhere", 0, END)]})
    left = without_flow_use(scenario, shown).servers
    assert list(left.storage) == [100, 100]


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"flows": 5}', '{"flows": [{"name": "f"}]}', '{"flows": [], ', "\x80"],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "flows.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"flows\.json: not what"):
        read_shown_flows(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_shown_flows(tmp_path / "nothing.json")


def test_a_circle_is_told(tmp_path: Path, scenario: Scenario) -> None:
    component = {"inputs": ["x"], "output": "x", "places": []}
    flow = {"name": "f", "sources": [], "components": {"a": component}}
    path = tmp_path / "flows.json"
    path.write_text(json.dumps({"flows": [flow]}))
    with pytest.raises(ConfigError, match="circle at 'a'"):
        without_flow_use(scenario, read_shown_flows(path))
