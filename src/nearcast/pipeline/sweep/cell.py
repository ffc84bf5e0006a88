"""One cell of a sweep: make a scenario, plan it by one method, tell what the plan is worth."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from nearcast.delay.pair_delays import choose_pairs, pair_delays_ms
from nearcast.domain.generators.city import City, generate_city
from nearcast.domain.generators.placement2022 import Placement2022, generate_placement2022
from nearcast.domain.generators.reloc2020 import Reloc2020, generate_reloc2020
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.imports.follows import FollowsParams, import_follows
from nearcast.domain.plan import Model, Objective, Plan
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import ConfigError
from nearcast.geo.distance import distance_km
from nearcast.planning.registry import find_method
from nearcast.planning.relations import RelationKind
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import make_plan

__all__ = [
    "SOURCES",
    "Parameters",
    "SweepCell",
    "check_cell",
    "make_scenario",
    "parameter_names",
    "run_cell",
]

Parameters = Mapping[str, Any]
_MOST_PAIRS = 10_000
"""Of which a cell of the placement model keeps the delays; the paper's scenarios have some 300."""

_GENERATORS: dict[str, tuple[type, Callable[[Any, int], Scenario]]] = {
    "reloc2020": (Reloc2020, generate_reloc2020),
    "reloc2021": (Reloc2021, generate_reloc2021),
    "placement2022": (Placement2022, generate_placement2022),
    "city": (City, generate_city),
}
SOURCES = (*_GENERATORS, "follows", "folder")
"""Where a cell's scenario comes from; `follows` and `folder` need the parameter `path`."""


@dataclass(frozen=True, slots=True)
class SweepCell:
    """What to plan and how; equal cells have equal results (but for time limits)."""

    source: str
    """One of `SOURCES`."""
    parameters: str = "{}"
    """The source's parameters as JSON with sorted keys; see `of`."""
    seed: int = 0
    """Of the scenario and of the method."""
    model: Model = Model.RATIO
    method: str = "optimised"
    objective: Objective = Objective.D1
    regions: int | None = 4
    """None: chosen from the data."""
    relation_kind: RelationKind | None = None
    """None: by the size of the scenario."""
    iterations: int | None = None
    time_limit_s: float | None = None
    bound_limit_s: float | None = None

    @classmethod
    def of(cls, source: str, parameters: Parameters, **rest: Any) -> SweepCell:
        """Return a cell from parameters as a mapping."""
        return cls(source, json.dumps(dict(parameters), sort_keys=True), **rest)

    @property
    def cell_id(self) -> str:
        """A name that stays the same from run to run: by it a finished cell is found again."""
        words = [str(getattr(self, name)) for name in self.__slots__]
        return hashlib.sha256("\n".join(words).encode()).hexdigest()[:20]

    @property
    def title(self) -> str:
        """The cell in a few words, for people."""
        given = json.loads(self.parameters)
        words = [self.source, *(f"{name}={value}" for name, value in given.items())]
        return f"{' '.join(words)}, seed {self.seed}: {self.method}, {self.model}"

    def request(self) -> PlanRequest:
        """Return what the planner is asked."""
        return PlanRequest(
            model=self.model,
            method=self.method,
            objective=self.objective,
            regions=self.regions,
            relation_kind=self.relation_kind,
            seed=self.seed,
            iterations=self.iterations,
            time_limit_s=self.time_limit_s,
            bound_limit_s=self.bound_limit_s,
        )


def parameter_names(source: str) -> list[str]:
    """Return the parameters that a source takes.

    Raises
    ------
    ConfigError
        When there is no such source.
    """
    if source == "folder":
        return ["path"]
    if source == "follows":
        return ["path", *(field.name for field in fields(FollowsParams))]
    if source not in _GENERATORS:
        known = ", ".join(SOURCES)
        raise ConfigError(f"no scenario source {source!r}; there are: {known}")
    return [field.name for field in fields(_GENERATORS[source][0])]


def check_cell(cell: SweepCell) -> None:
    """Refuse a cell that cannot run, before hours of others.

    Raises
    ------
    ConfigError, PlanningError
        When a parameter, a limit or the method is wrong.
    """
    cell.request()
    find_method(cell.method, cell.model)
    given = json.loads(cell.parameters)
    for name in given:
        if name not in (known := parameter_names(cell.source)):
            raise ConfigError(
                f"source {cell.source!r} has no parameter {name!r}; it has: {', '.join(known)}"
            )
    if "path" in parameter_names(cell.source):
        path = given.pop("path", None)
        if not isinstance(path, str):
            raise ConfigError(f"source {cell.source!r} needs the parameter 'path'")
        if not Path(path).exists():
            raise ConfigError(f"source {cell.source!r}: there is no {path}")
    if cell.source != "folder":
        kind = FollowsParams if cell.source == "follows" else _GENERATORS[cell.source][0]
        try:
            kind(**given)
        except TypeError as error:
            raise ConfigError(f"source {cell.source!r} with {cell.parameters}: {error}") from error


@lru_cache(maxsize=4)
def make_scenario(source: str, parameters: str, seed: int) -> Scenario:
    """Return the scenario of a cell; the last few are kept, since methods share them.

    Raises
    ------
    ConfigError
        When the source or one of its parameters does not exist.
    """
    given = json.loads(parameters)
    try:
        if source == "folder":
            return read_scenario(Path(given["path"]))
        if source == "follows":
            path = Path(given.pop("path"))
            return import_follows(path, FollowsParams(**given), seed)
        kind, generate = _GENERATORS[source]
        return generate(kind(**given), seed)
    except KeyError as error:
        parameter_names(source)
        raise ConfigError(f"source {source!r} needs the parameter {error}") from error
    except TypeError as error:
        raise ConfigError(f"source {source!r} with {parameters}: {error}") from error


def run_cell(cell: SweepCell) -> dict[str, Any]:
    """Return the row of a cell: the plan's cost, metrics, limits, and the use of each server."""
    scenario = make_scenario(cell.source, cell.parameters, cell.seed)
    outcome = make_plan(scenario, cell.request())
    report, value, homes = outcome.report, outcome.assessment, outcome.plan.homes
    home_km = distance_km(
        scenario.clients.x_km,
        scenario.clients.y_km,
        scenario.servers.x_km[homes],
        scenario.servers.y_km[homes],
    )
    return {
        "cost": report.cost,
        "bound": report.bound,
        "gap": report.gap,
        "plan_status": report.status.value,
        "plan_seconds": report.seconds,
        "metrics": {name: float(number) for name, number in report.metrics.items()},
        "limits": {name: None if ms is None else float(ms) for name, ms in report.limits.items()},
        "clients": len(scenario.clients),
        "topics": len(scenario.topics),
        "members": len(scenario.members),
        "storage_used": value.storage_used.tolist(),
        "compute_used": value.compute_used.tolist(),
        "local_share": value.local_share.tolist(),
        "clients_at_home": value.clients.tolist(),
        "home_km_mean": float(np.mean(home_km)) if len(home_km) else 0.0,
        "home_km_sd": float(np.std(home_km, ddof=1)) if len(home_km) > 1 else 0.0,
        "pair_ms": _pair_ms(scenario, outcome.plan, cell.model),
        "topic_brokers": _topic_brokers(outcome.plan, cell.model),
    }


def _topic_brokers(plan: Plan, model: Model) -> list[int] | None:
    """Return on how many edge servers each topic has a broker under the placement model."""
    if model is not Model.PLACEMENT:
        return None
    return [int(count) for count in np.bincount(plan.brokers.topic[plan.brokers.on_edge])]


def _pair_ms(scenario: Scenario, plan: Plan, model: Model) -> list[float] | None:
    """Return the delay of each pair under the placement model, unless they are too many."""
    if model is not Model.PLACEMENT:
        return None
    pairs = choose_pairs(scenario, model, np.random.default_rng(0), most=_MOST_PAIRS)
    if pairs.total > _MOST_PAIRS:
        return None
    return [float(ms) for ms in pair_delays_ms(scenario, plan, model, pairs)]
