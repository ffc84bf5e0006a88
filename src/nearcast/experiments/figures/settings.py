"""The papers' settings as cells: from the generators, or from a follower graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nearcast.domain.imports.follows import FollowsParams
from nearcast.domain.plan import Model, Objective
from nearcast.experiments.figures.figure import Effort
from nearcast.pipeline.sweep.cell import SweepCell
from nearcast.planning.relations import RelationKind

__all__ = [
    "COMPUTE_2021",
    "LONGER_2022",
    "RELATIONS_2020",
    "RELATIONS_2021",
    "STORAGE_2021",
    "TABLE_II",
    "cells_2020",
    "cells_2021",
    "cells_2022",
    "source_2021",
]

STORAGE_2021 = 640.0
COMPUTE_2021 = 3200.0
TABLE_II = {0.07: 142, 0.52: 914, 0.81: 1361, 0.95: 1587, 1.28: 2053}
"""Requirement ratio of 2020 and the number of topics that the paper takes for it."""
RELATIONS_2020 = RelationKind.COUNTS
"""One kind for all ratios: above 1,000 topics factors of full rank take too long."""
RELATIONS_2021 = RelationKind.FACTORISED
"""As the paper does it."""
LONGER_2022 = (0.8, 2.0)
"""Other permissible delays, shortest and longest in ms: the paper does not give its own."""
_REGIONS_2020 = 10
_PROOF_LIMIT_S = 120.0
"""A proof of 2022 takes some 5 s; on a machine where it does not end the gap tells."""


def cells_2020(
    effort: Effort, ratio: float, method: str, relations: RelationKind = RELATIONS_2020
) -> tuple[SweepCell, ...]:
    """Return a cell a seed of one requirement ratio of table II."""
    source = "reloc2020"
    parameters: dict[str, Any] = {"ratio": ratio}
    if effort.follows is not None:
        setting = FollowsParams.reloc2020(topics=TABLE_II[ratio], sample=True)
        source, parameters = "follows", {"path": effort.follows, **asdict(setting)}
    return tuple(
        SweepCell.of(
            source,
            parameters,
            seed=seed,
            model=Model.CONNECTIONS,
            method=method,
            regions=_REGIONS_2020,
            relation_kind=relations,
            # Some 3,000 clients on 100 servers take longer than 900 on 16.
            **_search(effort, method, bound_effort=4),
        )
        for seed in range(effort.seeds_2020)
    )


def cells_2021(
    effort: Effort, sigma_km: float, spool_per_member: float, regions: int, method: str
) -> tuple[SweepCell, ...]:
    """Return a cell a seed of the setting of table 2."""
    source, parameters = source_2021(
        effort, sigma_km=sigma_km, spool_per_member=spool_per_member, topics=64
    )
    return tuple(
        SweepCell.of(
            source,
            parameters,
            seed=seed,
            method=method,
            regions=regions,
            relation_kind=RELATIONS_2021,
            **_search(effort, method),
        )
        for seed in range(effort.seeds_2021)
    )


def source_2021(
    effort: Effort, *, sigma_km: float, spool_per_member: float, topics: int, **others: Any
) -> tuple[str, dict[str, Any]]:
    """Return where topics of 2021 come from, and the parameters of it.

    `others` are parameters of the generator; a follower graph has its own.
    """
    setting = {"sigma_km": sigma_km, "spool_per_member": spool_per_member, "topics": topics}
    if effort.follows is None:
        return "reloc2021", {**setting, **others}
    return "follows", {"path": effort.follows, "sample": True, **setting}


def cells_2022(
    effort: Effort, objective: Objective, permissible_ms: tuple[float, float] | None = None
) -> Sequence[SweepCell]:
    """Return a cell a seed, proved optimal for an objective.

    `permissible_ms` are the shortest and longest permissible delay; None: the generator's.
    """
    parameters = {}
    if permissible_ms is not None:
        shortest_ms, longest_ms = permissible_ms
        parameters = {
            "shortest_permissible_ms": shortest_ms,
            "longest_permissible_ms": longest_ms,
        }
    return [
        SweepCell.of(
            "placement2022",
            parameters,
            seed=seed,
            model=Model.PLACEMENT,
            method="exact",
            objective=objective,
            regions=None,
            time_limit_s=_PROOF_LIMIT_S,
        )
        for seed in range(effort.seeds_2022)
    ]


def _search(effort: Effort, method: str, bound_effort: int = 1) -> dict[str, Any]:
    """Return the limits of the one method that searches; the others have none."""
    if method != "optimised":
        return {}
    bound_limit_s = bound_effort * effort.bound_limit_s
    return {"iterations": effort.iterations, "bound_limit_s": bound_limit_s}
