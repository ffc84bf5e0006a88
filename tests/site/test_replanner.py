"""The plan loop with a manager and a log of the test's own: when it switches, and when it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from nearcast.domain.plan_files import read_plan
from nearcast.domain.scenario_files import read_scenario
from nearcast.domain.traffic import Traffic
from nearcast.errors import ConfigError, NearcastError, OutputError, PipelineError
from nearcast.links import http_client
from nearcast.pipeline import recent_traffic
from nearcast.planning.switching import weigh_new_plan
from nearcast.site import replanner
from nearcast.site.plan_access import ManagerAccess
from nearcast.site.replan_rounds import ReplanRound, RoundsFolder
from nearcast.site.replanner import Replanner, ReplanSettings, SiteOfReplanner
from small_site.making import write_small_scenario

NAMES = ["car", "sign", "bike", "lamp"]
TRAFFIC = Traffic(
    0.0,
    60.0,
    places_km={name: (float(index % 2), 0.1) for index, name in enumerate(NAMES)},
    published={("road", "car"): 60, ("road", "sign"): 30},
    subscriptions={},
    notified=[("road", name) for name in NAMES],
    delay_ms=12.0,
    deliveries=270,
)
MOVED = replace(TRAFFIC, places_km={**TRAFFIC.places_km, "car": (1.0, 0.1)})


@dataclass
class Site:
    """A manager that remembers what it was asked, and a log that says what it is told to."""

    folder: Path
    traffic: Traffic | Exception = TRAFFIC
    version: int = 1
    homes: dict[str, str] = field(default_factory=dict)
    posted: list[dict[str, Any]] = field(default_factory=list)
    refuses: Exception | None = None
    flows: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, url: str, body: Any = None, token: str | None = None, **_: Any) -> Any:
        if self.refuses is not None:
            raise self.refuses
        path = url.removeprefix("http://manager:1")
        if path == "/status":
            switch = {"streams": 2, "pause_p50_s": 0.01, "pause_p99_s": 0.02}
            return {"revision": 5, "servers": [{"id": "e1", "revision": 5}], "switch": switch}
        assert token == "secret"
        if path == "/flows":
            return self.flows
        if path == "/plans":
            self.posted.append(body)
            scenario = read_scenario(Path(body["scenario"]))
            plan, _report = read_plan(Path(body["plan"]), scenario)
            servers = [str(one) for one in scenario.servers.ids.to_pylist()]
            self.homes = {
                str(name): servers[home]
                for name, home in zip(scenario.clients.ids.to_pylist(), plan.homes, strict=True)
            }
            self.version += 1
            return {"plan_version": self.version}
        rows = list(self.homes.items())
        if "brokers" in path:
            rows = [(topic, home) for topic in ("road", "air") for home in ("e1", "e2")]
        found = {"plan_version": self.version, "model": "ratio"}
        if path.endswith("/homes/"):  # in two parts
            return {**found, "rows": rows[:1], "next": rows[0][0]}
        if "homes" in path:
            return {**found, "rows": rows[1:], "next": None}
        return {**found, "rows": rows, "next": None}

    def learn(self, *_: Any, **__: Any) -> Traffic:
        if isinstance(self.traffic, Exception):
            raise self.traffic
        return self.traffic


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    write_small_scenario(tmp_path / "small", edges=2, clients=NAMES, topics=["road", "air"])
    (tmp_path / "log" / "publications").mkdir(parents=True)
    (tmp_path / "log" / "publications" / "e1.parquet").write_bytes(b"")
    found = Site(tmp_path, homes={name: f"e{at % 2 + 1}" for at, name in enumerate(NAMES)})
    monkeypatch.setattr(http_client, "ask", found.ask)
    monkeypatch.setattr("nearcast.site.plan_access.time.sleep", lambda _: None)
    monkeypatch.setattr(recent_traffic, "learn_traffic", found.learn)
    monkeypatch.setattr(recent_traffic, "measure_delay", lambda *_: 9.0)
    return found


def make(site: Site, **settings: Any) -> Replanner:
    @contextmanager
    def no_spark() -> Iterator[Any]:
        yield None

    return Replanner(
        SiteOfReplanner(
            ManagerAccess("http://manager:1", "secret"),
            site.folder / "small",
            site.folder / "log",
            RoundsFolder(site.folder / "replans"),
        ),
        ReplanSettings(every_s=0.001, method="nearest", **settings),
        no_spark,
    )


def one_round(site: Site, **settings: Any) -> ReplanRound:
    return next(make(site, **settings).rounds(Event()))


def kept_rounds(site: Site) -> list[dict[str, Any]]:
    text = (site.folder / "replans" / "rounds.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_client_that_moved_gets_another_home_and_all_others_keep_theirs(site: Site) -> None:
    site.traffic = MOVED
    before = dict(site.homes)
    done = one_round(site)
    assert done.switched
    assert not done.failed
    assert site.homes == {**before, "car": "e2"}
    (posted,) = site.posted
    assert posted["instead_of"] == 1
    assert done.cost_before is not None
    assert done.cost_after is not None
    assert done.bound is not None
    assert done.bound <= done.cost_after < done.cost_before
    assert (done.measured_before_ms, done.measured_after_ms) == (12.0, 9.0)
    assert (done.plan_version, done.streams, done.pause_p99_ms) == (2, 2, 20.0)
    (line,) = kept_rounds(site)
    assert (line["switched"], line["cost_after"]) == (True, done.cost_after)
    # the next round goes on from where the car is now, though it is silent
    site.traffic = replace(TRAFFIC, places_km={})
    again = one_round(site)
    assert not again.switched
    assert again.moved_clients == 0
    assert again.cost_before == pytest.approx(again.cost_after)


def test_what_flows_use_where_they_are_now_is_planned_around(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [{"low": 0, "high": 1 << 62}]
    spools: list[list[float]] = []

    def weigh(present: Any, *given: Any) -> Any:
        spools.append([1e9 - float(one) for one in present.planned.servers.storage])
        assert present.planned.servers.storage.tolist() == present.known.servers.storage.tolist()
        return weigh_new_plan(present, *given)

    monkeypatch.setattr(replanner, "weigh_new_plan", weigh)
    rounds = make(site).rounds(Event())
    places_km, servers = [(1.0, 0.1), (0.0, 0.1)], ["e2", "e1"]
    for place, server in zip(places_km, servers, strict=True):  # LASR has moved it between rounds
        held = {"server": server, "parts": whole}
        component = {"inputs": ["road"], "output": "seen", "places": [held]}
        site.flows = [{"name": "f", "sources": ["road"], "components": {"c": component}}]
        site.traffic = replace(TRAFFIC, places_km={"car": place})
        assert next(rounds).switched
    assert spools == [[0.0, 100_000.0], [100_000.0, 0.0]]  # the second not by both


def test_what_does_not_pay_is_left_alone(site: Site) -> None:
    stays = one_round(site)
    assert not stays.switched
    assert "saves 0.0% only" in stays.reason
    site.traffic = MOVED
    assert "saves" in one_round(site, least_saving=0.99).reason
    site.traffic = replace(MOVED, published={("air", "car"): 60, ("road", "bike"): 1})
    site.homes["bike"] = "e1"
    plans = {"brokers": [("road", "e1"), ("air", "e1")]}
    ask = site.ask

    def few_brokers(url: str, *given: Any, **more: Any) -> Any:
        found = ask(url, *given, **more)
        return {**found, "rows": plans["brokers"]} if "brokers" in url else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_client, "ask", few_brokers)
        dear = one_round(site, migration_price_ms=1e6)
    assert dear.migrations > 0
    assert dear.reason == f"{dear.migrations} migrations cost more than they save"
    assert site.posted == []


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        ("traffic", PipelineError("Spark's JVM has ended"), "Spark's JVM has ended"),
        ("traffic", replace(TRAFFIC, published={("sea", "car"): 1}), "nobody published"),
        ("refuses", NearcastError("http://manager:1 does not answer"), "does not answer"),
        ("traffic", OSError("the socket of Spark is gone"), "socket"),
    ],
)
def test_a_round_that_fails_says_why_and_the_next_one_works(
    site: Site, what: str, error: Any, said: str
) -> None:
    rounds = make(site).rounds(Event())
    setattr(site, what, error)
    failed = next(rounds)
    assert failed.failed
    assert said in failed.reason
    assert site.posted == []
    site.traffic, site.refuses = MOVED, None
    assert next(rounds).switched
    assert [one["failed"] for one in kept_rounds(site)] == [True, False]


def test_a_full_disk_leaves_the_plan_and_no_half_written_folder(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OutputError("no space left on the disk")

    site.traffic = MOVED
    with monkeypatch.context() as patch:
        patch.setattr(replanner, "write_plan", full)
        done = one_round(site)
    assert (done.failed, done.reason) == (True, "no space left on the disk")
    assert [one.name for one in (site.folder / "replans").iterdir() if one.is_dir()] == []
    with monkeypatch.context() as patch:
        patch.setattr(RoundsFolder, "append", full)
        assert one_round(site).switched  # a round that cannot be kept is told all the same


def test_an_empty_log_needs_no_spark(site: Site) -> None:
    (site.folder / "log" / "publications" / "e1.parquet").unlink()
    assert "the event log is empty" in one_round(site).reason


def test_the_last_plans_are_kept_and_a_torn_line_is_passed_over(site: Site) -> None:
    places = [(1.0, 0.1), (0.0, 0.1)]
    rounds = make(site).rounds(Event())
    for number in range(5):
        site.traffic = replace(TRAFFIC, places_km={"car": places[number % 2]})
        assert next(rounds).switched
    folders = [one.name for one in (site.folder / "replans").iterdir() if one.is_dir()]
    assert sorted(folders) == ["0003", "0004", "0005"]
    rounds_file = RoundsFolder(site.folder / "replans")
    with (rounds_file.folder / "rounds.jsonl").open("a") as file:
        file.write('{"switched": tr')
    assert rounds_file.scenario_of(6) == rounds_file.folder / "0005" / "scenario"
    assert rounds_file.scenario_of(2) is None


def test_one_program_at_a_time_re_plans_a_site(site: Site) -> None:
    rounds = make(site).rounds(Event())
    next(rounds)
    with pytest.raises(ConfigError, match="another program re-plans this site"):
        next(make(site).rounds(Event()))
    rounds.close()
    assert list(islice(make(site).rounds(Event()), 1))
