"""How a node's finger tables are built and kept: one step asks one finger for the next."""

from __future__ import annotations

from typing import Any

from nearcast.overlay.context import Context, Timer
from nearcast.overlay.fingers import Entry, FingerTables
from nearcast.overlay.messages import MAX_LEVELS, EntryAnswer, GetEntry
from nearcast.overlay.nodes import Node, is_between
from nearcast.overlay.ring import Ring, Status

__all__ = ["TableUpdates"]


class TableUpdates:
    """Zig-zag steps at once after joining, then one forward step in each period.

    N asks its finger Q at level p for Q's own finger at level p: that is N's at level p + 1. It
    is stored when it has answered itself (delayed update).
    """

    __slots__ = (
        "_context",
        "_fetched",
        "_fingers",
        "_is_joining",
        "_level",
        "_open",
        "_ring",
        "_timer",
    )

    def __init__(self, context: Context, ring: Ring, fingers: FingerTables) -> None:
        self._context, self._ring, self._fingers = context, ring, fingers
        self._is_joining = False
        self._level = 0
        self._open = {True: False, False: False}
        """By direction: whether the joining node has not gone round the ring yet."""
        self._fetched: dict[bool, Entry | None] = {True: None, False: None}
        self._timer: Timer | None = None

    def start_joining(self) -> None:
        """Build both tables now; then go on periodically."""
        if self._timer is not None:
            self._timer[2] = None
        self._is_joining = True
        self._level = 0
        self._open = {True: True, False: True}
        self._fetched = {True: None, False: None}
        self._step(True)

    def start_periodic(self) -> None:
        """Take one forward step in each period from now on."""
        self._is_joining = False
        self._level = 0
        self._fetched[True] = None
        self._wait()

    def _wait(self) -> None:
        period_s = self._context.params.finger_s
        wait_s = period_s * self._context.rng.uniform(0.9, 1.1)
        self._timer = self._context.after(wait_s, self._periodic)

    def _periodic(self) -> None:
        if self._ring.status is not Status.OUT:
            self._wait()
            self._step(True)

    # --- one step ---

    def _step(self, forward: bool) -> None:
        entry = self._newest(forward)
        self._fetched[forward] = None
        if entry is None:
            self._wrapped(forward, self._level + (self._level == 0))
        else:
            self._ask(forward, list(entry.nodes))

    def _newest(self, forward: bool) -> Entry | None:
        stored, fetched = self._fingers.get(forward, self._level), self._fetched[forward]
        if fetched is None or self._level == 0:
            return stored
        return stored if stored is not None and stored.fetched > fetched.fetched else fetched

    def _ask(self, forward: bool, nodes: list[Node]) -> None:
        context, me, level = self._context, self._ring.me, self._level
        while nodes and (nodes[0] == me or context.is_suspected(nodes[0])):
            nodes.pop(0)
        if not nodes:
            self._next(forward)
            return
        asked = nodes[0]
        request = context.request(
            asked,
            lambda answer: self._answered(forward, level, asked, answer),
            lambda: self._ask(forward, nodes[1:]) if level == self._level else None,
        )
        far = self._far(forward, level, asked)
        own = self._fingers.own_entry()
        context.send(asked, GetEntry(asked, request, me, forward, level, own, far))

    def _far(self, forward: bool, level: int, asked: Node) -> tuple[Node, ...]:
        """Return what passive update 2 tells: the other side's finger, if it does not pass Q."""
        if not self._is_joining:
            return ()
        # going forward, the backward finger of this level was fetched but has not answered yet
        entry = self._newest(False) if forward else self._fingers.get(True, level)
        if entry is None:
            return ()
        me, node = self._ring.me, entry.nodes[0]
        inside = is_between(asked, me, node) if not forward else is_between(node, me, asked)
        return entry.nodes if inside and node != asked else ()

    def on_get_entry(self, message: GetEntry[Any]) -> None:
        """Answer another node's step, and learn from it (passive updates)."""
        asker, level, forward = message.asker, message.level, message.forward
        fingers = self._fingers
        entry = fingers.get(forward, level)
        finger = () if entry is None else entry.nodes
        self._context.send(asker, EntryAnswer(asker, message.request, fingers.own_entry(), finger))
        own = message.own
        fingers.put(not forward, level, own if own[:1] == (asker,) else (asker,))
        fingers.add_reverse(asker)
        if message.far:
            if forward:
                fingers.add_reverse(message.far[0])
            else:
                fingers.put(True, level + 1, message.far)

    def _answered(self, forward: bool, level: int, asked: Node, answer: EntryAnswer[Any]) -> None:
        own = answer.own if answer.own[0] == asked else (asked,)
        self._fingers.put(forward, level, own)
        if level != self._level:
            return
        me, finger = self._ring.me, answer.finger
        wraps = not finger or finger[0] in (me, asked)
        if not wraps:
            start, end = (asked, finger[0]) if forward else (finger[0], asked)
            wraps = is_between(start, me, end)
        if wraps:
            self._wrapped(forward, level + 1)
        else:
            self._fetched[forward] = Entry(finger, self._context.now)
            self._next(forward)

    def _wrapped(self, forward: bool, level: int) -> None:
        """Go on after a direction went once round the ring: no finger at `level` or above."""
        self._fingers.truncate(level)
        self._open[forward] = False
        if self._is_joining:
            self._next(forward)
        else:
            self._level = 0

    def _next(self, forward: bool) -> None:
        if not self._is_joining:
            self._level = (self._level + 1) % MAX_LEVELS
            return
        if forward and self._open[False]:
            self._step(False)
            return
        self._level += 1
        if self._level >= MAX_LEVELS or not (self._open[True] or self._open[False]):
            self.start_periodic()
        elif self._open[True]:
            self._step(True)
        else:
            self._step(False)
