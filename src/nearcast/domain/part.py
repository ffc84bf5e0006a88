"""A part of a scenario: some of its member rows, with clients, servers and topics renumbered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.domain.scenario import IndexArray, Members, OffsetArray, Scenario

__all__ = ["ScenarioPart", "take_part"]


@dataclass(frozen=True, slots=True, eq=False)
class ScenarioPart:
    """A scenario of its own, and what its numbers are in the whole."""

    scenario: Scenario
    clients: IndexArray
    """The whole's client of each client here, ascending; the same for the next two."""
    servers: IndexArray
    topics: IndexArray
    rows: OffsetArray
    """The whole's member row of each row here, ascending."""


def take_part(
    scenario: Scenario,
    rows: OffsetArray,
    *,
    clients: IndexArray | None = None,
    servers: IndexArray | None = None,
    topics: IndexArray | None = None,
) -> ScenarioPart:
    """Return a part with copies of its arrays; the order of rows and numbers is kept.

    Parameters
    ----------
    rows : the member rows of the part, ascending.
    clients, topics : those of the part, ascending; default: those that the rows name.
    servers : those of the part, ascending; default: all.
    """
    members = scenario.members
    topic, client = members.topic[rows], members.client[rows]
    clients = _named(client, len(scenario.clients)) if clients is None else clients
    topics = _named(topic, len(scenario.topics)) if topics is None else topics
    if servers is None:
        servers = np.arange(len(scenario.servers), dtype=np.int32)
    measured, between = scenario.client_server_ms, scenario.server_server_ms
    part = Scenario(
        settings=scenario.settings,
        servers=_take(scenario.servers, servers),
        clients=_take(scenario.clients, clients),
        topics=_take(scenario.topics, topics),
        members=Members(
            topic=_numbers(topics, len(scenario.topics))[topic],
            client=_numbers(clients, len(scenario.clients))[client],
            publishes=members.publishes[rows],
            subscribes=members.subscribes[rows],
            rate_hz=members.rate_hz[rows],
        ),
        client_server_ms=None if measured is None else measured[np.ix_(clients, servers)],
        server_server_ms=None if between is None else between[np.ix_(servers, servers)],
    )
    return ScenarioPart(part, clients, servers, topics, rows)


def _take(table: Any, chosen: IndexArray) -> Any:
    """Return a table of the scenario with the chosen entries only."""
    columns = {name: getattr(table, name) for name in table.__slots__}
    return replace(
        table,
        **{
            name: column[chosen] if isinstance(column, np.ndarray) else column.take(chosen)
            for name, column in columns.items()
        },
    )


def _named(numbers: IndexArray, count: int) -> IndexArray:
    """Return the numbers that occur, ascending."""
    occurs = np.zeros(count, dtype=np.bool_)
    occurs[numbers] = True
    return np.flatnonzero(occurs).astype(np.int32)


def _numbers(chosen: IndexArray, count: int) -> npt.NDArray[np.int32]:
    """Return the place of each chosen number among the chosen; -1 for the others."""
    place = np.full(count, -1, dtype=np.int32)
    place[chosen] = np.arange(len(chosen), dtype=np.int32)
    return place
