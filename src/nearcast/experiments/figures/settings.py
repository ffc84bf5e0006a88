"""The papers' settings as cells: from the generators, or from a follower graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nearcast.domain.imports.follows import FollowsParams
from nearcast.domain.plan import Model, Objective
from nearcast.experiments.figures.figure import Effort
from nearcast.pipeline.sweep.cell import SweepCell

__all__ = [
    "COMPUTE_2021",
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
_REGIONS_2020 = 10
_PROOF_LIMIT_S = 120.0
"""A proof of 2022 takes some 5 s; on a machine where it does not end the gap tells."""


def cells_2020(effort: Effort, ratio: float, method: str) -> tuple[SweepCell, ...]:
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


def cells_2022(effort: Effort, objective: Objective) -> Sequence[SweepCell]:
    """Return a cell a seed, proved optimal for an objective."""
    return [
        SweepCell.of(
            "placement2022",
            {},
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
