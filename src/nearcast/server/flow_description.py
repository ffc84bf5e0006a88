"""How flows are shown to operators: the graph with live ranges, rates, places and queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nearcast.flow.flow_orders import FlowOrder
from nearcast.flow.flow_report import ComponentReport
from nearcast.flow.messages import Part
from nearcast.server.flow_events import last_events
from nearcast.server.flow_messages import FlowReports

__all__ = ["describe_flows"]


def describe_flows(
    orders: Iterable[FlowOrder], reports: Mapping[str, FlowReports]
) -> list[dict[str, Any]]:
    """Return the flows as plain JSON values, with what servers last said of them."""
    return [_describe(order, reports) for order in orders]


def _describe(order: FlowOrder, reports: Mapping[str, FlowReports]) -> dict[str, Any]:
    name = order.flow.name
    events = last_events(name, ((server, said.events) for server, said in reports.items()))
    return {
        "name": name,
        "number": order.number,
        "sources": list(order.flow.sources),
        "components": {
            component: {
                "processor": declared.processor,
                "inputs": list(declared.inputs),
                "output": declared.output,
                "begins_at": order.begins_at.get(component, ""),
                "places": list(_places(order, component, reports)),
            }
            for component, declared in order.flow.components.items()
        },
        "events": [
            {"at_s": one.at_s, "server": server, "what": one.what, "is_fault": one.is_fault}
            for server, one in events
        ],
    }


def _places(
    order: FlowOrder, component: str, reports: Mapping[str, FlowReports]
) -> Iterator[dict[str, Any]]:
    """Return what each server that has to do with a component says of it."""
    name = order.flow.name
    for server, said in reports.items():
        per_s = said.per_s.get(name, {}).get(component, 0.0)
        for flow in said.flows:
            for one in flow.components:
                is_meant = (flow.flow, flow.run, one.component) == (name, order.number, component)
                if is_meant and _is_shown(one):
                    yield _place(server, one, per_s)


def _is_shown(one: ComponentReport) -> bool:
    busy = one.queued or one.outgoing or one.unpublished or one.processed or one.mapping_errors
    return bool(one.held or one.under_way or one.refusal or busy)


def _place(server: str, one: ComponentReport, per_s: float) -> dict[str, Any]:
    return {
        "server": server,
        "parts": [_part(part) for part in one.held],
        "per_s": round(per_s, 1),
        "processed": one.processed,
        "queued": one.queued,
        "outgoing": one.outgoing,
        "unpublished": one.unpublished,
        "under_way": [{"part": _part(moved.part), "to": moved.to} for moved in one.under_way],
        "refusal": one.refusal,
        "set_aside": one.set_aside,
        "mapping_errors": one.mapping_errors,
    }


def _part(part: Part) -> dict[str, Any]:
    net = None if part.net is None else ".".join(part.net)
    return {"net": net, "low": part.low, "high": part.high}
