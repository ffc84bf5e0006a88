"""The fingerprint: the same for the same content, another for any other content."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast.domain.fingerprint import scenario_fingerprint
from nearcast.domain.scenario import Clients, Members, Scenario, ScenarioSettings, Servers, Topics
from nearcast.domain.scenario_files import read_scenario, write_scenario


def some_scenario() -> Scenario:
    rng = np.random.default_rng(5)
    return Scenario(
        ScenarioSettings("five", 10.0, 10.0, seed=5, extra={"sizes": (1, 2)}),
        Servers(
            ids=pa.array(["a", "bc"]),
            x_km=rng.random(2),
            y_km=rng.random(2),
            storage=rng.random(2),
            compute=rng.random(2),
            client_limit=np.full(2, np.inf),
            net_id=pa.array(["n", "n"]),
        ),
        Clients(pa.array([7, 8, 9]), rng.random(3), rng.random(3)),
        Topics(pa.array(["t", "é"]), rng.random(2), np.full(2, np.inf), np.zeros(2)),
        Members(
            topic=np.array([0, 0, 1, 1], dtype=np.int32),
            client=np.array([0, 2, 1, 0], dtype=np.int32),
            publishes=np.array([True, False, True, True]),
            subscribes=np.ones(4, dtype=np.bool_),
            rate_hz=rng.random(4),
        ),
        client_server_ms=rng.random((3, 2)),
        server_server_ms=np.array([[0.0, 1.0], [2.0, 0.0]]),
    )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_of_any_format_keep_the_fingerprint(tmp_path: Path, form: Any) -> None:
    scenario = some_scenario()
    write_scenario(scenario, tmp_path / "s", table_format=form)
    fingerprint = scenario_fingerprint(scenario)
    assert scenario_fingerprint(read_scenario(tmp_path / "s")) == fingerprint
    assert len(fingerprint) == 16
    assert int(fingerprint, 16) >= 0


def test_name_type_of_ids_and_sign_of_zero_do_not_count() -> None:
    scenario = some_scenario()
    same = replace(
        scenario,
        settings=replace(scenario.settings, name="other", extra={"sizes": [1, 2]}),
        clients=replace(scenario.clients, ids=pa.array(["7", "8", "9"])),
        topics=replace(scenario.topics, process_ms=-scenario.topics.process_ms),
        servers=replace(scenario.servers, ids=pa.array(["x", "a", "bc", "y"]).slice(1, 2)),
    )
    assert scenario_fingerprint(same) == scenario_fingerprint(scenario)


def test_any_change_of_content_changes_it() -> None:
    base = some_scenario()
    assert base.client_server_ms is not None
    changed = [
        replace(base, settings=replace(base.settings, cloud_ms=6.0)),
        replace(base, settings=replace(base.settings, extra={"sizes": (1, 3)})),
        replace(base, servers=replace(base.servers, ids=pa.array(["ab", "c"]))),
        replace(base, servers=replace(base.servers, net_id=pa.array(["n", "m"]))),
        replace(base, client_server_ms=None),
        replace(base, server_server_ms=None),
        replace(base, client_server_ms=base.client_server_ms * 2),
    ]
    for table, fields in {
        "servers": ("x_km", "y_km", "storage", "compute"),
        "clients": ("x_km", "y_km"),
        "topics": ("spool",),
        "members": ("client", "publishes", "rate_hz"),
    }.items():
        rows = getattr(base, table)
        changed += [
            replace(base, **{table: replace(rows, **{name: getattr(rows, name)[::-1].copy()})})
            for name in fields
        ]
    changed.append(replace(base, servers=replace(base.servers, client_limit=np.array([1.0, 2.0]))))
    changed.append(replace(base, topics=replace(base.topics, permissible_ms=np.ones(2))))
    changed.append(replace(base, topics=replace(base.topics, process_ms=np.ones(2))))
    subscribes = np.array([True, True, True, False])
    changed.append(replace(base, members=replace(base.members, subscribes=subscribes)))
    prints = {scenario_fingerprint(scenario) for scenario in [base, *changed]}
    assert len(prints) == len(changed) + 1
