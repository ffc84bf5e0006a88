"""One node's links on the ring: DDLL, a doubly linked list that needs no locks.

The ring is what the right pointers say; left pointers are hints that lag behind. A change happens
when the node left of it accepts a SetR, which is a compare-and-swap on its right pointer. Link
sequence numbers tell a newer left pointer from an older one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

from nearcast.overlay.context import Context
from nearcast.overlay.messages import LinkChange, Propagate, SetL, SetR, SetRAck, SetRNak
from nearcast.overlay.neighbours import neighbour_set
from nearcast.overlay.nodes import (
    FIRST_SEQ,
    LinkSeq,
    Node,
    is_between,
    next_seq,
    passes,
)

__all__ = ["Ring", "RingUser", "Status"]

_SETR_TRIES = 3
_MEMOS = 8
_HIGHEST = 2**62
"""No honest link gets such a number; one that does could not be raised further."""


class Status(StrEnum):
    """How far a node is on or off the ring."""

    OUT = "out"
    INS = "ins"
    """It asks to be inserted; it may be on the ring already."""
    IN = "in"
    DEL = "del"
    """It asks to be deleted; it may be off the ring already. Its right pointer is frozen."""


class RingUser(Protocol):
    """What stands above a node's links and hears of their changes; the node calls each method."""

    def joined(self) -> None:
        """Hear that the node is on the ring."""

    def refused(self, is_lost: bool) -> None:
        """Hear that the insertion failed; `is_lost`: no answer, so it may be half done."""

    def left_ring(self) -> None:
        """Hear that the node is off the ring."""

    def leave_failed(self, is_lost: bool) -> None:
        """Hear that the node stays on the ring; `is_lost`: the left node is silent."""

    def right_changed(self) -> None:
        """Hear that the right pointer is another one."""

    def right_left(self, leaver: Node, reverse: tuple[Node, ...]) -> None:
        """Hear that the right node left, and who points at it."""

    def reverse_pointers(self) -> tuple[Node, ...]:
        """Return who points at this node, for the one that replaces it."""


class Ring:
    """Links of one node."""

    __slots__ = (
        "_accepted", "_context", "_sent", "_tries", "_user", "left", "lseq", "me", "neighbours",
        "right", "rseq", "status",
    )  # fmt: skip

    def __init__(self, context: Context, me: Node, user: RingUser) -> None:
        self._context, self.me, self._user = context, me, user
        self.status = Status.OUT
        self.left = self.right = me
        self.lseq = self.rseq = FIRST_SEQ
        self.neighbours: tuple[Node, ...] = ()
        """Left nodes, nearest first."""
        self._sent: tuple[Node, tuple[Node, ...]] | None = None
        self._accepted: dict[tuple[Node, int], SetRAck[Any]] = {}
        self._tries = 0

    # --- insertion ---

    def start_alone(self) -> None:
        """Be the first node of a ring."""
        self.status = Status.IN

    def insert(self, left: Node, right: Node) -> None:
        """Ask to be put between two neighbours."""
        self.status = Status.INS
        self.left, self.right = left, right
        self._tries = 0
        self._ask_insert()

    def _ask_insert(self) -> None:
        left, right = self.left, self.right

        def answered(answer: SetRAck[Any] | SetRNak[Any]) -> None:
            if isinstance(answer, SetRAck):
                self.rseq = answer.rseq
                if not self.neighbours:
                    self.neighbours = self._checked((left, *answer.neighbours))
                self.status = Status.IN
                self._user.joined()
            elif (
                answer.left == left
                and answer.right is not None
                and is_between(left, self.me, answer.right)
                and self._may_retry()
            ):
                self.right = answer.right
                self._ask_insert()
            else:
                self.status = Status.OUT
                self._user.refused(is_lost=False)

        def failed() -> None:
            self.status = Status.OUT
            self._user.refused(is_lost=True)

        self._ask(left, LinkChange.INSERT, self.me, right, self.lseq, (), answered, failed)

    def _may_retry(self) -> bool:
        self._tries += 1
        return self._tries < self._context.params.join_tries

    # --- deletion ---

    def leave(self) -> None:
        """Ask to be taken off the ring; the node has to be IN."""
        if self.right == self.me:
            self._out()
            return
        self.status = Status.DEL

        def answered(answer: SetRAck[Any] | SetRNak[Any]) -> None:
            if isinstance(answer, SetRAck):
                self._out()
            else:
                self.status = Status.IN
                self._user.leave_failed(is_lost=False)

        def failed() -> None:
            self.status = Status.IN
            self._user.leave_failed(is_lost=True)

        reverse = self._user.reverse_pointers()
        seq = next_seq(self.rseq)
        self._ask(self.left, LinkChange.DELETE, self.right, self.me, seq, reverse, answered, failed)

    def _out(self) -> None:
        self.status = Status.OUT
        self._user.left_ring()

    # --- changes of the right link ---

    def ask_repair(
        self, change: LinkChange, left: Node, rcur: Node, answered: Any, failed: Any
    ) -> None:
        """Ask a node to be the left neighbour, under the number that `lseq` has now."""
        self._ask(left, change, self.me, rcur, self.lseq, (), answered, failed)

    def _ask(
        self,
        to: Node,
        change: LinkChange,
        rnew: Node,
        rcur: Node,
        seq: LinkSeq,
        reverse: tuple[Node, ...],
        answered: Any,
        failed: Any,
    ) -> None:
        """Send a SetR; the same one again when no answer comes, as the first may count already."""
        context = self._context
        tries = 0
        first = 0

        def attempt() -> None:
            nonlocal tries, first
            tries += 1
            if tries > _SETR_TRIES:
                failed()
                return
            request = context.request(to, answered, attempt, again=first)
            first = first or request
            context.send(to, SetR(to, request, self.me, change, rnew, rcur, seq, reverse))

        attempt()

    def on_set_right(self, message: SetR[Any]) -> None:
        """Accept a change of the right link, or refuse it."""
        asker, request, rnew = message.asker, message.request, message.rnew
        memo = self._accepted.get((asker, request))
        if memo is not None:
            self._context.send(asker, memo)
        elif not self._is_sound(message):
            self._context.counters["unsound_messages"] += 1
        elif self.status is not Status.IN or self.right != message.rcur:
            self._refuse(message)
        else:
            old, old_right = self.rseq, self.right
            self.right, self.rseq = rnew, message.rnewseq
            if message.change in (LinkChange.INSERT, LinkChange.REPAIR_BOTH):
                given = next_seq(old)
                self._set_left_of(old_right, rnew, given, (rnew, self.me, *self.neighbours))
            else:
                given = message.rnewseq
                if message.change is LinkChange.DELETE:
                    self._set_left_of(rnew, self.me, given, (self.me, *self.neighbours))
            near = self._set_for(asker, (self.me, *self.neighbours))
            ack: SetRAck[Any] = SetRAck(asker, request, given, near)
            self._remember((asker, request), ack)
            self._context.send(asker, ack)
            self._user.right_changed()
            if message.change is LinkChange.DELETE:
                self._user.right_left(asker, message.reverse)

    def _is_sound(self, message: SetR[Any]) -> bool:
        """Return whether an honest node can ask for this."""
        asker, rnew, rcur = message.asker, message.rnew, message.rcur
        if not self._is_low(message.rnewseq) or asker == self.me:
            return False
        if message.change is LinkChange.DELETE:
            return asker == rcur != rnew and passes(rcur, rnew, self.me)
        if message.change is LinkChange.INSERT and not is_between(self.me, rnew, rcur):
            return False
        return asker == rnew

    def _refuse(self, message: SetR[Any]) -> None:
        left: Node | None = None
        right: Node | None = None
        if self.status in (Status.IN, Status.DEL) and message.change is LinkChange.INSERT:
            if passes(self.me, message.rnew, self.right):
                left, right = self.me, self.right
            else:
                left, right = self.right, message.rcur
        self._context.send(message.asker, SetRNak(message.asker, message.request, left, right))

    def _remember(self, what: tuple[Node, int], ack: SetRAck[Any]) -> None:
        if len(self._accepted) >= _MEMOS:
            del self._accepted[next(iter(self._accepted))]
        self._accepted[what] = ack

    # --- changes of the left link ---

    def on_set_left(self, message: SetL[Any]) -> None:
        """Take a newer left link."""
        if message.seq <= self.lseq or self.status is Status.OUT:
            return
        if (message.lnew == self.me and self.right != self.me) or not self._is_low(message.seq):
            self._context.counters["unsound_messages"] += 1
            return
        self.left, self.lseq = message.lnew, message.seq
        self.neighbours = self._checked((message.lnew, *message.neighbours))
        self._propagate(message.lnew)

    def on_propagate(self, message: Propagate[Any]) -> None:
        """Take the left nodes that the left neighbour told."""
        if self.status is Status.OUT or message.neighbours[:1] != (self.left,):
            return
        self.neighbours = self._checked(message.neighbours)
        self._propagate(message.limit)

    def relink_left(self, left: Node, lseq: LinkSeq) -> None:
        """Take a left node that a repair found."""
        self.left, self.lseq = left, lseq
        self.neighbours = self._checked((left, *self.neighbours))

    def take_right(self, right: Node, rseq: LinkSeq) -> None:
        """Take the right node of the left one, which had skipped this node."""
        self.right, self.rseq = right, rseq
        self._user.right_changed()

    def be_alone(self, seq: LinkSeq) -> None:
        """Be the only node of the ring: all others are silent."""
        self.left = self.right = self.me
        self.lseq = self.rseq = seq
        self.neighbours = ()
        self._user.right_changed()

    def _set_left_of(self, to: Node, lnew: Node, seq: LinkSeq, walk: tuple[Node, ...]) -> None:
        self._context.send(to, SetL(to, lnew, seq, self._set_for(to, walk)))

    def _set_for(self, node: Node, walk: tuple[Node, ...]) -> tuple[Node, ...]:
        return neighbour_set(walk, node, self._context.params.neighbours)

    def _checked(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return neighbour_set(nodes, self.me, self._context.params.neighbours)

    def _propagate(self, limit: Node) -> None:
        right = self.right
        if right in (self.me, limit) or self.status is not Status.IN:
            return
        told = (right, self._set_for(right, (self.me, *self.neighbours)))
        if told != self._sent:
            self._sent = told
            self._context.send(right, Propagate(right, told[1], limit))

    @staticmethod
    def _is_low(seq: LinkSeq) -> bool:
        return seq.repair < _HIGHEST and seq.seq < _HIGHEST
