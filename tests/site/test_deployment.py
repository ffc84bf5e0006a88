"""Deployments: those that are shipped say what seed 003 says, and a site is laid out by them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import ConfigError
from nearcast.site.deployment import SHIPPED, load_deployment
from nearcast.site.layout import SiteFolder, SiteSettings, lay_out_site
from nearcast.site.live_site import LiveSite
from nearcast.site.processes import SiteProcesses

TINY = Path(__file__).parents[2] / "examples" / "tiny"


def test_the_shipped_ones_have_the_networks_and_the_deadlines_of_the_paper() -> None:
    found = {name: load_deployment(name) for name in SHIPPED}
    assert {name: one.network_ms for name, one in found.items()} == {
        "metropolitan": 40.0,
        "carrier": 44.0,
        "edge": 20.0,
    }
    deadlines = {"lane_change": 50.0, "emergency": 100.0, "consumer": 1000.0}
    for one in found.values():
        assert {name: each.deadline_ms for name, each in one.budget.items()} == deadlines
        assert all(each.network_ms == one.network_ms for each in one.budget.values())
        assert one.deadline_ms("control", 10.0) == 10.0


@pytest.mark.parametrize("name", ["metropolitan", "edge"])
def test_a_site_is_laid_out_where_its_deployment_says(name: str, tmp_path: Path) -> None:
    scenario, standing = read_scenario(TINY), load_deployment(name)
    plain = lay_out_site(scenario, TINY, tmp_path / "plain", SiteSettings())
    options = SiteSettings(deployment=standing, roaming=standing.roaming)
    site = lay_out_site(scenario, TINY, tmp_path / "site", options)
    assert SiteFolder.load(tmp_path / "site").deployment == standing

    def delays_ms(one: SiteFolder) -> list[list[float]]:
        live = LiveSite(one, scenario, SiteProcesses(one))
        return [list(row.values()) for row in live.delays_ms(scenario)]

    for row, legs in zip(delays_ms(site), delays_ms(plain), strict=True):
        expected = [10.0 + leg for leg in legs] if name == "edge" else [20.0 for _ in legs]
        assert row == pytest.approx(expected)
    edges = [one.server for one in site.servers if one.role == "edge"]
    config = tomllib.loads(site.config_file(edges[0]).read_text())
    between_ms = config["emulation"]["delays_ms"]
    assert between_ms.pop("cloud") == standing.cloud_ms
    if name == "metropolitan":
        assert set(between_ms.values()) == {0.2}
    manager = tomllib.loads(site.config_file("manager").read_text())
    assert manager["site"].get("roaming", False) == (name == "edge")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("meaning = 5", "meaning"),
        ('meaning = "x"\none_way_ms = {}', "one_way_ms"),
        ('meaning = "x"\none_way_ms = {radio = -1}', "one_way_ms"),
        ('meaning = "x"\none_way_ms = {radio = nan}', "one_way_ms"),
        ('meaning = "x"\nspeed = 1\none_way_ms = {radio = 1}', "speed"),
        (
            'meaning = "x"\none_way_ms = {radio = 10}\nbudget.a = {network_ms = 5, system_ms = 5}',
            "less than the network takes",
        ),
        ("[", "own.toml"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_error(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_deployment(str(tmp_path / "own.toml"))
