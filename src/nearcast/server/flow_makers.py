"""Which topics the components of flows make, by the orders."""

from __future__ import annotations

from collections.abc import Iterable

from nearcast.flow.flow_orders import FlowOrder
from nearcast.trust.flow_publishers import flow_publisher

__all__ = ["FlowMakers"]


class FlowMakers:
    """Flows and their components by the topic that they make, at whatever server."""

    def __init__(self, orders: Iterable[FlowOrder] = ()) -> None:
        self._makers: dict[str, list[tuple[str, str]]] = {}
        for flow in (one.flow for one in orders):
            for name, component in flow.components.items():
                self._makers.setdefault(component.output, []).append((flow.name, name))

    def __contains__(self, topic: str) -> bool:
        return topic in self._makers

    def has(self, server: str, publisher: str, topic: str) -> bool:
        """Tell whether a publisher is a component at a server that makes a topic."""
        makers = self._makers.get(topic, ())
        return any(flow_publisher(*maker, server) == publisher for maker in makers)
