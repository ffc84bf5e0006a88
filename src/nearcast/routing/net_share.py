"""A component's share of one net: what it holds, and what replicas hold for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nearcast.routing.holdings import Holding, Holdings
from nearcast.routing.keys import Key

__all__ = ["Delegation", "DelegationState", "NetShare"]


class DelegationState(StrEnum):
    """How far a split or merge is."""

    SEARCHING = "searching"
    """For a node that takes the replica."""
    SPLITTING = "splitting"
    """The key at the split point is on its way in; the original still owns everything."""
    GIVING = "giving"
    """The replica was asked to put its key in: that is when the range changes hands."""
    GIVEN = "given"
    RETURNING = "returning"
    """The original's keys are on their way in: that is when the range comes back."""
    LEAVING = "leaving"
    """The replica takes its keys out."""


@dataclass(slots=True)
class Delegation:
    """A range on its way to a replica, with it, or on its way back."""

    number: int
    low: int
    high: int
    """The split point."""
    unique_id: int
    """Of the replica's key: above the original's, so that its insertion is the one switch."""
    replica: str
    state: DelegationState
    deadline_s: float
    """Until when the next step, or a renewal, has to come."""
    tries: int = 0
    returning: list[Key] = field(default_factory=list)
    """Keys that still have to go in before the range is back."""
    unheard: set[int] = field(default_factory=set)
    """Adopted delegations whose replicas still have to say that they know whom they work for."""
    superseded: list[Key] = field(default_factory=list)
    """Own keys to take out then."""
    is_cancelled: bool = False
    """The range is taken back from a replica that does not answer."""


@dataclass(slots=True)
class NetShare:
    """What a component has to do with one net."""

    holdings: Holdings = field(default_factory=Holdings)
    delegations: dict[int, Delegation] = field(default_factory=dict)

    def given(self, index: int) -> Delegation | None:
        """Return the delegation that has an index."""
        return next(
            (
                one
                for one in self.delegations.values()
                if one.low <= index < one.high and one.state is DelegationState.GIVEN
            ),
            None,
        )

    def offered_holding(self, delegation: Delegation) -> Holding | None:
        """Return the own range that a replica is about to take."""
        found = self.holdings.find(delegation.low)
        return found if found is not None and found.is_offered else None
