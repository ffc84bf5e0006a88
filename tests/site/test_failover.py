"""A site of real processes that loses a home and its manager for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearcast.sdk import SyncClient
from nearcast.site.live_site import run_site
from small_site.making import quick, until, write_small_scenario

pytestmark = pytest.mark.slow


def test_clients_of_a_dead_home_go_on_while_the_manager_is_dead_too(tmp_path: Path) -> None:
    names = ["car", "sign"]
    scenario = write_small_scenario(tmp_path / "small", edges=2, clients=names, topics=["road"])
    with run_site(scenario, tmp_path / "site", quick(scenario)) as live:
        live.enrol_clients()
        files = map(live.site.credentials_file, names)
        car, sign = (SyncClient.connect(file, timeout_s=60) for file in files)
        with car, sign:
            homes = (car.home, sign.home)
            assert homes[0] != homes[1]
            for one in (car, sign):
                one.subscribe("road", timeout_s=30)
            car.publish("road", "before").wait(30)
            assert next(sign.notifications(30)).text == "before"
            live.processes.kill("e1")
            live.processes.kill("manager")
            car.publish("road", "from the other home").wait(60)
            assert (car.home, sign.home) == (homes[1], homes[1])
            assert next(sign.notifications(30)).text == "from the other home"
            until(lambda: _hears(sign, car), "the car hears at its new home")


def _hears(publisher: SyncClient, subscriber: SyncClient) -> bool:
    publisher.publish("road", "to the car").wait(30)
    return any(one.text == "to the car" for one in subscriber.notifications(timeout_s=0.3))
