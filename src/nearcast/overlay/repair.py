"""A node checks and repairs its left link, and that one only: DDLL's answer to failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nearcast.overlay.context import Context
from nearcast.overlay.messages import Candidates, GetCandidates, LinkChange, SetRAck, SetRNak
from nearcast.overlay.nodes import (
    LinkSeq,
    Node,
    closest_before,
    is_between,
    passes,
    repaired_seq,
)
from nearcast.overlay.ring import Ring, Status

__all__ = ["Repair", "candidates_between"]

_TOLD = 8
"""Candidates in one answer."""
_MOST_HEARD = 64
_MOST_SILENT = 8


def candidates_between(me: Node, asker: Node, known: Iterable[Node]) -> tuple[Node, ...]:
    """Return the known nodes from this one to the asker, nearest to the asker first."""
    inside = sorted(
        {node for node in known if is_between(me, node, asker)},
        key=lambda node: (node < asker, node),
        reverse=True,
    )
    return tuple(inside[:_TOLD])


class Repair:
    """The search for the closest live left node, and what follows from its answer.

    Parameters
    ----------
    known
        Returns all nodes that this one knows, suspected ones too.
    ended
        Called whenever a run ends.
    """

    __slots__ = (
        "_context", "_ended", "_heard", "_joining", "_known", "_lseq", "_passed_over", "_ring",
        "_silent_ones", "is_running",
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        ring: Ring,
        known: Callable[[], Iterable[Node]],
        ended: Callable[[], None],
    ) -> None:
        self._context, self._ring, self._known, self._ended = context, ring, known, ended
        self.is_running = False
        self._heard: set[Node] = set()
        self._passed_over: set[Node] = set()
        self._joining: set[Node] = set()
        """Nodes that want to be left of this one: their left node may have taken them already."""
        self._silent_ones: dict[Node, None] = {}
        """The last left nodes that did not answer: after a cut they are the way back."""
        self._lseq: LinkSeq = ring.lseq

    def start(self, heard: Iterable[Node] = ()) -> None:
        """Check the left link now, unless that is under way; `heard` are more candidates."""
        if not self.is_running and self._ring.status is Status.IN:
            self.is_running = True
            self._search(heard)

    def _end(self) -> None:
        self.is_running = False
        self._heard.clear()
        self._passed_over.clear()
        self._joining.clear()
        self._ended()

    def _search(self, heard: Iterable[Node] = ()) -> None:
        if self._ring.status is not Status.IN:
            self._end()
            return
        self._lseq = self._ring.lseq
        self._heard = set(heard)
        self._passed_over, self._joining = set(), set()
        for node in (*reversed(self._ring.neighbours), self._ring.left):
            if self._context.is_suspected(node):
                self._remember_silent(node)
        self._ask_nearest()

    def _remember_silent(self, node: Node) -> None:
        self._silent_ones.pop(node, None)
        self._silent_ones[node] = None
        if len(self._silent_ones) > _MOST_SILENT:
            del self._silent_ones[next(iter(self._silent_ones))]

    def _ask_nearest(self) -> None:
        nearest = self._nearest()
        if nearest is None:
            self._alone()
            return
        request = self._context.request(
            nearest,
            lambda answer: self._answered(nearest, answer),
            lambda: self._silent(nearest),
        )
        self._context.send(nearest, GetCandidates(nearest, request, self._ring.me))

    def _nearest(self) -> Node | None:
        usable = (
            node
            for node in (*self._known(), *self._heard, *self._silent_ones)
            if node not in self._passed_over and not self._context.is_suspected(node)
        )
        return closest_before(self._ring.me, usable)

    def _silent(self, node: Node) -> None:
        # a left node that leaves meanwhile changes lseq: what was collected until then is stale
        self._passed_over.add(node)
        self._remember_silent(node)
        if self._ring.lseq != self._lseq:
            self._search()
        else:
            self._ask_nearest()

    def _answered(self, node: Node, answer: Candidates[Any]) -> None:
        if self._ring.lseq != self._lseq or self._ring.status is not Status.IN:
            self._search()
            return
        self._silent_ones.pop(node, None)
        self._heard.add(node)
        if not answer.is_member:
            self._passed_over.add(node)
            if answer.right == self._ring.me:
                self._joining.add(node)
        for told in answer.nodes:
            if len(self._heard) < _MOST_HEARD and is_between(node, told, self._ring.me):
                self._heard.add(told)
        if answer.is_member and self._nearest() == node:
            self._compare(node, answer.right, answer.rseq)
        else:
            self._ask_nearest()

    def _compare(self, left: Node, its_right: Node, its_rseq: LinkSeq) -> None:
        ring, me = self._ring, self._ring.me
        if ring.left == left and its_right == me and its_rseq == ring.lseq:
            self._end()
            return
        if its_right in self._joining:  # it is on the ring and will hear so: nothing is wrong
            self._again()
            return
        self._context.counters["repairs"] += 1
        ring.relink_left(left, repaired_seq(ring.lseq))
        skipped_me = (
            its_right != me
            and not is_between(left, its_right, me)
            and passes(me, its_right, ring.right)
        )
        change = LinkChange.REPAIR_BOTH if skipped_me else LinkChange.REPAIR_LEFT

        def answered(answer: SetRAck[Any] | SetRNak[Any]) -> None:
            if isinstance(answer, SetRNak):
                self._again()
                return
            if skipped_me and passes(me, its_right, ring.right):
                ring.take_right(its_right, answer.rseq)
            self._end()

        ring.ask_repair(change, left, its_right, answered, self._again)

    def _again(self) -> None:
        self._context.after(self._context.params.repair_wait_s, self._search)

    def _alone(self) -> None:
        """Every node that was known is silent."""
        ring = self._ring
        if ring.left != ring.me or ring.right != ring.me:
            self._context.counters["repairs"] += 1
            ring.be_alone(repaired_seq(ring.lseq))
        self._end()
