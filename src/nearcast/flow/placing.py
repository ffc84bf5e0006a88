"""Where components begin by a plan: at the one broker of all that they read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nearcast.flow.flow import Flow

__all__ = ["places_by_plan"]


def places_by_plan(
    flow: Flow, places: Mapping[str, str], brokers: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """Return the components that have a place by the plan, besides those that have one already.

    A source comes from the brokers of its topic, what a component makes from where that begins. A
    component for which all of this is one edge server begins there; the others are left out.

    Parameters
    ----------
    brokers
        By topic of the plan; an empty name stands for the cloud server.
    """
    found = dict(places)
    origins: dict[str, set[str]] = {}
    """By topic: the servers that it comes from; empty names where that is not an edge server."""
    for topic in flow.sources:
        origins.setdefault(topic, set()).update(brokers.get(topic, ("",)))
    waiting = dict(flow.components)
    while True:
        makers = {one.output for one in waiting.values()}
        ready = [name for name, one in waiting.items() if not makers & set(one.inputs)]
        if not ready:
            return found  # all are done, or make a circle, which is told later
        for name in ready:
            component = waiting.pop(name)
            origin = {at for topic in component.inputs for at in origins.get(topic, {""})}
            if name not in found and len(origin) == 1 and "" not in origin:
                found[name] = origin.pop()
            origins.setdefault(component.output, set()).add(found.get(name, ""))
