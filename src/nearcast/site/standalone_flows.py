"""Flows of a standalone server: kept in its folder, which the server looks into."""

from __future__ import annotations

import time
from typing import Any, NoReturn

from msgspec import structs

from nearcast.errors import ConfigError, NearcastError
from nearcast.flow.flow_orders import FlowOrder
from nearcast.links.http_client import ask
from nearcast.runtime.manager_flows import MOST_FLOWS, FlowMove, FlowStart, check_flow_order
from nearcast.server.flow_description import describe_flows
from nearcast.site.standalone_folder import LocalFlows, StandaloneFolder

__all__ = ["StandaloneFlows"]

_TELL_S, _LOOK_S = 10.0, 0.1
"""How long to wait for a server that runs, and how often to look."""


class StandaloneFlows:
    """Does for a standalone server what a manager does for its site."""

    def __init__(self, folder: StandaloneFolder) -> None:
        self._folder, self._place = folder, folder.place()

    async def run(self, asked: FlowStart) -> dict[str, Any]:
        """Start a flow, anew if it runs; the server need not run."""
        flow, server = asked.flow, self._place.server
        # what its own user orders, a standalone server may run
        begins_at = check_flow_order(flow, asked.places, {server}, server, None)

        def add(known: LocalFlows) -> LocalFlows:
            kept = tuple(one for one in known.orders if one.flow.name != flow.name)
            if len(kept) >= MOST_FLOWS:
                raise ConfigError(f"{MOST_FLOWS} flows run already")
            number = known.last_number + 1
            return LocalFlows(number, (*kept, FlowOrder(flow, number, begins_at)))

        number = self._folder.change_flows(add).last_number
        return {"number": number, "begins_at": begins_at}

    def stop(self, name: str) -> dict[str, Any]:
        """End a flow; what its components remember is dropped."""

        def remove(known: LocalFlows) -> LocalFlows:
            kept = tuple(one for one in known.orders if one.flow.name != name)
            if len(kept) == len(known.orders):
                raise ConfigError(f"no flow {name!r} runs here")
            return structs.replace(known, orders=kept)

        self._folder.change_flows(remove)
        return {"revision": None}

    def move(self, name: str, move: FlowMove) -> dict[str, Any]:
        """Say that there is no other server."""
        return self.refuse_moves()

    def refuse_moves(self) -> NoReturn:
        """Say that there is no other server, whatever is to be moved."""
        raise ConfigError(
            f"{self._folder.path}: a standalone server has nowhere to move parts of a flow to:"
            " it is the only one"
        )

    def show(self) -> list[dict[str, Any]]:
        """Return the flows that run, as the server sees them; without places when it is down."""
        live = self._live()
        return describe_flows(self._folder.flows().orders, {}) if live is None else live

    def wait_until_told(self, number: int) -> list[str]:
        """Return the server, if it is up and has not begun a run after a while."""
        until_s = time.monotonic() + _TELL_S
        while (live := self._live()) is not None:
            if any(one["number"] == number for one in live):
                return []
            if time.monotonic() > until_s:
                return [self._place.server]
            time.sleep(_LOOK_S)
        return []

    def _live(self) -> list[dict[str, Any]] | None:
        """Return the flows as the server sees them; None: it does not answer."""
        try:
            status = ask(f"{self._place.url}/status")
        except NearcastError:
            return None
        if not isinstance(status, dict) or status.get("server") != self._place.server:
            return None  # another one that listens there
        flows: list[dict[str, Any]] = status["flows"]
        return flows
