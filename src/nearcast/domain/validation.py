"""The rules that a scenario keeps, whether it was read, imported or generated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.domain.columns import SCENARIO_TABLES, Kind, Place, check_numbers
from nearcast.domain.scenario import Scenario
from nearcast.domain.settings_file import check_settings
from nearcast.domain.texts import as_texts, is_text

__all__ = ["check_rules", "first_repeated", "validate_scenario"]

_ID_COLUMN = {"servers": "server_id", "clients": "client_id", "topics": "topic_id"}
_INDEX_COLUMN = {"topic": "topic_id", "client": "client_id"}


def validate_scenario(scenario: Scenario) -> None:
    """Raise the first error of a scenario in memory; rows are counted as it has them.

    Raises
    ------
    ScenarioError
        Naming table, row and column.
    """
    places = {name: Place(name) for name in SCENARIO_TABLES}
    check_settings(scenario.settings, Place("scenario.json"))
    for name in ("servers", "clients", "topics", "members"):
        _check_arrays(name, getattr(scenario, name), places[name])
    members = scenario.members
    for name, count in (("topic", len(scenario.topics)), ("client", len(scenario.clients))):
        index = getattr(members, name)
        wrong = np.flatnonzero((index < 0) | (index >= count))
        if len(wrong):
            message = f"there is no {name} with index {index[wrong[0]]}"
            places["members"].fail(message, wrong[0], _INDEX_COLUMN[name])
    check_rules(scenario, places)
    falling = np.flatnonzero(np.diff(members.topic) < 0)
    if len(falling):
        places["members"].fail("rows are not sorted by topic", falling[0] + 1, "topic_id")
    _check_delays(scenario, places)


def check_rules(scenario: Scenario, places: Mapping[str, Place]) -> None:
    """Raise an error for the first row that contradicts another; members may be in any order."""
    for name, column in _ID_COLUMN.items():
        ids = getattr(scenario, name).ids
        if not len(ids):
            places[name].fail(f"there are no {name}")
        row = first_repeated(ids.dictionary_encode().indices.to_numpy())
        if row is not None:
            places[name].fail(f"{ids[row].as_py()!r} is there twice", row, column)
    members, place = scenario.members, places["members"]
    key = members.topic.astype(np.int64) * len(scenario.clients) + members.client
    row = first_repeated(key)
    if row is not None:
        topic = scenario.topics.ids[int(members.topic[row])].as_py()
        client = scenario.clients.ids[int(members.client[row])].as_py()
        place.fail(f"client {client!r} is in topic {topic!r} twice", row, "client_id")
    idle = np.flatnonzero(~(members.publishes | members.subscribes))
    if len(idle):
        place.fail("the member neither publishes nor subscribes", idle[0], "publishes")
    topics = len(scenario.topics)
    for rows, lack in ((members.topic, "member"), (members.topic[members.publishes], "publisher")):
        without = np.flatnonzero(np.bincount(rows, minlength=topics) == 0)
        if len(without):
            topic = scenario.topics.ids[int(without[0])].as_py()
            places["topics"].fail(f"topic {topic!r} has no {lack}", without[0], "topic_id")


def first_repeated(keys: npt.NDArray[Any]) -> int | None:
    """Return the first row whose key an earlier row has, or None."""
    if (keys[1:] > keys[:-1]).all():
        return None  # as members in order: no need to sort millions of them
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    again = order[1:][ranked[1:] == ranked[:-1]]
    return int(again.min()) if len(again) else None


def _check_arrays(name: str, table: Any, place: Place) -> None:
    """Check types, lengths and the numbers of one table."""
    rows = len(table)
    for column in SCENARIO_TABLES[name]:
        if column.kind is Kind.ID and name != "members":
            ids = table.ids if column.name == _ID_COLUMN[name] else table.net_id
            _check_ids(ids, rows, column.name, place)
        else:
            field = {"topic_id": "topic", "client_id": "client"}.get(column.name, column.name)
            values = getattr(table, field)
            wanted = {Kind.ID: np.int32, Kind.NUMBER: np.float64, Kind.FLAG: np.bool_}[column.kind]
            if values.dtype != wanted or values.shape != (rows,):
                message = f"must be {rows} values of {np.dtype(wanted)}, not "
                place.fail(f"{message}{values.shape} of {values.dtype}", column=column.name)
            if column.kind is Kind.NUMBER:
                check_numbers(values, column, place)


def _check_ids(ids: pa.Array, rows: int, column: str, place: Place) -> None:
    if not (ids.type == pa.int64() or is_text(ids.type)) or len(ids) != rows:
        place.fail(
            f"must be {rows} strings or 64-bit integers, not {len(ids)} of {ids.type}",
            column=column,
        )
    row = pc.index(pc.fill_null(pc.equal(as_texts(ids), ""), True), True).as_py()
    if row >= 0:
        place.fail("is empty", row, column)


def _check_delays(scenario: Scenario, places: Mapping[str, Place]) -> None:
    servers = len(scenario.servers)
    shapes = {
        "client_server_ms": (len(scenario.clients), servers),
        "server_server_ms": (servers, servers),
    }
    for name, shape in shapes.items():
        values = getattr(scenario, name)
        if values is None:
            continue
        if values.shape != shape or values.dtype != np.float64:
            places[name].fail(f"must be {shape} of float64, not {values.shape} of {values.dtype}")
        check_numbers(values.ravel(), SCENARIO_TABLES[name][-1], places[name])
    if scenario.server_server_ms is not None and scenario.server_server_ms.diagonal().any():
        places["server_server_ms"].fail("a server's delay to itself must be 0", column="ms")
