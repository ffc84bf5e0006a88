"""How a flow is doing at a server, for status pages."""

from __future__ import annotations

import msgspec

from nearcast.flow.messages import Part
from nearcast.flow.running_flow import RunningFlow

__all__ = ["ComponentReport", "FlowReport", "HandOverReport", "report_of"]


class HandOverReport(msgspec.Struct, frozen=True):
    """A part on its way to another server."""

    part: Part
    to: str


class ComponentReport(msgspec.Struct, frozen=True):
    """A component at this server."""

    component: str
    held: tuple[Part, ...]
    """What is processed here."""
    queued: int
    """Messages that wait for the processor here."""
    outgoing: int
    """Messages of this server that are for the component, and not done."""
    unpublished: int
    """Messages of its output that the topic's broker does not have yet."""
    processed: int
    """Messages that were processed here since the start."""
    early: int
    """Messages that came before an earlier one of their index, to be sent again."""
    overflowed: int
    """Messages for which there was no room, to be sent again."""
    under_way: tuple[HandOverReport, ...]
    refusal: str
    """Why it does not run here; empty: nothing is against it."""
    set_aside: int = 0
    """Messages that ended the process of processors, each alone; they are not processed."""
    mapping_errors: int = 0
    """Messages from this server for which the mapping was of no use; their index comes from all of
    the message."""


class FlowReport(msgspec.Struct, frozen=True):
    """A flow at this server."""

    flow: str
    run: int
    components: tuple[ComponentReport, ...]


def report_of(flow: RunningFlow) -> FlowReport:
    """Return how a flow is doing."""
    components = tuple(_component(flow, name) for name in flow.order.flow.components)
    return FlowReport(flow.order.flow.name, flow.order.number, components)


def _component(flow: RunningFlow, name: str) -> ComponentReport:
    instance, outputs = flow.instances.get(name), flow.outputs.get(name)
    outgoing = sum(len(box) for (component, _), box in flow.outboxes.items() if component == name)
    errors = flow.mapping_errors[name]
    if instance is None or outputs is None:
        refusal = flow.refusals.get(name, "")
        return ComponentReport(name, (), 0, outgoing, 0, 0, 0, 0, (), refusal, 0, errors)
    return ComponentReport(
        name,
        instance.ledger.parts_of(flow.server),
        instance.queued,
        outgoing,
        len(outputs),
        instance.processed,
        instance.early,
        instance.overflowed,
        tuple(
            HandOverReport(one.message.part, one.to)
            for one in instance.under_way.values()
            if not one.is_taken
        ),
        instance.worker.problem,
        instance.worker.set_aside,
        errors,
    )
