"""The tables of a scenario and of a plan: their columns, defaults and allowed values.

An empty cell means the default; a column without a default is required.

================  ===============  ========  =============================
table             column           default   allowed
================  ===============  ========  =============================
servers           server_id                  unique
servers           x_km, y_km                 finite
servers           storage          no limit  0 or more
servers           compute          no limit  0 or more
servers           client_limit     no limit  0 or more
servers           net_id           net0
clients           client_id                  unique
clients           x_km, y_km                 finite
topics            topic_id                   unique
topics            spool            1         0 or more, finite
topics            permissible_ms   no limit  0 or more
topics            process_ms       0         0 or more, finite
members           topic_id                   a topic
members           client_id                  a client, once a topic
members           publishes        1         0 or 1, false or true
members           subscribes       1         0 or 1, false or true
members           rate_hz          1         0 or more, finite
client_server_ms  client_id                  a client
client_server_ms  server_id                  a server, once a client
client_server_ms  ms                         0 or more, finite
server_server_ms  from_id, to_id             servers, each pair once
server_server_ms  ms                         0 or more, finite; 0 to itself
homes             client_id                  every client once
homes             server_id                  a server
publish           topic_id                   a topic
publish           client_id                  every publisher of it once
publish           server_id                  a server
brokers           topic_id                   a topic
brokers           server_id                  a server
brokers           hosted           edge      edge or cloud
brokers           share            1         0 to 1
================  ===============  ========  =============================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import NoReturn

import numpy as np

from nearcast.domain.scenario import FloatArray
from nearcast.errors import PlanError, ScenarioError

__all__ = ["PLAN_TABLES", "SCENARIO_TABLES", "Column", "Kind", "Place", "check_numbers"]


class Kind(Enum):
    """What the cells of a column hold."""

    ID = auto()
    """Strings, or integers if every cell is one."""
    NUMBER = auto()
    FLAG = auto()


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind
    default: float | str | bool | None = None
    """Value of an empty cell; None: the column is required."""
    lowest: float = 0.0
    highest: float = math.inf
    """Infinite when the value may be infinite; such a value is written as an empty cell."""


@dataclass(frozen=True, slots=True)
class Place:
    """A file, or a table in memory, to name in errors."""

    file: str
    error: type[ScenarioError] | type[PlanError] = ScenarioError

    def fail(
        self, message: str, row: int | np.integer | None = None, column: str | None = None
    ) -> NoReturn:
        """Raise the error of this place; `row` counts from 0 here and from 1 in the message."""
        number = None if row is None else int(row) + 1
        raise self.error(message, file=self.file, row=number, column=column)


_LARGEST = float(np.finfo(np.float64).max)


def _identifier(name: str, default: str | None = None) -> Column:
    return Column(name, Kind.ID, default)


def _limit(name: str) -> Column:
    return Column(name, Kind.NUMBER, math.inf)


def _amount(name: str, default: float | None = None, highest: float = _LARGEST) -> Column:
    return Column(name, Kind.NUMBER, default, 0.0, highest)


def _place_km(name: str) -> Column:
    return Column(name, Kind.NUMBER, None, -_LARGEST, _LARGEST)


SCENARIO_TABLES: dict[str, tuple[Column, ...]] = {
    "servers": (
        _identifier("server_id"),
        _place_km("x_km"),
        _place_km("y_km"),
        _limit("storage"),
        _limit("compute"),
        _limit("client_limit"),
        _identifier("net_id", "net0"),
    ),
    "clients": (_identifier("client_id"), _place_km("x_km"), _place_km("y_km")),
    "topics": (
        _identifier("topic_id"),
        _amount("spool", 1.0),
        _limit("permissible_ms"),
        _amount("process_ms", 0.0),
    ),
    "members": (
        _identifier("topic_id"),
        _identifier("client_id"),
        Column("publishes", Kind.FLAG, True),
        Column("subscribes", Kind.FLAG, True),
        _amount("rate_hz", 1.0),
    ),
    "client_server_ms": (_identifier("client_id"), _identifier("server_id"), _amount("ms")),
    "server_server_ms": (_identifier("from_id"), _identifier("to_id"), _amount("ms")),
}

PLAN_TABLES: dict[str, tuple[Column, ...]] = {
    "homes": (_identifier("client_id"), _identifier("server_id")),
    "publish": (_identifier("topic_id"), _identifier("client_id"), _identifier("server_id")),
    "brokers": (
        _identifier("topic_id"),
        _identifier("server_id"),
        _identifier("hosted", "edge"),
        _amount("share", 1.0, 1.0),
    ),
}


def check_numbers(values: FloatArray, column: Column, place: Place) -> None:
    """Raise the error of the first number that its column does not allow."""
    allowed = (values >= column.lowest) & (values <= column.highest)
    if allowed.all():
        return
    row = int(np.argmin(allowed))
    value = float(values[row])
    if math.isnan(value):
        place.fail("is NaN, not a number", row, column.name)
    if math.isinf(value):
        place.fail(f"{value:g} is not finite", row, column.name)
    if value < column.lowest:
        place.fail(f"{value:g} is negative", row, column.name)
    place.fail(f"{value:g} is more than {column.highest:g}", row, column.name)
