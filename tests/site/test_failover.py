"""A site of real processes that loses a home and its manager for good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nearcast.errors import NearcastError
from nearcast.links.http_client import ask
from nearcast.sdk import SyncClient
from nearcast.site.live_site import LiveSite, run_site
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


def test_guests_stay_where_they_are_served_until_the_manager_names_a_home_that_is_there(
    tmp_path: Path,
) -> None:
    names = ["car", "sign", "kiosk"]
    scenario = write_small_scenario(tmp_path / "small", edges=3, clients=names, topics=["road"])
    with run_site(scenario, tmp_path / "site", quick(scenario)) as live:
        live.enrol_clients()
        files = map(live.site.credentials_file, names)
        clients = [SyncClient.connect(file, timeout_s=60) for file in files]
        car, sign, kiosk = clients
        with car, sign, kiosk:
            homes = {one.home: f"e{number}" for number, one in enumerate(clients, 1)}
            assert len(homes) == 3
            for one in clients:
                one.subscribe("road", timeout_s=30)
            told = _Told("road", car, [sign, kiosk])
            told.tell(3)
            for server in ("e1", "manager"):  # the first for good
                live.processes.kill(server)
            told.tell(5)
            shelter = homes[car.home]
            assert shelter in ("e2", "e3")
            until(lambda: _hears(sign, car), "the guest hears")
            live.processes.start("manager")
            until(lambda: _up(live) == {"e2", "e3", "cloud"}, "the manager hears of the others")
            told.tell(2)
            # the manager's orders still name the dead home: the guest is not sent there
            _adopt(live, scenario / "plan")
            told.tell(5)
            assert homes[car.home] == shelter
            until(lambda: _hears(sign, car), "the guest still hears")
            other = "e3" if shelter == "e2" else "e2"
            _adopt(
                live, _write_plan(tmp_path / "other", {"car": other, "sign": "e2", "kiosk": "e3"})
            )
            until(lambda: homes[car.home] == other, "the guest is at its new home")
            told.tell(5)
            until(lambda: _hears(sign, car), "it hears there")


class _Told:
    """Numbered messages, each acknowledged: every listener hears all of them, in order."""

    def __init__(self, topic: str, publisher: SyncClient, listeners: Sequence[SyncClient]) -> None:
        self._topic, self._publisher, self._listeners = topic, publisher, listeners
        self._count = 0

    def tell(self, messages: int) -> None:
        for _ in range(messages):
            self._count += 1
            text = f"number {self._count}"
            self._publisher.publish(self._topic, text).wait(60)
            for one in self._listeners:
                heard = (found.text for found in one.notifications(30))
                assert next(said for said in heard if said.startswith("number")) == text


def _up(live: LiveSite) -> set[str]:
    try:
        servers = live.status()["servers"]
    except NearcastError:  # it is not there yet
        return set()
    return {one["id"] for one in servers if one["state"] == "up"}


def _adopt(live: LiveSite, plan: Path) -> None:
    ask(f"{live.site.manager_url}/plans", {"plan": str(plan)}, live.site.token)

    def have_it() -> bool:
        status = live.status()
        return all(
            one["revision"] == status["revision"]
            for one in status["servers"]
            if one["state"] == "up" and one["id"] != "e1"
        )

    until(have_it, "all servers have the plan")


def _write_plan(folder: Path, homes: dict[str, str]) -> Path:
    folder.mkdir()
    rows = "".join(f"{client},{server}\n" for client, server in homes.items())
    (folder / "homes.csv").write_text(f"client_id,server_id\n{rows}")
    return folder


def _hears(publisher: SyncClient, subscriber: SyncClient) -> bool:
    publisher.publish("road", "to the car").wait(30)
    return any(one.text == "to the car" for one in subscriber.notifications(timeout_s=0.3))
