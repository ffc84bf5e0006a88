"""Scenarios in memory, as generators and imports make them, are checked like files."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario import Scenario
from nearcast.domain.validation import first_repeated, validate_scenario
from nearcast.errors import ScenarioError


@pytest.fixture
def scenario() -> Scenario:
    return generate_reloc2021(Reloc2021(topics=3), seed=1)


def with_column(scenario: Scenario, table: str, column: str, row: int, value: Any) -> Scenario:
    rows = getattr(scenario, table)
    changed = getattr(rows, column).copy()
    changed[row] = value
    return replace(scenario, **{table: replace(rows, **{column: changed})})


def test_a_generated_scenario_is_valid(scenario: Scenario) -> None:
    servers = len(scenario.servers)
    validate_scenario(scenario)
    validate_scenario(
        replace(
            scenario,
            client_server_ms=np.ones((len(scenario.clients), servers)),
            server_server_ms=1.0 - np.eye(servers),
        )
    )


@pytest.mark.parametrize(
    ("table", "column", "value", "words"),
    [
        ("servers", "x_km", np.nan, "NaN"),
        ("servers", "y_km", np.inf, "not finite"),
        ("servers", "storage", -1.0, "negative"),
        ("servers", "compute", np.nan, "NaN"),
        ("servers", "client_limit", -1.0, "negative"),
        ("clients", "x_km", -np.inf, "not finite"),
        ("topics", "spool", np.inf, "not finite"),
        ("topics", "permissible_ms", -1.0, "negative"),
        ("topics", "process_ms", -1.0, "negative"),
        ("members", "rate_hz", -1.0, "negative"),
    ],
)
def test_a_wrong_number_is_named(
    scenario: Scenario, table: str, column: str, value: float, words: str
) -> None:
    with pytest.raises(ScenarioError, match=words) as caught:
        validate_scenario(with_column(scenario, table, column, 2, value))
    assert (caught.value.file, caught.value.row, caught.value.column) == (table, 3, column)


@pytest.mark.parametrize(("field", "value"), [("topic", 3), ("topic", -1), ("client", 10**6)])
def test_an_index_beyond_the_table_is_named(scenario: Scenario, field: str, value: int) -> None:
    with pytest.raises(ScenarioError, match=f"no {field} with index {value}") as caught:
        validate_scenario(with_column(scenario, "members", field, 4, value))
    assert (caught.value.file, caught.value.row) == ("members", 5)
    assert caught.value.column == f"{field}_id"


def test_members_in_the_wrong_order_are_refused(scenario: Scenario) -> None:
    members = scenario.members
    reverse = {
        field: getattr(members, field)[::-1].copy()
        for field in ("topic", "client", "publishes", "subscribes", "rate_hz")
    }
    with pytest.raises(ScenarioError, match="not sorted by topic") as caught:
        validate_scenario(replace(scenario, members=replace(members, **reverse)))
    assert caught.value.row == int(np.count_nonzero(members.topic == 2)) + 1


def test_a_wrong_type_or_length_is_named(scenario: Scenario) -> None:
    topics = scenario.topics
    wrong = {
        "topics, column 'spool': must be 3 values of float64": replace(
            scenario, topics=replace(topics, spool=topics.spool.astype(np.float32))
        ),
        "topics, column 'process_ms': must be 3 values": replace(
            scenario, topics=replace(topics, process_ms=np.zeros(2))
        ),
        "topics, column 'topic_id': must be 3 strings or 64-bit integers": replace(
            scenario, topics=replace(topics, ids=pa.array([1.0, 2.0, 3.0]))
        ),
        "topics, row 2, column 'topic_id': is empty": replace(
            scenario, topics=replace(topics, ids=pa.array(["a", "", "c"]))
        ),
        "topics, row 3, column 'topic_id': is empty": replace(
            scenario, topics=replace(topics, ids=pa.array([1, 2, None]))
        ),
        "client_server_ms: must be": replace(scenario, client_server_ms=np.ones((2, 2))),
        "server_server_ms: must be": replace(scenario, server_server_ms=np.ones((2, 2))),
        "server_server_ms, column 'ms': a server's delay to itself": replace(
            scenario, server_server_ms=np.ones((16, 16))
        ),
    }
    for words, broken in wrong.items():
        with pytest.raises(ScenarioError) as caught:
            validate_scenario(broken)
        assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, '"name" must be a text'),
        ({"cloud_ms": float("nan")}, '"cloud_ms" must be a number'),
        ({"beta_ms": -1.0}, '"beta_ms" must be a number'),
        ({"seed": -1}, '"seed" must be a whole number'),
        ({"extra": {"seed": 1}}, '"seed" is a setting of its own'),
    ],
)
def test_a_wrong_setting_is_named(scenario: Scenario, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as caught:
        validate_scenario(replace(scenario, settings=replace(scenario.settings, **changes)))
    assert caught.value.file == "scenario.json"


@given(st.lists(st.integers(0, 6), max_size=8))
def test_the_first_repeated_key_is_found(keys: list[int]) -> None:
    repeated = [row for row, key in enumerate(keys) if key in keys[:row]]
    assert first_repeated(np.array(keys)) == (repeated[0] if repeated else None)
