from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest

from nearcast.domain.generators.city import City, generate_city
from nearcast.domain.scenario import Scenario
from nearcast.errors import OutputError
from nearcast.experiments.demo_log import compare_with_truth, write_log, write_sites


@pytest.fixture
def city() -> Scenario:
    return generate_city(City(clients=60, servers=4, topics=8), seed=3)


def test_the_log_has_every_role_of_the_city_and_no_other(city: Scenario, tmp_path: Path) -> None:
    path = tmp_path / "log" / "city.parquet"
    rows = write_log(city, path, seed=1)
    log = parquet.read_table(path).to_pylist()
    assert len(log) == rows
    told = {(row["topic"], row["client"], row["action"]) for row in log}
    members = city.members
    expected = set()
    for row in range(len(members)):
        pair = (str(members.topic[row]), str(members.client[row]))
        if members.publishes[row]:
            expected.add((*pair, "publish"))
        if members.subscribes[row]:
            expected.add((*pair, "subscribe"))
    assert told == expected
    assert [row["time"] for row in log] == sorted(row["time"] for row in log)


def test_positions_in_the_log_are_around_the_true_ones(city: Scenario, tmp_path: Path) -> None:
    write_log(city, tmp_path / "city.parquet", seed=1)
    seen = defaultdict(list)
    lost = 0
    for row in parquet.read_table(tmp_path / "city.parquet").to_pylist():
        if math.isnan(row["x_km"]):
            lost += 1
        else:
            seen[int(row["client"])].append(row["x_km"])
    assert lost > 0
    off_km = [abs(median(xs) - city.clients.x_km[client]) for client, xs in seen.items()]
    assert len(seen) == 60
    assert 0 < median(off_km) < 0.05
    assert min(min(xs) for xs in seen.values()) >= 0


def test_the_same_seed_writes_the_same_log(city: Scenario, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_log(city, tmp_path / name, seed=1)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_sites_are_the_servers(city: Scenario, tmp_path: Path) -> None:
    write_sites(city, tmp_path / "sites.csv")
    sites = csv.read_csv(tmp_path / "sites.csv")
    assert sites["server_id"].to_pylist() == [0, 1, 2, 3]
    np.testing.assert_allclose(sites["x_km"], city.servers.x_km)


def test_a_city_compared_with_itself_is_known_in_full(city: Scenario) -> None:
    facts = compare_with_truth(city, city)
    assert (facts.clients, facts.memberships, facts.median_error_m) == (60, len(city.members), 0)


def test_a_moved_and_a_silent_member_are_noticed(city: Scenario) -> None:
    publishes = city.members.publishes.copy()
    publishes[0] = not publishes[0]
    learned = replace(
        city,
        members=replace(city.members, publishes=publishes),
        clients=replace(city.clients, y_km=city.clients.y_km + 0.002),
    )
    facts = compare_with_truth(city, learned)
    assert facts.memberships == len(city.members) - 1
    assert facts.median_error_m == pytest.approx(2.0)


def test_a_log_that_cannot_be_written_is_an_output_error(city: Scenario, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="taken"):
        write_log(city, tmp_path / "taken" / "city.parquet", seed=1)
    with pytest.raises(OutputError, match="sites"):
        write_sites(city, tmp_path / "nowhere" / "sites.csv")
