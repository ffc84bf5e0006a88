"""Who has an index of a flow's component: asked from the overlay, and remembered for a while.

Each server holds a key for each part that it has, in the cloud's segment of the component and in
those of the nets that messages came from. A wrong answer costs a detour: the server that is asked
knows better.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from nearcast.overlay.overlay import Found
from nearcast.routing.keys import (
    CLOUD,
    INDEX_END,
    SUBSCRIBER,
    Key,
    NetPath,
    fresh_unique_id,
    subscriber_key,
    target_of,
)
from nearcast.server.overlay_part import OverlayPart

__all__ = ["FlowFinder", "HeldPart"]

_KEEP_S = 10.0
"""How long an answer counts, also that nobody was found."""
_ASKED_PER_SEGMENT = 8
_ASKED_LIMIT = 1_024
_SEGMENT_LIMIT = 4_096
_RANGES_PER_SEGMENT = 1_024
_NET_LIMIT = 1_024
_ONE_NET_BIT = 1 << 61
"""A key for one net only comes after one for all nets at the same index: it is the exception."""

_Segment = tuple[str, NetPath]
"""A component's part of the ring: its topic there, and a net."""


class HeldPart(Protocol):
    """A range of indexes that a server has; `flow.messages.Part`."""

    @property
    def net(self) -> NetPath | None:
        """Of messages from this net only; None: of all nets."""
        ...

    @property
    def low(self) -> int:
        """Where it begins."""
        ...

    @property
    def high(self) -> int:
        """Where it ends, itself left out."""
        ...


class _Answer(NamedTuple):
    low: int
    high: int
    server: str | None
    until: float


def _topic_of(flow: str, component: str) -> str:
    return f"{flow}\x00{component}"


class FlowFinder:
    """A `flow.finder.Finder` by the overlay.

    It has no clock: what calls want done is done by `finish`, at the end of a server's pass.
    """

    def __init__(self, overlay: OverlayPart) -> None:
        self._overlay = overlay
        self._answers: dict[_Segment, list[_Answer]] = {}
        """By segment, by `low`; they do not overlap."""
        self._asked: dict[_Segment, dict[int, None]] = {}
        """Indexes that were asked for, without an answer."""
        self._to_ask: list[tuple[_Segment, int]] = []
        self._parts: dict[str, tuple[HeldPart, ...]] = {}
        self._nets: dict[str, dict[NetPath, None]] = {}
        self._keys: dict[str, dict[tuple[NetPath, int, bool], Key]] = {}
        self._changed: dict[str, None] = {}
        self._asked_limit = overlay.tables.add(
            "flow_questions", _ASKED_LIMIT, lambda: len(self._asked)
        )
        self._segment_limit = overlay.tables.add(
            "flow_answers", _SEGMENT_LIMIT, lambda: len(self._answers)
        )
        self._now = float("-inf")
        self.refused = 0
        """Questions that were not asked because those of too many segments had no answer."""

    def find(self, flow: str, component: str, net: NetPath, index: int) -> str | None:
        """Return the server that should have an index, if it is known; else begin to ask."""
        segment = (_topic_of(flow, component), net)
        known = self._known(segment, index)
        if known is not None and known.until > self._now:
            return known.server
        self._want(segment, index)
        return known.server if known is not None else None

    def _want(self, segment: _Segment, index: int) -> None:
        asked = self._asked.get(segment, {})
        # what is answered for one index counts for many: a burst asks a few only
        if index in asked or len(asked) >= _ASKED_PER_SEGMENT:
            return
        if len(self._asked) >= self._asked_limit:
            self.refused += 1
            return
        self._asked.setdefault(segment, {})[index] = None
        self._to_ask.append((segment, index))

    def hold(self, flow: str, component: str, parts: tuple[HeldPart, ...]) -> None:
        """Note all that this server holds of a component now."""
        topic = _topic_of(flow, component)
        self._parts[topic] = parts
        self._changed[topic] = None

    def meet(self, flow: str, component: str, net: NetPath) -> None:
        """Note that messages come from a net."""
        topic = _topic_of(flow, component)
        nets = self._nets.setdefault(topic, {})
        if net not in nets and len(nets) < _NET_LIMIT:
            nets[net] = None
            self._changed[topic] = None

    def finish(self, now: float) -> None:
        """End a pass: add and remove keys, and ask what is to be asked."""
        self._now = now
        changed, self._changed = self._changed, {}
        for topic in changed:
            self._hold(topic, now)
        to_ask, self._to_ask = self._to_ask, []
        for segment, index in to_ask:
            self._ask(segment, segment[1], index, now)

    def _hold(self, topic: str, now: float) -> None:
        parts, keys = self._parts.get(topic, ()), self._keys.setdefault(topic, {})
        wanted = {
            (net, part.low, part.net is not None): None
            for part in parts
            for net in ((CLOUD, *self._nets.get(topic, ())) if part.net is None else (part.net,))
        }
        # first the new ones: each index has an owner at all times
        for place in wanted:
            if place not in keys:
                net, low, is_one_net = place
                unique_id = fresh_unique_id(self._overlay.chance) >> 1
                unique_id |= _ONE_NET_BIT if is_one_net else 0
                key = subscriber_key(topic, net, low, unique_id)
                if self._overlay.add_key(key, now):
                    keys[place] = key
        for place in [one for one in keys if one not in wanted]:
            self._overlay.remove_key(keys.pop(place), now)
        if not parts:
            for table in (self._parts, self._nets, self._keys):
                table.pop(topic, None)

    def _ask(self, segment: _Segment, net: NetPath, index: int, now: float) -> None:
        topic = segment[0]

        def answered(found: Found | None, now: float) -> None:
            if found is not None and found.node.key[:3] == (topic, net, SUBSCRIBER):
                after = found.right.key
                high = after.index if after[:3] == (topic, net, SUBSCRIBER) else INDEX_END
                low = min(found.node.key.index, index)
                self._learn(segment, low, max(high, index + 1), index, found.node.peer, now)
            elif net != CLOUD:
                self._ask(segment, CLOUD, index, now)
            else:
                self._learn(segment, index, index + 1, index, None, now)

        self._overlay.lookup(target_of(topic, net, index), answered, now)

    def _known(self, segment: _Segment, index: int) -> _Answer | None:
        answers = self._answers.get(segment, ())
        at = bisect_right(answers, index, key=lambda one: one.low) - 1
        return answers[at] if at >= 0 and index < answers[at].high else None

    def _learn(
        self, segment: _Segment, low: int, high: int, index: int, server: str | None, now: float
    ) -> None:
        asked = self._asked.get(segment, {})
        asked.pop(index, None)
        if not asked:
            self._asked.pop(segment, None)
        answers = self._answers.pop(segment, [])
        kept = list(_without(answers, low, high, now))
        kept.append(_Answer(low, high, server, now + _KEEP_S))
        kept.sort()
        if len(kept) > _RANGES_PER_SEGMENT:
            kept = [_Answer(low, high, server, now + _KEEP_S)]
        self._answers[segment] = kept
        if len(self._answers) > self._segment_limit:
            del self._answers[next(iter(self._answers))]


def _without(answers: Iterable[_Answer], low: int, high: int, now: float) -> Iterable[_Answer]:
    """Yield what is known beside a range and not outdated."""
    for one in answers:
        if one.until > now:
            if one.low < low:
                yield one._replace(high=min(one.high, low))
            if one.high > high:
                yield one._replace(low=max(one.low, high))
