"""The seam to the overlay: who has an index, without asking where the component began."""

from __future__ import annotations

from typing import Protocol

from nearcast.flow.messages import Part
from nearcast.routing.keys import NetPath

__all__ = ["Finder"]


class Finder(Protocol):
    """Finds the server for an index. A wrong answer costs a detour, never a message."""

    def find(self, flow: str, component: str, net: NetPath, index: int) -> str | None:
        """Return the server that should have an index, as far as it is known now.

        Called for each message whose server is not in the cache of flows; must not wait. It may
        begin a search, of which later calls know the result.
        """
        ...

    def hold(self, flow: str, component: str, parts: tuple[Part, ...]) -> None:
        """Note all that this server holds of a component now; none: it holds nothing any more.

        Called after each change of what it holds, once the change is durable.
        """
        ...

    def meet(self, flow: str, component: str, net: NetPath) -> None:
        """Note that a message came from a net, so that others of it come here directly.

        Called at the first message from each net since the start.
        """
        ...
