"""``nearcast apply``: posts a plan, waits until all servers have it, tells the pauses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from nearcast.links import http_client

URL = "http://manager:1"


class Manager:
    """Answers as a manager whose servers get a plan one by one."""

    def __init__(self, servers: int, stuck: bool = False) -> None:
        self.servers, self.stuck = servers, stuck
        self.done, self.posted = 0, list[Any]()

    def ask(
        self, url: str, body: object = None, token: str | None = None, timeout_s: float = 30.0
    ) -> Any:
        if url == f"{URL}/plans":
            assert timeout_s > 30.0  # a large plan takes longer than other requests
            self.posted.append((body, token))
            return {"plan_version": 7}
        self.done += not self.stuck
        revisions = [9 if number < self.done else 8 for number in range(self.servers)]
        return {
            "revision": 9,
            "servers": [{"id": f"e{at}", "revision": one} for at, one in enumerate(revisions)],
            "switch": {"streams": 40, "pause_p50_s": 0.02, "pause_p99_s": 0.3},
        }


def applied(run: Run, folder: Path, manager: Manager, *more: str) -> Any:
    token = folder / "token"
    token.write_text("secret\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_client, "ask", manager.ask)
        patch.setattr("nearcast.site.plan_access.time.sleep", lambda _: None)
        return run("apply", folder, "--manager", URL, "--token-file", token, *more)


def test_a_plan_is_posted_and_its_progress_shown(run: Run, tmp_path: Path) -> None:
    manager = Manager(2)
    answer = applied(run, tmp_path, manager)
    assert answer.code == 0
    assert manager.posted == [({"plan": str(tmp_path.resolve())}, "secret")]
    assert answer.err.splitlines() == [
        "plan 7: 1 of 2 servers have it",
        "plan 7: 2 of 2 servers have it",
    ]
    assert answer.out.splitlines() == [
        "plan 7 is in force on all 2 servers",
        "40 streams handed over; pause p50 20 ms, p99 300 ms",
    ]


def test_one_json_object_says_it_all(run: Run, tmp_path: Path) -> None:
    answer = applied(run, tmp_path, Manager(3), "--json")
    assert json.loads(answer.out) == {
        "plan_version": 7,
        "streams": 40,
        "pause_p50_s": 0.02,
        "pause_p99_s": 0.3,
    }


def test_servers_that_do_not_get_the_plan_are_named(run: Run, tmp_path: Path) -> None:
    answer = applied(run, tmp_path, Manager(2, stuck=True), "--timeout-s", "0")
    assert answer.code == 2
    assert "do not have it yet: e0, e1" in answer.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--site", URL], "needs --token-file, --scenario, --log and --work"),
        (["--site", "nowhere"], "nowhere/site.json"),
        (["--site", "nowhere", "--log", "log"], "are for a URL"),
        (["--site", "nowhere", "--every", "soon"], "'soon' is not a time such as 60s"),
        (["--site", "nowhere", "--every", "-1s"], "is not a time"),
        (["--site", "nowhere", "--method", "magic"], "there is no method 'magic'"),
        (["--site", "nowhere", "--migration-price", "-1"], "--migration-price"),
    ],
)
def test_re_planning_that_cannot_be_is_refused(run: Run, options: list[str], said: str) -> None:
    answer = run("replan", *options)
    assert answer.code == 2
    assert said in answer.err
