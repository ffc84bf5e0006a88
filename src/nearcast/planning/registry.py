"""The methods by name: the built-in ones and those that users plug in."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from nearcast.domain.plan import Model
from nearcast.errors import PlanningError
from nearcast.planning.request import PlanningMethod

__all__ = ["ENTRY_POINT_GROUP", "find_method", "method_names"]

ENTRY_POINT_GROUP = "nearcast.planners"

_BUILT_IN = {
    "random": "nearcast.planning.methods.random_homes:RandomHomes",
    "nearest": "nearcast.planning.methods.nearest:Nearest",
    "region": "nearcast.planning.methods.region:RandomInRegion",
    "relation": "nearcast.planning.methods.relation:RelationOnly",
    "reloc": "nearcast.planning.methods.reloc:Reloc",
    "reloc-together": "nearcast.planning.methods.reloc:RelocTogether",
    "otos": "nearcast.planning.methods.otos:Otos",
    "otos-centre": "nearcast.planning.methods.otos_centre:OtosCentre",
    "exact": "nearcast.planning.exact:Exact",
    "optimised": "nearcast.planning.optimised:Optimised",
}


def _plugged_in() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def method_names() -> list[str]:
    """Return all known methods, the built-in ones first."""
    return [*_BUILT_IN, *sorted(set(_plugged_in()) - set(_BUILT_IN))]


def find_method(name: str, model: Model) -> PlanningMethod:
    """Return the method of a name.

    Raises
    ------
    PlanningError
        When there is none, it cannot be loaded, or it does not plan for the model.
    """
    if name in _BUILT_IN:
        module, attribute = _BUILT_IN[name].split(":")
        method: PlanningMethod = getattr(import_module(module), attribute)()
    else:
        method = _load(name)
    if model not in method.models:
        fitting = ", ".join(sorted(method.models))
        raise PlanningError(f"method {name!r} does not plan the {model} model, only: {fitting}")
    return method


def _load(name: str) -> PlanningMethod:
    point = _plugged_in().get(name)
    if point is None:
        raise PlanningError(f"there is no method {name!r}; there are: {', '.join(method_names())}")
    try:
        loaded = point.load()
        method: PlanningMethod = loaded() if isinstance(loaded, type) else loaded
        method.models  # noqa: B018  (asks early whether it is a planner at all)
    except Exception as error:
        raise PlanningError(
            f"planner {name!r} ({point.value}) of {ENTRY_POINT_GROUP} cannot be loaded: {error}"
        ) from error
    return method
