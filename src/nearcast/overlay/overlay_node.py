"""One own key on the ring: its links, their repair, its finger tables, and what waits for it."""

from __future__ import annotations

from typing import Any, Protocol

from nearcast.overlay.context import Context
from nearcast.overlay.fingers import FingerTables
from nearcast.overlay.messages import (
    Candidates,
    EntryAnswer,
    GetCandidates,
    GetEntry,
    Gone,
    Message,
    Propagate,
    RemoveEntry,
    RemoveReverse,
    SetL,
    SetR,
    SetRAck,
    SetRNak,
)
from nearcast.overlay.nodes import Node, is_between, passes
from nearcast.overlay.repair import Repair, candidates_between
from nearcast.overlay.ring import Ring, Status
from nearcast.overlay.table_updates import TableUpdates

__all__ = ["NodeUser", "OverlayNode"]


class NodeUser(Protocol):
    """The peer that owns the node."""

    def joined(self, node: OverlayNode) -> None:
        """Hear that it is on the ring."""

    def refused(self, node: OverlayNode, is_lost: bool) -> None:
        """Hear that it could not be inserted where it tried to."""

    def left_ring(self, node: OverlayNode) -> None:
        """Hear that it is off the ring."""


class OverlayNode:
    """A node with all its parts; it implements what its ring reports to."""

    __slots__ = (
        "_context", "_user", "_wants_to_leave", "_was_alone", "fingers", "join_tries", "me",
        "repair", "ring", "updates", "waiting",
    )  # fmt: skip

    def __init__(self, context: Context, me: Node, user: NodeUser) -> None:
        self._context, self.me, self._user = context, me, user
        self.ring = Ring(context, me, self)
        self.fingers = FingerTables(context, self.ring)
        self.updates = TableUpdates(context, self.ring, self.fingers)
        self.repair = Repair(context, self.ring, self.fingers.known, self._repaired)
        self.waiting: list[Message[Any]] = []
        """What cannot be answered while the node joins or leaves."""
        self.join_tries = 0
        self._wants_to_leave = False
        self._was_alone = False
        """Whether it has no tables, because it was the only node of its ring until now."""

    def handle(self, sender: str, message: Any) -> None:
        """Take a message for this node; what it claims of its sender is checked."""
        asker = getattr(message, "asker", None)
        if asker is not None and (asker.peer != sender or asker == self.me):
            self._context.counters["unsound_messages"] += 1
            return
        match message:
            case GetEntry():
                self._on_get_entry(message)
            case EntryAnswer() | Candidates() | SetRAck() | SetRNak():
                self._context.answer(sender, message.request, message)
            case GetCandidates():
                self._on_get_candidates(message)
            case SetR():
                self.ring.on_set_right(message)
            case SetL():
                self.ring.on_set_left(message)
            case Propagate():
                self.ring.on_propagate(message)
            case RemoveReverse() if message.node.peer == sender:
                self.fingers.reverse.discard(message.node)
            case RemoveEntry() if message.replacement[0].peer == sender:
                self.fingers.replace(message.leaver, message.replacement, message.is_remembered)

    def hold(self, message: Message[Any]) -> bool:
        """Keep a message until the node has joined or left; False if there is no room."""
        if len(self.waiting) >= self._context.params.buffer_limit:
            self._context.counters["buffer_full"] += 1
            return False
        self.waiting.append(message)
        return True

    def start_alone(self) -> None:
        """Be the first node of the ring."""
        self.ring.start_alone()
        self._user.joined(self)
        self.updates.start_periodic()
        self._ping_later()

    def heard_of(self, node: Node) -> None:
        """Take a node left of this one that another ring has: a repair makes both rings one."""
        if is_between(self.ring.left, node, self.me):
            self._was_alone = self._was_alone or self.ring.right == self.me
            self.repair.start((node,))

    def leave(self) -> None:
        """Leave the ring as soon as that can be done."""
        self._wants_to_leave = True
        self._try_to_leave()

    def _try_to_leave(self) -> None:
        if self.ring.status is Status.IN and not self.repair.is_running:
            self.ring.leave()

    # --- what the ring reports ---

    def joined(self) -> None:
        """Build the tables; pings begin."""
        self._user.joined(self)
        self.updates.start_joining()
        self._ping_later()
        if self._wants_to_leave:
            self._try_to_leave()

    def refused(self, is_lost: bool) -> None:
        """Let the peer try again."""
        self._user.refused(self, is_lost)

    def left_ring(self) -> None:
        """Tell the peer."""
        self._user.left_ring(self)

    def leave_failed(self, is_lost: bool) -> None:
        """Try again after a random wait; a silent left node first needs a repair."""
        if is_lost:
            self.repair.start()
        wait_s = self._context.params.join_wait_s * self._context.rng.uniform(1, 2)
        self._context.after(wait_s, self._try_to_leave)
        self._user.joined(self)

    def right_changed(self) -> None:
        """Keep the reverse pointers outside the new right neighbour."""
        self.fingers.prune_reverse()

    def reverse_pointers(self) -> tuple[Node, ...]:
        """Return who points here."""
        return tuple(self.fingers.reverse)

    def right_left(self, leaver: Node, reverse: tuple[Node, ...]) -> None:
        """Take the place of the right node in the tables of those that point at it."""
        entry = self.fingers.own_entry()
        self.fingers.replace(leaver, entry)
        for node in reverse[: self._context.params.reverse_limit]:
            if node not in (self.me, leaver) and not passes(self.me, node, leaver):
                is_remembered = self.fingers.add_reverse(node)
                self._context.send(node, RemoveEntry(node, leaver, entry, is_remembered))

    # --- pings ---

    def _ping_later(self) -> None:
        period_s = self._context.params.ping_s
        self._context.after(period_s * self._context.rng.uniform(0.9, 1.1), self._ping)

    def _ping(self) -> None:
        if self.ring.status is not Status.OUT:
            self._ping_later()
            self.repair.start()

    def _repaired(self) -> None:
        if self._was_alone and self.ring.right != self.me:
            self._was_alone = False
            self.updates.start_joining()
        if self._wants_to_leave:
            self._try_to_leave()

    # --- messages ---

    def _on_get_candidates(self, message: GetCandidates[Any]) -> None:
        ring, asker = self.ring, message.asker
        known = candidates_between(self.me, asker, self.fingers.known())
        is_member = ring.status in (Status.IN, Status.DEL)
        right = self.me if ring.status is Status.OUT else ring.right
        self._context.send(
            asker, Candidates(asker, message.request, is_member, known, right, ring.rseq)
        )

    def _on_get_entry(self, message: GetEntry[Any]) -> None:
        if self.ring.status is Status.INS:
            self.hold(message)
        elif self.ring.status is Status.OUT:
            self._context.send(message.asker, Gone(message.request))
        else:
            self.updates.on_get_entry(message)
