"""``nearcast up``: a whole site as a user runs it, and its ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from nearcast.errors import NearcastError
from nearcast.links.http_client import ask
from nearcast.runtime.metric_names import LOSSES
from nearcast.sdk import SyncClient
from nearcast.site.live_site import LiveSite
from small_site.making import is_running, metrics_of, until, write_small_scenario

START_S = 120.0


class RunningUp:
    """``nearcast up --json`` in a session of its own, as from a terminal."""

    def __init__(self, scenario: Path, *more: str) -> None:
        program = Path(sys.executable).parent / "nearcast"
        options = ["--plan", str(scenario / "plan"), "--no-delays", "--json", *more]
        self.process = subprocess.Popen(
            [program, "up", str(scenario), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.summary: dict[str, Any] = {}
        self.pids: dict[str, int] = {}

    def wait_ready(self) -> None:
        """Read the one object that it prints."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_S)
        line = self.process.stdout.readline() if ready else ""
        assert line, self.end()
        self.summary = json.loads(line)
        self.pids = {one["server"]: one["pid"] for one in self.summary["servers"]}

    def http_port(self, server: str) -> int:
        (url,) = [one["http"] for one in self.summary["servers"] if one["server"] == server]
        return int(url.rpartition(":")[2])

    def members(self) -> set[int]:
        """Return all processes of the session: servers and their helpers."""
        found = set()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                text = stat.read_text()
            except OSError:
                continue
            state, _, _, session = text.rpartition(")")[2].split()[:4]
            if int(session) == self.process.pid and state != "Z":
                found.add(int(stat.parent.name))
        return found

    def wait_ended(self) -> tuple[int, str, str]:
        """Return exit code and what else it said, once every process of it is gone."""
        out, err = self.process.communicate(timeout=60)
        until(lambda: not self.members(), "all processes are gone", 30)
        return self.process.returncode, out, err

    def end(self) -> str:
        """End whatever is left."""
        for pid in self.members():
            os.kill(pid, signal.SIGKILL)
        _, err = self.process.communicate()
        return err


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("up") / "small"
    return write_small_scenario(folder, clients=["car", "sign"], topics=["road"])


@pytest.fixture
def start(scenario: Path) -> Iterator[Callable[..., RunningUp]]:
    started: list[RunningUp] = []

    def begin(*more: str) -> RunningUp:
        one = RunningUp(scenario, *more)
        started.append(one)
        one.wait_ready()
        return one

    yield begin
    for one in started:
        one.end()


def _is_healthy(port: int) -> bool:
    try:
        ask(f"http://127.0.0.1:{port}/health", timeout_s=5.0)
    except NearcastError:
        return False
    return True


def _secrets(site: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"token": (site / "token").read_text()}
    found |= {one.name: one.read_text() for one in (site / "keys").iterdir()}
    for one in (site / "clients").iterdir():
        found[one.name] = json.loads(one.read_text())["private_key"]
    return found


@pytest.mark.slow
def test_a_site_runs_heals_keeps_its_data_and_ends_with_nothing_left(
    scenario: Path, start: Callable[..., RunningUp], run: Run
) -> None:
    site = scenario / "site"
    up = start()
    assert [one["role"] for one in up.summary["servers"]] == ["manager", "cloud", "edge"]
    assert up.summary["clients"] == 2
    assert all(map(is_running, up.pids.values()))

    with SyncClient.connect(site / "clients" / "car.json", timeout_s=60) as car:
        for number in range(50):
            car.publish("road", f"message {number}").wait(30)

    shown = run("status", scenario)
    assert shown.code == 0, shown.err
    assert all(name in shown.out for name in ("e1", "cloud", "2 of 2 servers up"))
    told = run("status", site, "--json").json
    assert {one["id"] for one in told["servers"]} == {"e1", "cloud"}
    assert told["counts"]["clients_enrolled"] == 2
    for one in told["servers"]:
        assert set(LOSSES) <= one["losses"].keys()
        assert one["tables"]["home_proofs"] == {"entries": 0, "limit": 100_000}

    refused = run("up", scenario, "--plan", scenario / "plan", "--json")
    assert refused.code == 2
    assert refused.err == f"error: {site}: another program runs this site\n"

    os.kill(up.pids["e1"], signal.SIGKILL)
    until(lambda: not is_running(up.pids["e1"]), "e1 is gone")
    until(lambda: _is_healthy(up.http_port("e1")), "e1 is started again")
    with SyncClient.connect(site / "clients" / "car.json", timeout_s=60) as car:
        car.publish("road", "after the crash").wait(30)

    os.killpg(up.process.pid, signal.SIGINT)  # what Ctrl-C does
    code, out, err = up.wait_ended()
    assert (code, out) == (0, "")
    assert err.endswith("the site has stopped\n")
    before = _secrets(site)

    up = start()
    assert _secrets(site) == before
    spooled = metrics_of(up.http_port("e1"))["nearcast_spool_messages"]
    assert spooled == {"road": 51}
    up.process.terminate()
    code, out, _ = up.wait_ended()
    assert (code, out) == (0, "")


@pytest.mark.slow
def test_all_servers_end_by_themselves_when_up_is_killed(start: Callable[..., RunningUp]) -> None:
    up = start()
    up.process.kill()
    code, _, _ = up.wait_ended()
    assert code == -signal.SIGKILL
    assert not any(map(is_running, up.pids.values()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_site_starts_ends_it_at_once(
    run: Run, scenario: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    pids: list[int] = []

    def get_a_signal(live: LiveSite, servers: list[str], _: object) -> None:
        pids.extend(map(live.processes.pid, servers))
        os.kill(os.getpid(), number)
        until(lambda: False, "the signal ends the wait")

    monkeypatch.setattr(LiveSite, "wait_until_healthy", get_a_signal)
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    options = ["--plan", scenario / "plan", "--site", scenario.parent / f"site-{number}"]
    answer = run("up", scenario, *options, "--json")
    assert (answer.code, answer.out) == (130, "")
    assert answer.err.endswith("stopped\n")
    assert len(pids) == 3
    assert not any(map(is_running, pids))
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--processor", "psychic"], "there is no processor 'psychic'; there are: forward"),
        (["--processor", "no_such_module:Class"], "'no_such_module:Class' cannot be loaded"),
        (["--processor-options", "[1]"], "options of a processor: '[1]' is not a JSON object"),
        (["--processor-options", '{"speed": 1}'], "processor 'forward' cannot be made"),
        (["--method", "magic"], "there is no method 'magic'; there are: "),
        (["--plan", "nowhere"], "nowhere"),
        (["--plan", "another"], "stranger"),
    ],
)
def test_a_wrong_option_is_one_line_and_nothing_is_written(
    run: Run, tmp_path: Path, options: list[str], said: str
) -> None:
    scenario = write_small_scenario(tmp_path / "small", clients=["car"], topics=["road"])
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / "homes.csv").write_text("client_id,server_id\nstranger,e1\n")
    before = sorted(tmp_path.rglob("*"))
    answer = run("up", scenario, *options, "--for", 0)
    assert answer.code == 2
    assert said in answer.err
    assert answer.err.startswith("error: ")
    assert len(answer.err.splitlines()) == 1
    assert answer.out == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_a_scenario_that_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    answer = run("up", tmp_path / "nowhere")
    assert answer.code == 2
    assert answer.err == f"error: {tmp_path / 'nowhere'}: there is no such scenario folder\n"


def test_a_server_of_a_name_that_the_site_needs_is_refused(run: Run, tmp_path: Path) -> None:
    scenario = write_small_scenario(tmp_path / "small", clients=["car"], topics=["road"])
    for name in ("servers.csv", "plan/homes.csv"):
        file = scenario / name
        file.write_text(file.read_text().replace("e1", "cloud"))
    answer = run("up", scenario, "--plan", scenario / "plan", "--json")
    assert answer.code == 2
    assert answer.err == "error: server 'cloud' of the scenario: the site needs this name\n"


@pytest.mark.slow
def test_re_planning_runs_beside_the_site_and_ends_with_it(
    scenario: Path, start: Callable[..., RunningUp]
) -> None:
    site = scenario / "replanned"
    up = start("--site", str(site), "--replan-every", "1s")
    rounds = site / "replans" / "rounds.jsonl"
    until(lambda: rounds.exists() and rounds.read_text().count("\n") >= 2, "two rounds", 120)
    done = json.loads(rounds.read_text().splitlines()[0])
    assert done["failed"]  # nobody has published
    assert "the event log is empty" in done["reason"]
    assert "failed, the plan in force stays" in (site / "output" / "replan.log").read_text()
    up.process.kill()
    up.wait_ended()
