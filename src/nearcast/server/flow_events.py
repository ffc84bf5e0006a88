"""What happened to flows at a server lately; what fails often pushes no decision out."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from nearcast.server.flow_messages import FlowEvent

__all__ = ["FlowEvents", "last_events"]

_MOST = 20
"""Of each flow and kind."""
_FAULTS = frozenset(("failed", "mapping failed", "refused"))
"""What is no decision about places."""


class FlowEvents:
    """The last decisions, and the last faults, of each flow."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bool], deque[FlowEvent]] = {}

    def note(self, now: float, flow: str, component: str, event: str, detail: str) -> None:
        """Keep an event."""
        what = " ".join(one for one in (component, event) if one)
        is_fault = event in _FAULTS
        kept = self._kept.setdefault((flow, is_fault), deque(maxlen=_MOST))
        kept.append(FlowEvent(now, flow, f"{what}: {detail}" if detail else what, is_fault))

    def keep(self, flows: Collection[str]) -> None:
        """Forget all flows but these."""
        self._kept = {key: kept for key, kept in self._kept.items() if key[0] in flows}

    def all(self) -> tuple[FlowEvent, ...]:
        """Return what is kept, in the order of time."""
        return tuple(sorted((one for kept in self._kept.values() for one in kept), key=_time))


def last_events(
    flow: str, said: Iterable[tuple[str, Iterable[FlowEvent]]]
) -> list[tuple[str, FlowEvent]]:
    """Return the last events of a flow of each kind by server, of what servers said."""
    own = sorted(
        ((server, one) for server, events in said for one in events if one.flow == flow),
        key=lambda each: (each[1].at_s, each[0]),
    )
    decisions = [each for each in own if not each[1].is_fault][-_MOST:]
    faults = [each for each in own if each[1].is_fault][-_MOST:]
    return sorted((*decisions, *faults), key=lambda each: (each[1].at_s, each[0]))


def _time(event: FlowEvent) -> float:
    return event.at_s
