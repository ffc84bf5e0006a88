"""What an overloaded server gives away: about half the work of its busiest instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from nearcast.flow.messages import Part
from nearcast.routing.keys import CLOUD, NetPath

__all__ = ["InstanceLoad", "Shed", "Splits", "choose_shed"]


class Splits(StrEnum):
    """How the indexes of a component may be divided among servers."""

    ANYWHERE = "anywhere"
    """It keeps no state: also those of one net only."""
    ALL_NETS = "all nets"
    """Its state can be split by content."""
    WHOLE = "whole"
    """Its state cannot be split: it moves as one."""


@dataclass(frozen=True, slots=True)
class InstanceLoad:
    """What an instance did since the last time."""

    flow: str
    component: str
    began_at: str
    """Where the component began; empty: here."""
    splits: Splits
    busy_share: float
    """Of a core."""
    queue_age_s: float
    """How long its oldest message waits."""
    held: Sequence[Part]
    recent: Sequence[tuple[NetPath, int]]
    """Net and index of messages that came last."""
    is_hosted: bool = False
    """Whether its processor runs outside the server's loop, which is none the busier."""


@dataclass(frozen=True, slots=True)
class Shed:
    """A part to be given away, and the net that most of its messages come from."""

    flow: str
    component: str
    part: Part
    net: NetPath
    why: str


def choose_shed(instances: Sequence[InstanceLoad]) -> Shed | None:
    """Return what to give away; None when nothing can be divided, or would only move the load."""
    by_load = sorted(instances, key=lambda one: (one.busy_share, one.queue_age_s), reverse=True)
    for one in by_load:
        if one.splits is Splits.WHOLE:
            shed = _whole(one) if len(instances) > 1 else None
        else:
            shed = _half(one)
        if shed is not None:
            return shed
    return None


def _whole(one: InstanceLoad) -> Shed | None:
    if len(one.held) != 1 or one.held[0].net is not None:
        return None
    net, _ = _main_net(one.recent)
    return Shed(one.flow, one.component, one.held[0], net, _why(one, "it cannot be split"))


def _half(one: InstanceLoad) -> Shed | None:
    """Return the lower part of the busiest range, up to the median of its messages."""
    net, share = _main_net(one.recent)
    by_part = Counter(
        part for sender, index in one.recent if (part := _covering(one.held, sender, index))
    )
    for part, _ in by_part.most_common():
        indexes = sorted(i for sender, i in one.recent if _covering(one.held, sender, i) == part)
        if one.splits is Splits.ANYWHERE and part.net is None and net != CLOUD and share > 0.5:
            indexes = [i for sender, i in one.recent if sender == net and part.low <= i < part.high]
            indexes.sort()
            given = _below_median(Part(net, part.low, part.high), indexes)
        else:
            given = _below_median(part, indexes)
        if given is not None:
            return Shed(one.flow, one.component, given, net, _why(one, "half of its messages"))
    return None


def _below_median(part: Part, indexes: Sequence[int]) -> Part | None:
    """Return the lower half; None when all messages have one index, which only moves them."""
    if not indexes:
        return None
    split_at = indexes[len(indexes) // 2]
    if split_at == indexes[0]:  # many have the least index: give these alone
        split_at += 1
        if indexes[-1] < split_at:
            return None
    return Part(part.net, part.low, split_at) if part.low < split_at < part.high else None


def _covering(held: Sequence[Part], net: NetPath, index: int) -> Part | None:
    for part in held:
        if part.low <= index < part.high and part.net in (None, net):
            return part
    return None


def _main_net(recent: Sequence[tuple[NetPath, int]]) -> tuple[NetPath, float]:
    """Return the net that most messages come from, and their share."""
    if not recent:
        return CLOUD, 0.0
    net, count = Counter(net for net, _ in recent).most_common(1)[0]
    return net, count / len(recent)


def _why(one: InstanceLoad, what: str) -> str:
    return f"{one.busy_share:.0%} of a core, messages wait {one.queue_age_s:.2f} s: {what}"
