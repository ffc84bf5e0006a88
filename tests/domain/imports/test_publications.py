import csv
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from pyproj import Geod

from nearcast.domain.imports.publications import PublicationsParams, import_publications
from nearcast.domain.validation import validate_scenario
from nearcast.errors import ConfigError, ScenarioError

Row = dict[str, object]


def random_log(count: int = 400) -> list[Row]:
    rng = np.random.default_rng(8)
    return [
        {
            "topic": f"t{rng.integers(12)}",
            "client": int(rng.integers(40)),
            "time": float(rng.uniform(1000, 1600)),
            "x_km": float(rng.uniform(0, 8)),
            "y_km": float(rng.uniform(0, 5)),
            "size": int(rng.integers(1, 9)),
        }
        for _ in range(count)
    ]


def write_csv(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def write_json_lines(path: Path, rows: list[Row]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)))


def write_parquet(path: Path, rows: list[Row]) -> None:
    pa_parquet.write_table(pa.Table.from_pylist(rows), path)


@pytest.mark.parametrize("write", [write_csv, write_json_lines, write_parquet])
def test_members_rates_places_and_spools_are_those_of_plain_loops(
    write: Callable[[Path, list[Row]], None], tmp_path: Path
) -> None:
    rows = random_log()
    write(tmp_path / "log", rows)
    scenario = import_publications(tmp_path / "log", None, PublicationsParams(), 5)
    validate_scenario(scenario)
    times = [row["time"] for row in rows]
    span = max(times) - min(times)  # type: ignore[type-var, operator]
    clients, topics = scenario.clients, scenario.topics
    assert clients.ids.to_pylist() == list(dict.fromkeys(row["client"] for row in rows))
    assert topics.ids.to_pylist() == list(dict.fromkeys(row["topic"] for row in rows))
    for index, name in enumerate(clients.ids.to_pylist()):
        own = [row for row in rows if row["client"] == name]
        assert clients.x_km[index] == pytest.approx(statistics.median(row["x_km"] for row in own))  # type: ignore[type-var]
        assert clients.y_km[index] == pytest.approx(statistics.median(row["y_km"] for row in own))  # type: ignore[type-var]
    found = {}
    for n, client, rate in zip(
        scenario.members.topic, scenario.members.client, scenario.members.rate_hz, strict=True
    ):
        found[topics.ids[int(n)].as_py(), clients.ids[int(client)].as_py()] = float(rate)
    wanted: dict[tuple[object, object], float] = {}
    for row in rows:
        key = row["topic"], row["client"]
        wanted[key] = wanted.get(key, 0) + 1 / span
    assert found == pytest.approx(wanted)
    for index, name in enumerate(topics.ids.to_pylist()):
        sizes = [row["size"] for row in rows if row["topic"] == name]
        publishers = len({row["client"] for row in rows if row["topic"] == name})
        mean = sum(sizes) / len(sizes)  # type: ignore[arg-type]
        assert topics.spool[index] == pytest.approx(2 * publishers * mean)


def test_who_publishes_subscribes_too_unless_told_otherwise(tmp_path: Path) -> None:
    write_csv(tmp_path / "log.csv", random_log())
    both = import_publications(tmp_path / "log.csv", None, PublicationsParams(), 1).members
    assert both.publishes.all()
    assert both.subscribes.all()
    alone = import_publications(tmp_path / "log.csv", None, PublicationsParams(subscribe=False), 1)
    assert alone.members.publishes.all()
    assert not alone.members.subscribes.any()


def test_servers_stand_on_a_grid_over_the_clients(tmp_path: Path) -> None:
    write_csv(tmp_path / "log.csv", random_log())
    parameters = PublicationsParams(servers_per_side=3, storage=7, compute=8)
    scenario = import_publications(tmp_path / "log.csv", None, parameters, 1)
    assert len(scenario.servers) == 9
    width_km, height_km = scenario.settings.width_km, scenario.settings.height_km
    assert (width_km, height_km) == (scenario.clients.x_km.max(), scenario.clients.y_km.max())
    quarters = np.array([1, 2, 3]) / 4
    assert sorted(set(scenario.servers.x_km.tolist())) == pytest.approx(width_km * quarters)
    assert sorted(set(scenario.servers.y_km.tolist())) == pytest.approx(height_km * quarters)
    assert (scenario.servers.storage[0], scenario.servers.compute[0]) == (7, 8)


def test_sites_and_positions_in_degrees_are_projected_together(tmp_path: Path) -> None:
    (tmp_path / "sites.csv").write_text("site_id,lat,lon\nA,48.1,11.5\nB,48.2,11.7\n")
    (tmp_path / "log.csv").write_text(
        "topic_id,client_id,timestamp,latitude,longitude\nt,c,0,48.15,11.6\nt,d,10,48.12,11.55\n"
    )
    scenario = import_publications(
        tmp_path / "log.csv", tmp_path / "sites.csv", PublicationsParams(), 1
    )
    validate_scenario(scenario)
    assert scenario.servers.ids.to_pylist() == ["A", "B"]
    meters = Geod(ellps="WGS84").inv(11.7, 48.2, 11.55, 48.12)[2]
    plane_km = np.hypot(
        scenario.servers.x_km[1] - scenario.clients.x_km[1],
        scenario.servers.y_km[1] - scenario.clients.y_km[1],
    )
    assert plane_km == pytest.approx(meters / 1000, rel=1e-3)
    assert scenario.members.rate_hz.tolist() == [0.1, 0.1]


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("0", "20"),
        ("1700000000.5", "1700000020.5"),
        ("2024-05-01T12:00:00Z", "2024-05-01T12:00:20Z"),
        ("2024-05-01 12:00:00", "2024-05-01 12:00:20"),
        ("2024-05-01T12:00:00.250+02:00", "2024-05-01T10:00:20.250+00:00"),
    ],
)
def test_times_are_seconds_or_dates(first: str, last: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"topic,client,time,x_km,y_km\nt,a,{first},1,1\nt,b,{last},2,2\n")
    scenario = import_publications(path, None, PublicationsParams(), 1)
    assert scenario.members.rate_hz.tolist() == pytest.approx([1 / 20, 1 / 20])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_of_parquet_are_read_in_every_unit(
    unit: str, zone: str | None, tmp_path: Path
) -> None:
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    columns = {
        "topic": ["t", "t"],
        "client": ["a", "b"],
        "time": pa.array([5 * factor, 30 * factor], pa.int64()).cast(pa.timestamp(unit, zone)),
        "x_km": [1.0, 2.0],
        "y_km": [1.0, 2.0],
    }
    pa_parquet.write_table(pa.table(columns), tmp_path / "log")
    scenario = import_publications(tmp_path / "log", None, PublicationsParams(), 1)
    assert scenario.members.rate_hz.tolist() == pytest.approx([1 / 25, 1 / 25])


def test_a_log_of_one_moment_counts_as_one_second(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("topic,client,time,x_km,y_km\nt,a,9,-1,-2\nt,b,9,2,2\nt,b,9,2,2\n")
    scenario = import_publications(path, None, PublicationsParams(), 1)
    assert scenario.members.rate_hz.tolist() == [1, 2]
    assert scenario.clients.x_km.tolist() == [0, 3]
    validate_scenario(scenario)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client,time,x_km,y_km\na,1,1,1\n", "no column topic or topic_id; the columns found are"),
        ("topic,time,x_km,y_km\na,1,1,1\n", "no column client or client_id"),
        ("topic,client,x_km,y_km\na,1,1,1\n", "no column time or timestamp"),
        ("topic,client,time,x_km\nt,a,1,1\n", "no column latitude or lat"),
        ("topic,client,time,x_km,y_km\nt,a,1,1,1\n,b,1,1,1\n", "row 2, column 'topic': is empty"),
        ("topic,client,time,x_km,y_km\nt,a,soon,1,1\n", "row 1, column 'time': 'soon' is not"),
        ("topic,client,time,x_km,y_km\nt,a,1,inf,1\n", "row 1, column 'x_km': inf is not"),
        ("topic,client,time,x_km,y_km,size\nt,a,1,1,1,-4\n", "row 1, column 'size': -4 is not"),
        ("topic,client,time,lat,lon\nt,a,1,95,1\n", "row 1, column 'lat': 95 is not"),
        ("topic,client,time,x_km,y_km\n", "has no rows of data"),
    ],
)
def test_a_log_that_cannot_be_used_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=message) as error:
        import_publications(path, None, PublicationsParams(), 1)
    assert error.value.file == str(path)


def test_an_empty_time_of_parquet_is_named(tmp_path: Path) -> None:
    columns = {
        "topic": ["t"] * 2,
        "client": ["a"] * 2,
        "time": pa.array([1, None], pa.timestamp("s")),
        "x_km": [1.0, 2.0],
        "y_km": [1.0, 2.0],
    }
    pa_parquet.write_table(pa.table(columns), tmp_path / "log")
    with pytest.raises(ScenarioError, match="row 2, column 'time': is empty"):
        import_publications(tmp_path / "log", None, PublicationsParams(), 1)


@pytest.mark.parametrize(
    "wrong", [{"servers_per_side": 0}, {"spool_per_publisher": 0}, {"storage": 0}, {"compute": -1}]
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="must be"):
        PublicationsParams(**wrong)  # type: ignore[arg-type]
