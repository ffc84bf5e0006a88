"""What operators ask about plans: to adopt one, and what the one in force says, part by part."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from nearcast.errors import PlanError
from nearcast.runtime.stored_clients import StoredClients
from nearcast.server.manager_state import ManagerState

__all__ = ["AskedPlan", "PlanPart", "check_in_force", "plan_part"]

PlanPart = Literal["homes", "brokers"]
_ROWS_AT_ONCE = 10_000
"""Of a part: a million clients must not hold up the manager."""


class AskedPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan that is to be adopted."""

    plan: Path
    scenario: Path | None = None
    """The scenario that it was made for, where that is not the site's own; with its servers."""
    instead_of: int | None = None
    """The version that must be in force: who planned from another one has to plan again."""


def check_in_force(asked: AskedPlan, state: ManagerState) -> None:
    """Refuse a plan that was made to follow another one than that in force.

    Raises
    ------
    PlanError
        Naming both.
    """
    version = state.versions[-1].version
    if asked.instead_of not in (None, version):
        raise PlanError(f"plan {version} is in force, not plan {asked.instead_of}; plan again")


def plan_part(
    clients: StoredClients, state: ManagerState, part: PlanPart, after: str
) -> dict[str, Any]:
    """Return some rows of the plan in force, in the order of names.

    Parameters
    ----------
    part
        ``homes``: rows (client, server); ``brokers``: rows (topic, edge server).
    after
        The client or topic of the last row that is known; empty: from the start.

    Returns
    -------
    dict
        ``plan_version``, ``rows``, and ``next``: what to ask `after` next, None at the end.
    """
    if part == "homes":
        rows: list[tuple[str, str]] = clients.planned_homes(after, _ROWS_AT_ONCE)
        is_whole = len(rows) < _ROWS_AT_ONCE
        last = rows[-1][0] if rows else after
    else:
        topics = sorted(
            (one.planned for one in state.topics if one.planned.topic > after),
            key=lambda one: one.topic,
        )
        some = topics[:_ROWS_AT_ONCE]
        rows = [(one.topic, server) for one in some for server in one.edge_brokers]
        is_whole = len(topics) <= len(some)
        last = some[-1].topic if some else after
    version = state.versions[-1]
    return {
        "plan_version": version.version,
        "model": version.model,
        "rows": rows,
        "next": None if is_whole else last,
    }
