"""A peer of the Suzaku overlay: its nodes, and the ways of messages through it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from nearcast.overlay.context import Chance, Context
from nearcast.overlay.forwarding import Forwarder
from nearcast.overlay.lookups import Lookups
from nearcast.overlay.messages import (
    Answer,
    GetEntry,
    Gone,
    HopAck,
    RangeAnswer,
    RangeSend,
    Route,
    RouteKind,
)
from nearcast.overlay.multicast import Multicasts
from nearcast.overlay.nodes import Node, NodeOf, after_key
from nearcast.overlay.overlay import (
    Action,
    Delivered,
    Found,
    KeyAbandoned,
    KeyAdded,
    KeyRemoved,
    NotFound,
    Rule,
    Send,
)
from nearcast.overlay.overlay_node import OverlayNode
from nearcast.overlay.own_nodes import OwnNodes
from nearcast.overlay.params import SuzakuParams
from nearcast.overlay.ring import Status
from nearcast.overlay.seen import Seen

__all__ = ["SuzakuPeer"]


class SuzakuPeer:
    """The Overlay of one peer by DDLL and Suzaku.

    Parameters
    ----------
    peer
        Its id, by which others send to it.
    contacts
        Peers through which its first key joins; none: that key begins a ring.
    rng
        For nonces, numbers of requests and waits; numbers must not be guessed by others.
    """

    def __init__(
        self,
        peer: str,
        contacts: Sequence[str],
        rng: Chance,
        params: SuzakuParams | None = None,
    ) -> None:
        params = params or SuzakuParams()
        self._context = Context(peer, params, rng)
        self.own = OwnNodes(self._context)
        others = tuple(contact for contact in contacts if contact != peer)
        self._begins_ring = not others
        seen = Seen(params.seen_limit)
        self._seen = seen
        self._forwarder = Forwarder(self._context, self.own, others, self._arrive)
        self._lookups = Lookups(self._context, self._forwarder)
        self._multicasts = Multicasts(self._context, self.own, seen)

    @property
    def peer(self) -> str:
        """The peer's id."""
        return self._context.peer

    @property
    def nodes(self) -> Collection[Node]:
        """Own nodes that are on the ring."""
        return [node.me for node in self.own.members()]

    @property
    def counters(self) -> Counter[str]:
        """What was dropped, refused and repaired."""
        return self._context.counters

    # --- calls of the user ---

    def add_key(self, key: Any, now: float) -> list[Action]:
        """Begin to add a key."""
        self._begin(now)
        if key not in self.own.by_key:
            self._add(key, 0, [])
        return self._done()

    def remove_key(self, key: Any, now: float) -> list[Action]:
        """Begin to remove an own key."""
        self._begin(now)
        node = self.own.by_key.get(key)
        if node is not None:
            node.leave()
        return self._done()

    def route(self, target: Any, payload: Any, now: float, rule: Rule = Rule.RING) -> list[Action]:
        """Bring a payload to the node responsible for a key."""
        context = self._begin(now)
        number = context.number()
        self._forwarder.start(
            Route(
                None,
                0,
                context.peer,
                number,
                RouteKind.DELIVER,
                after_key(target),
                payload,
                rule,
                0,
            )
        )
        return self._done()

    def lookup(self, target: Any, now: float, rule: Rule = Rule.RING) -> tuple[int, list[Action]]:
        """Ask for the node responsible for a key."""
        context = self._begin(now)

        def answered(answer: Answer[Any] | None) -> None:
            if answer is None:
                context.out.append(NotFound(query, target))
            else:
                found = (answer.node, answer.right, answer.hops, answer.path)
                context.out.append(Found(query, target, *found))

        query = self._lookups.ask(after_key(target), rule, answered)
        return query, self._done()

    def multicast(self, low: Any, high: Any, payload: Any, now: float) -> tuple[int, list[Action]]:
        """Bring a payload to each node with its key in [low, high)."""
        self._begin(now)
        return self._multicasts.start(low, high, payload), self._done()

    def merge_through(self, peer: str, now: float) -> list[Action]:
        """Ask another peer for the node left of an own one: it may be on another ring.

        Rings that began apart, or were cut for long, become one when their peers do so by turns.
        """
        context = self._begin(now)
        members = list(self.own.members())
        if members:
            node = members[context.rng.getrandbits(32) % len(members)]

            def answered(answer: Answer[Any] | None) -> None:
                if answer is not None and answer.node != node.me:
                    node.heard_of(answer.node)

            key, own_peer, nonce = node.me
            self._lookups.ask((key, own_peer, nonce - 1), Rule.RING, answered, peer)
        return self._done()

    def on_peer_gone(self, peer: str, now: float) -> list[Action]:
        """Repair links to a peer now that has restarted without its nodes, or will not be back."""
        self._begin(now)
        for node in self.own.members():
            if node.ring.left.peer == peer:
                node.repair.start()
        return self._done()

    # --- events ---

    def on_message(self, sender: str, message: Any, now: float) -> list[Action]:
        """Take a message of another peer."""
        self._begin(now)
        self._take(sender, message)
        return self._done()

    def on_timer(self, now: float) -> list[Action]:
        """Do what is due."""
        self._begin(now)
        self._context.run_timers()
        return self._done()

    def next_wakeup(self) -> float:
        """Return when a timer is due."""
        return self._context.next_wakeup()

    def _begin(self, now: float) -> Context:
        # a clock that jumps back would make timers of one call due in another order
        self._context.now = max(now, self._context.now)
        return self._context

    def _done(self) -> list[Action]:
        context = self._context
        while context.local:
            self._take(context.peer, context.local.popleft())
        out, context.out = context.out, []
        return out

    def _take(self, sender: str, message: Any) -> None:
        kind = type(message)
        if kind is Route:
            self._forwarder.on_route(sender, message)
        elif kind is HopAck:
            self._forwarder.on_hop_ack(sender, message.hop, message.is_gone)
            self._multicasts.on_hop_ack(sender, message.hop)
        elif kind is Answer:
            self._lookups.on_answer(message)
        elif kind is RangeSend:
            self._multicasts.on_range(sender, message)
        elif kind is RangeAnswer:
            self._multicasts.on_answer(message)
        elif kind is Gone:
            self._forwarder.on_gone(sender, message.request)
            self._context.answer(sender, message.request, None)
        else:
            node = self.own.by_node.get(message.to)
            if node is not None:
                node.handle(sender, message)
            elif getattr(message, "asker", None) is not None and message.asker.peer == sender:
                self._context.send(message.asker, Gone(message.request))

    def _arrive(self, node: OverlayNode, route: Route[Any]) -> None:
        context, path = self._context, route.path
        if context.params.trace and route.to is not None:
            path = (*path, node.me)
        if route.kind is RouteKind.LOOKUP:
            answer: Answer[Any] = Answer(route.number, node.me, node.ring.right, route.hops, path)
            if route.origin == context.peer:
                context.local.append(answer)
            else:
                context.out.append(Send(route.origin, answer))
        elif self._seen.is_new((route.origin, route.number)):
            target, payload = route.target[0], route.payload
            context.out.append(Delivered(node.me, target, payload, route.origin, route.hops, path))

    # --- joining and leaving ---

    def _add(self, key: Any, tries: int, waiting: list[Any]) -> None:
        context = self._context
        me: Node = NodeOf(key, context.peer, context.rng.getrandbits(62))
        node = OverlayNode(context, me, self)
        node.join_tries, node.waiting = tries, waiting
        self.own.add(node)
        if self._begins_ring and len(self.own.by_node) == 1 and not tries:
            node.start_alone()
        else:
            self._look_for_place(node)

    def _look_for_place(self, node: OverlayNode) -> None:
        def answered(answer: Answer[Any] | None) -> None:
            if self.own.by_node.get(node.me) is not node or node.ring.status is not Status.OUT:
                return
            if answer is None or answer.node == node.me:
                self.refused(node, is_lost=True)
            else:
                node.ring.insert(answer.node, answer.right)

        node.join_tries += 1
        self._lookups.ask(node.me, Rule.RING, answered)

    def joined(self, node: OverlayNode) -> None:
        """Tell the user, and handle what waited."""
        if node.join_tries >= 0:
            node.join_tries = -1
            self._context.out.append(KeyAdded(node.me))
        self._release(node)

    def refused(self, node: OverlayNode, is_lost: bool) -> None:
        """Try again after a wait; as another node if the insertion may be half done."""
        context = self._context
        if node.join_tries >= context.params.join_tries:
            self.own.remove(node)
            reason = "no answer" if is_lost else "refused by its neighbours"
            context.counters["joins_abandoned"] += 1
            context.out.append(KeyAbandoned(node.me.key, f"{reason}, {node.join_tries} times"))
            self._release(node)
            return
        wait_s = context.params.join_wait_s * context.rng.uniform(1, 2) * 1.5**node.join_tries
        if is_lost:
            self.own.remove(node)
            context.after(wait_s, self._add_again, node)
        else:
            context.after(wait_s, self._look_for_place, node)

    def _add_again(self, node: OverlayNode) -> None:
        if node.me.key not in self.own.by_key:
            self._add(node.me.key, node.join_tries, node.waiting)

    def left_ring(self, node: OverlayNode) -> None:
        """Keep a tombstone, tell the user, and re-route what waited."""
        self.own.remove(node)
        context = self._context
        self.own.tombstones[node.me] = node.ring.left
        context.after(context.params.tombstone_s, self.own.forget, node.me)
        context.out.append(KeyRemoved(node.me))
        self._release(node)

    def _release(self, node: OverlayNode) -> None:
        waiting, node.waiting = node.waiting, []
        for message in waiting:
            if type(message) is Route:
                self._forwarder.forward(message)
            elif type(message) is RangeSend:
                self._multicasts.spread(message)
            elif type(message) is GetEntry:  # its sender was checked when it came
                node.handle(message.asker.peer, message)
