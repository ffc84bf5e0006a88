"""A car drives past real servers: its home goes with it, and it hears everything once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nearcast.domain.scenario_files import read_scenario
from nearcast.sdk import SyncClient
from nearcast.site.live_site import run_site
from small_site.making import quick, until, write_small_scenario

pytestmark = pytest.mark.slow


def test_the_home_goes_with_a_car_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    names = ["car", "sign"]
    scenario = write_small_scenario(tmp_path / "small", edges=2, clients=names, topics=["road"])
    servers = read_scenario(scenario).servers
    places = [(float(x), float(y)) for x, y in zip(servers.x_km, servers.y_km, strict=True)]
    options = replace(quick(scenario), roaming=True)
    with run_site(scenario, tmp_path / "site", options) as live:
        live.enrol_clients()
        files = map(live.site.credentials_file, names)
        car, sign = (SyncClient.connect(file, timeout_s=60) for file in files)
        with car, sign:
            car.subscribe("road", timeout_s=60)
            heard: list[str] = []
            number = 0
            homes = []
            for x_km, y_km in (*places, *places):
                car.report(x_km + 0.001, y_km + 0.001, 90.0, 10.0)
                number += 1
                sign.publish("road", str(number)).wait(60)
                port = live.site.place(f"e{places.index((x_km, y_km)) + 1}").port
                until(partial(_is_at, car, port), f"the car is at port {port}")
                homes.append(car.home.address)
                number += 1
                sign.publish("road", str(number)).wait(60)
            while len(heard) < number:
                heard.append(next(car.notifications(60)).text)
            assert sorted(heard, key=int) == [str(one) for one in range(1, number + 1)]
            assert homes[0] == homes[2] != homes[1] == homes[3]


def _is_at(client: SyncClient, port: int) -> bool:
    return client.home.address[1] == port
