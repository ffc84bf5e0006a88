"""The page's command on a real site: a client moves, the site follows, nothing is lost."""

from __future__ import annotations

import json
import shlex
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cli.conftest import Run
from nearcast.links.http_client import ask
from nearcast.sdk import SyncClient
from nearcast.site.live_site import run_site
from shown_commands import ROOT
from small_site.making import quick, until, write_small_scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ["car", "sign", "bike", "lamp"]


def shown_command() -> list[str]:
    (line,) = (
        line
        for line in (ROOT / "docs" / "replanning.md").read_text().splitlines()
        if line.startswith("nearcast replan ")
    )
    return shlex.split(line)[1:]


def home_of(live_url: str, token: str, client: str) -> str:
    found = ask(f"{live_url}/plans/in-force/homes/", token=token)
    return dict(found["rows"])[client]  # type: ignore[no-any-return]


def test_a_site_follows_a_client_that_moved(spark: SparkSession, run: Run) -> None:
    city = write_small_scenario(Path("city"), edges=2, clients=NAMES, topics=["road", "air"])
    heard: list[str] = []
    # segments that outlast the test: a round asks the servers for what they hold
    settings = replace(quick(city), log_segment_s=3600.0)
    with run_site(city, city / "site", settings) as live:
        url, token = live.site.manager_url, live.site.token
        live.enrol_clients()
        with (
            SyncClient.connect(live.site.credentials_file("sign"), timeout_s=60) as sign,
            SyncClient.connect(live.site.credentials_file("car"), timeout_s=60) as car,
        ):
            sign.inner.on_notification(lambda told: heard.append(told.text))
            sign.subscribe("road")
            assert home_of(url, token, "car") == "e1"
            car.report(1.0, 0.1)
            stop, sent = threading.Event(), list[str]()

            def drive() -> None:
                while not stop.wait(0.05):
                    sent.append(f"message {len(sent)}")
                    car.publish("road", sent[-1])

            driving = threading.Thread(target=drive)
            driving.start()
            try:
                until(lambda: len(heard) > 20, "the sign hears the car")
                told = run(*shown_command(), "--json")
                assert told.code == 0, told.err
                done = told.json
                assert done["switched"], done
                assert done["bound"] <= done["cost_after"] < done["cost_before"]
                assert done["measured_before_ms"] > 0
                assert done["measured_after_ms"] > 0
                assert home_of(url, token, "car") == "e2"
                assert {home_of(url, token, one) for one in ("sign", "lamp")} == {"e2"}
            finally:
                stop.set()
                driving.join()
            until(lambda: len(heard) >= len(sent), "the sign has heard all")
            assert heard == sent
        stays = run("replan", "--site", city, "--rounds", "1", "--every", "100ms", "--window", "1h")
        assert "stays with plan 2" in stays.out, stays.out + stays.err
        kept = (live.site.folder / "replans" / "rounds.jsonl").read_text().splitlines()
        assert [json.loads(line)["switched"] for line in kept] == [True, False]
        shutil.rmtree(live.site.event_log / "publications")
        lost = run("replan", "--site", city, "--rounds", "1", "--every", "100ms")
        assert lost.code == 2
        assert "the event log is empty" in lost.err
