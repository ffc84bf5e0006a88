"""Messages on their way to the node responsible for a place, hop by hop with acknowledgements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from nearcast.overlay.context import Context, Timer
from nearcast.overlay.messages import Gone, HopAck, Route
from nearcast.overlay.nodes import Node
from nearcast.overlay.overlay import Rule, Send, Undeliverable
from nearcast.overlay.overlay_node import OverlayNode
from nearcast.overlay.own_nodes import OwnNodes
from nearcast.overlay.ring import Status

__all__ = ["Forwarder"]


class Forwarder:
    """One peer's part in the way of messages.

    Parameters
    ----------
    contacts
        Peers to ask while no own node is on the ring.
    arrive
        Takes a message whose target this own node is responsible for.
    """

    __slots__ = ("_arrive", "_contacts", "_context", "_own", "_pending")

    def __init__(
        self,
        context: Context,
        own: OwnNodes,
        contacts: Sequence[str],
        arrive: Callable[[OverlayNode, Route[Any]], None],
    ) -> None:
        self._context, self._own, self._contacts, self._arrive = context, own, contacts, arrive
        self._pending: dict[int, tuple[str, Node | None, Timer]] = {}

    def start(self, route: Route[Any], through: str = "") -> None:
        """Send an own message on its way; the first hop is to any node of `through`, if given."""
        if through:
            self._send_hop(through, None, route, 0, False, route.path)
            return
        if route.rule is Rule.LINEAR:
            members = [node.me for node in self._own.members()]
            route = replace(route, is_leftward=bool(members) and min(members) > route.target)
        self.forward(route)

    def on_route(self, sender: str, route: Route[Any]) -> None:
        """Take a message of another peer; without room for it no HopAck is sent."""
        if len(self._pending) >= self._context.params.pending_limit:
            self._context.counters["pending_full"] += 1
            return
        node = self._own.by_node.get(route.to) if route.to is not None else None
        if node is None and route.to is not None and not self._own.can_pass_on(route.to):
            self._context.out.append(Send(sender, Gone(route.hop)))
            return
        if node is not None and node.ring.status is Status.INS:
            if not node.hold(route):
                return
        else:
            self.forward(route)
        if route.hop:
            is_gone = node is None and route.to is not None
            self._context.out.append(Send(sender, HopAck(route.hop, is_gone)))

    def on_hop_ack(self, sender: str, hop: int, is_gone: bool) -> None:
        """End the wait for an acknowledgement."""
        pending = self._pending.get(hop)
        if pending is not None and pending[0] == sender:
            del self._pending[hop]
            _, to, timer = pending
            timer[2] = None
            if is_gone and to is not None:  # who has it passes it on; nothing more goes there
                self._context.suspect(to)

    def on_gone(self, sender: str, hop: int) -> None:
        """Take another way at once: the next node is not at its peer."""
        pending = self._pending.get(hop)
        if pending is not None and pending[0] == sender:
            timer = pending[2]
            call, arguments, timer[2] = timer[2], timer[3], None
            call(*arguments)

    def forward(self, route: Route[Any], tries: int = 0) -> None:
        """Deliver a message here, or send it to the next node."""
        node = self._own.responsible(route.target)
        if node is not None:
            if node.ring.status is Status.IN:
                self._arrive(node, route)
            elif not node.hold(route):
                self._give_up(route, "too many messages wait for a node that leaves")
            return
        if route.hops >= self._context.params.hop_limit:
            self._give_up(route, "hop limit")
        elif tries >= self._context.params.forward_tries:
            self._give_up(route, "no node on the way answers")
        else:
            self._send(route, tries)

    def _send(self, route: Route[Any], tries: int) -> None:
        to: Node | None = None
        is_leftward = False
        if route.is_leftward:
            to = self._own.next_leftward(route.target)
            is_leftward = to is not None
        if to is None:
            to = self._own.next_to(route.target)
        if to is None and route.to is not None:
            to = self._own.tombstones.get(route.to)
        if to is None:
            self._send_to_contact(route, tries)
        elif to.peer == self._context.peer:
            self._send_to_own(route, to, tries)
        else:
            path = route.path
            if self._context.params.trace and route.to is not None:
                path = (*path, route.to)
            self._send_hop(to.peer, to, route, tries, is_leftward, path)

    def _send_to_contact(self, route: Route[Any], tries: int) -> None:
        if not self._contacts:
            self._give_up(route, "no own node is on the ring, and no contact is known")
            return
        peer = self._contacts[tries % len(self._contacts)]
        self._send_hop(peer, None, route, tries, False, route.path)

    def _send_to_own(self, route: Route[Any], to: Node, tries: int) -> None:
        """Hand a message to an own node that joins; one that is gone will be repaired away."""
        node = self._own.by_node.get(to)
        if node is not None and node.ring.status is Status.INS and node.hold(replace(route, to=to)):
            return
        self._later(route, tries)

    def _send_hop(
        self,
        peer: str,
        to: Node | None,
        route: Route[Any],
        tries: int,
        is_leftward: bool,
        path: tuple[Node, ...],
    ) -> None:
        context = self._context
        hop = context.number()
        timer = context.after(context.params.reply_s, self._expire, hop, route, tries)
        self._pending[hop] = (peer, to, timer)
        sent: Route[Any] = Route(
            to, hop, route.origin, route.number, route.kind, route.target, route.payload,
            route.rule, route.hops + 1, is_leftward, path,
        )  # fmt: skip
        context.out.append(Send(peer, sent))

    def _expire(self, hop: int, route: Route[Any], tries: int) -> None:
        _, to, _ = self._pending.pop(hop)
        if to is None:
            self.forward(route, tries + 1)
            return
        was_suspected = self._context.is_suspected(to)
        self._context.suspect(to)
        for node in self._own.members():
            if node.ring.left == to:
                node.repair.start()
        if was_suspected:
            self._later(route, tries)
        else:
            self.forward(route, tries + 1)

    def _later(self, route: Route[Any], tries: int) -> None:
        """Try again when a repair may have been done."""
        self._context.after(self._context.params.repair_wait_s, self.forward, route, tries + 1)

    def _give_up(self, route: Route[Any], reason: str) -> None:
        self._context.counters["routes_given_up"] += 1
        self._context.out.append(
            Undeliverable(route.target[0], route.payload, route.origin, reason)
        )
