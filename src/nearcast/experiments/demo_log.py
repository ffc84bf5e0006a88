"""What the clients of a city would have left behind, and how much of it was learned again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from nearcast.domain.scenario import Scenario
from nearcast.errors import OutputError

__all__ = ["LogFacts", "compare_with_truth", "write_log", "write_sites"]

_SPAN_S = 60.0
_MOST_MESSAGES = 60
"""Of a member: more would only make the log longer."""
_POSITION_NOISE_KM = 0.05
"""What a phone's position is off by, in each direction."""
_LOST_POSITIONS = 0.005
"""Share of further messages, sent where there was no position: the pipeline sets them aside."""


def write_log(city: Scenario, path: Path, seed: int) -> int:
    """Write a minute of a city as a Parquet log and return its rows.

    Everybody first subscribes to its topics, then publishes about as often as its rates say,
    once at least. Positions are noisy.
    """
    rng = np.random.default_rng(seed)
    members = city.members
    told = np.clip(rng.poisson(members.rate_hz * _SPAN_S), 1, _MOST_MESSAGES)
    subscribing = np.flatnonzero(members.subscribes)
    publishing = np.repeat(np.arange(len(members)), np.where(members.publishes, told, 0))
    lost = rng.choice(publishing, round(_LOST_POSITIONS * len(publishing)))
    member = np.concatenate([subscribing, publishing, lost])
    time_s = np.concatenate(
        [np.zeros(len(subscribing)), rng.uniform(0, _SPAN_S, len(publishing) + len(lost))]
    )
    client = members.client[member]
    noise_km = rng.normal(0, _POSITION_NOISE_KM, (2, len(member)))
    noise_km[:, len(member) - len(lost) :] = np.nan
    # nobody leaves the field: below zero, all of the learned map would move
    x_km, y_km = (
        np.maximum(place_km[client] + noise, 0.0)
        for place_km, noise in zip((city.clients.x_km, city.clients.y_km), noise_km, strict=True)
    )
    order = np.argsort(time_s, kind="stable")
    table = pa.table(
        {
            "topic": _names(city.topics.ids, members.topic[member][order]),
            "client": _names(city.clients.ids, client[order]),
            "time": time_s[order],
            "x_km": x_km[order],
            "y_km": y_km[order],
            "action": np.where(np.arange(len(member)) < len(subscribing), "subscribe", "publish")[
                order
            ],
        }
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pa_parquet.write_table(table, path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    return len(table)


def write_sites(city: Scenario, path: Path) -> None:
    """Write where the city's servers stand, as ``pipeline run --sites`` reads it."""
    servers = city.servers
    table = pa.table(
        {"server_id": servers.ids.cast(pa.string()), "x_km": servers.x_km, "y_km": servers.y_km}
    )
    try:
        pa_csv.write_csv(table, path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class LogFacts:
    """How much of a city a log told."""

    clients: int
    """Found, of those there are."""
    all_clients: int
    memberships: int
    """Found with the same role."""
    all_memberships: int
    median_error_m: float
    """Of the learned positions of clients."""


def compare_with_truth(city: Scenario, learned: Scenario) -> LogFacts:
    """Return how much of a city a learned scenario has."""
    truth, found = _places(city), _places(learned)
    both = truth.keys() & found.keys()
    errors_km = [np.hypot(*np.subtract(truth[name], found[name])) for name in both]
    return LogFacts(
        clients=len(both),
        all_clients=len(truth),
        memberships=len(_roles(city) & _roles(learned)),
        all_memberships=len(city.members),
        median_error_m=1000 * float(np.median(errors_km)) if errors_km else float("nan"),
    )


def _names(ids: pa.Array, index: np.typing.NDArray[np.int32]) -> pa.Array:
    return pc.take(ids.cast(pa.string()), pa.array(index))


def _places(scenario: Scenario) -> dict[str, tuple[float, float]]:
    clients = scenario.clients
    names = clients.ids.cast(pa.string()).to_pylist()
    return dict(zip(names, zip(clients.x_km, clients.y_km, strict=True), strict=True))


def _roles(scenario: Scenario) -> set[tuple[str, str, bool, bool]]:
    members = scenario.members
    return set(
        zip(
            _names(scenario.topics.ids, members.topic).to_pylist(),
            _names(scenario.clients.ids, members.client).to_pylist(),
            members.publishes.tolist(),
            members.subscribes.tolist(),
            strict=True,
        )
    )
