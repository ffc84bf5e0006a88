"""nearcast: geo-aware publish-process-subscribe on edge servers.

The public names, loaded when they are first used::

    from nearcast import City, Model, PlanRequest, generate_city, make_plan

    outcome = make_plan(generate_city(City(clients=500), seed=1), PlanRequest(Model.RATIO))
    print(outcome.report.cost, outcome.report.gap)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearcast.domain.generators.city import City, generate_city
    from nearcast.domain.generators.placement2022 import Placement2022, generate_placement2022
    from nearcast.domain.generators.reloc2020 import Reloc2020, generate_reloc2020
    from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
    from nearcast.domain.plan import Model, Objective, Plan, PlanReport, PlanStatus
    from nearcast.domain.plan_files import read_plan, write_plan
    from nearcast.domain.scenario import Clients, Members, Scenario, Servers, Topics
    from nearcast.domain.scenario_files import read_scenario, write_scenario
    from nearcast.errors import NearcastError
    from nearcast.planning.assessment import assess
    from nearcast.planning.comparison import compare_methods, methods_for
    from nearcast.planning.request import Decision, PlanningMethod, PlanRequest
    from nearcast.planning.sizing import find_size
    from nearcast.planning.solve import PlanOutcome, make_plan

_HOMES = {
    "nearcast.domain.generators.city": ("City", "generate_city"),
    "nearcast.domain.generators.placement2022": ("Placement2022", "generate_placement2022"),
    "nearcast.domain.generators.reloc2020": ("Reloc2020", "generate_reloc2020"),
    "nearcast.domain.generators.reloc2021": ("Reloc2021", "generate_reloc2021"),
    "nearcast.domain.plan": ("Model", "Objective", "Plan", "PlanReport", "PlanStatus"),
    "nearcast.domain.plan_files": ("read_plan", "write_plan"),
    "nearcast.domain.scenario": ("Clients", "Members", "Scenario", "Servers", "Topics"),
    "nearcast.domain.scenario_files": ("read_scenario", "write_scenario"),
    "nearcast.errors": ("NearcastError",),
    "nearcast.planning.assessment": ("assess",),
    "nearcast.planning.comparison": ("compare_methods", "methods_for"),
    "nearcast.planning.request": ("Decision", "PlanRequest", "PlanningMethod"),
    "nearcast.planning.sizing": ("find_size",),
    "nearcast.planning.solve": ("PlanOutcome", "make_plan"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "City",
    "Clients",
    "Decision",
    "Members",
    "Model",
    "NearcastError",
    "Objective",
    "Placement2022",
    "Plan",
    "PlanOutcome",
    "PlanReport",
    "PlanRequest",
    "PlanStatus",
    "PlanningMethod",
    "Reloc2020",
    "Reloc2021",
    "Scenario",
    "Servers",
    "Topics",
    "assess",
    "compare_methods",
    "find_size",
    "generate_city",
    "generate_placement2022",
    "generate_reloc2020",
    "generate_reloc2021",
    "make_plan",
    "methods_for",
    "read_plan",
    "read_scenario",
    "write_plan",
    "write_scenario",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing the package costs nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'nearcast' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
