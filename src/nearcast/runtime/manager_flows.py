"""Flows at the manager: what operators start, stop, move and look at."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec

from nearcast.broker.registry import check_allowed
from nearcast.errors import ConfigError
from nearcast.flow.check import check_flow
from nearcast.flow.flow import ContentMapping, Flow
from nearcast.flow.flow_orders import FlowOrder
from nearcast.flow.messages import Part
from nearcast.flow.placing import places_by_plan
from nearcast.links.daemon_thread import in_daemon_thread
from nearcast.routing.keys import INDEX_END, net_path
from nearcast.runtime.config import SiteConfig
from nearcast.server.flow_description import describe_flows
from nearcast.server.flow_messages import MovePart
from nearcast.server.manager import Manager
from nearcast.server.manager_state import ManagerState, with_flow, without_flow

__all__ = [
    "MOST_FLOWS",
    "FlowMove",
    "FlowService",
    "FlowStart",
    "ManagerFlows",
    "answer_flows",
    "check_flow_order",
]

MOST_FLOWS = 100
Answer = tuple[int, Any]
"""Status and content, to be sent as JSON."""


class FlowStart(msgspec.Struct, forbid_unknown_fields=True):
    """A flow that an operator wants to run."""

    flow: Flow
    places: dict[str, str] = {}
    """By component: the server where it begins; the cloud server where none is named."""
    by_plan: bool = False
    """Whether others begin where the plan in force has the brokers of what they read."""


class FlowMove(msgspec.Struct, forbid_unknown_fields=True):
    """A range of indexes that an operator wants to be elsewhere."""

    component: str
    giver: str
    taker: str
    low: int
    high: int
    net: str | None = None
    """Only messages from this net; None: from all."""


def check_flow_order(
    flow: Flow,
    places: Mapping[str, str],
    servers: Container[str],
    default: str,
    allowed: Container[str] | None,
) -> dict[str, str]:
    """Return where each component begins; loads processors and functions that are allowed.

    Raises
    ------
    ConfigError
        When the flow or a place is wrong.
    ProcessorError
        When a processor or a mapping function is not allowed; then nothing was loaded.
    """
    for component in flow.components.values():
        check_allowed(component.processor, allowed)
        if isinstance(component.mapping, ContentMapping) and component.mapping.function:
            check_allowed(component.mapping.function, allowed)
    mistakes = check_flow(flow)
    if mistakes:
        raise ConfigError(f"flow {flow.name!r}: {'; '.join(mistakes)}")
    for name, server in places.items():
        if name not in flow.components:
            raise ConfigError(f"flow {flow.name!r} has no component {name!r} to be placed")
        if server not in servers:
            raise ConfigError(f"component {name!r}: there is no server {server!r}")
    return {name: places.get(name, default) for name in flow.components}


class FlowService(Protocol):
    """What the HTTP side needs of a manager to answer about flows."""

    async def run(self, asked: FlowStart) -> dict[str, Any]:
        """Start a flow."""
        ...

    def stop(self, name: str) -> dict[str, Any]:
        """End a flow."""
        ...

    def move(self, name: str, move: FlowMove) -> dict[str, Any]:
        """Have a server hand a range over to another one."""
        ...

    def show(self) -> list[dict[str, Any]]:
        """Return the flows that run."""
        ...


class ManagerFlows:
    """What operators ask about flows; every change is durable before servers hear of it.

    Parameters
    ----------
    install
        Makes a state with other flows durable and has the manager go by it.
    send
        Brings frames to servers.
    """

    def __init__(
        self,
        site: SiteConfig,
        manager: Manager,
        install: Callable[[ManagerState], None],
        send: Callable[[list[tuple[str, bytes]]], None],
        clock: Callable[[], float],
    ) -> None:
        self._site, self._manager, self._clock = site, manager, clock
        self._install, self._send = install, send

    async def run(self, asked: FlowStart) -> dict[str, Any]:
        """Start a flow, anew if it runs; return its number and where it begins."""
        flow, servers = asked.flow, self._manager.state.servers
        places = asked.places
        if asked.by_plan:
            planned = {one.planned.topic: one.planned for one in self._manager.state.topics}
            brokers = {name: one.brokers for name, one in planned.items()}
            places = places_by_plan(flow, asked.places, brokers)
        begins_at = await in_daemon_thread(
            lambda: check_flow_order(flow, places, servers, self._site.cloud, self._site.may_order)
        )  # may load modules
        state = self._manager.state
        if len(state.flows) >= MOST_FLOWS:
            raise ConfigError(f"{MOST_FLOWS} flows run already")
        state = with_flow(state, flow, begins_at)
        self._install(state)
        return {"number": state.flows[-1].number, "begins_at": begins_at}

    def stop(self, name: str) -> dict[str, Any]:
        """End a flow; what its components remember is dropped."""
        self._order(name)
        state = without_flow(self._manager.state, name)
        self._install(state)
        return {"revision": state.revision}

    def move(self, name: str, move: FlowMove) -> dict[str, Any]:
        """Have a server hand a range over to another one."""
        order = self._order(name)
        if move.component not in order.flow.components:
            raise ConfigError(f"flow {name!r} has no component {move.component!r}")
        for server in (move.giver, move.taker):
            if server not in self._manager.state.servers:
                raise ConfigError(f"there is no server {server!r}")
        part = Part(None if move.net is None else net_path(move.net), move.low, move.high)
        if not 0 <= part.low < part.high <= INDEX_END:
            raise ConfigError(f"indexes go from 0 to {INDEX_END}: there is no such range")
        message = MovePart(name, move.component, part, move.taker)
        self._send(self._manager.tell(move.giver, message, self._clock()))
        return {"component": move.component, "low": part.low, "high": part.high}

    def show(self) -> list[dict[str, Any]]:
        """Return the flows that run, with what servers last said of them."""
        return describe_flows(self._manager.state.flows, self._manager.flow_reports())

    def _order(self, name: str) -> FlowOrder:
        for one in self._manager.state.flows:
            if one.flow.name == name:
                return one
        raise ConfigError(f"no flow {name!r} runs here")


async def answer_flows(flows: FlowService, method: str, path: str, body: bytes) -> Answer:
    """Answer a request about ``/flows``."""
    name, _, what = path.removeprefix("/flows").lstrip("/").partition("/")
    name = unquote(name)
    match method, name, what:
        case "GET", "", "":
            return 200, flows.show()
        case "PUT", "", "":
            return 200, await flows.run(msgspec.json.decode(body, type=FlowStart))
        case "DELETE", str(), "" if name:
            return 200, flows.stop(name)
        case "POST", str(), "moves" if name:
            return 200, flows.move(name, msgspec.json.decode(body, type=FlowMove))
    return 404, {"error": f"there is no {method} {path}"}
