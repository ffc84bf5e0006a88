"""What a made-up network does to what travels through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

__all__ = ["DelayOf", "Network"]

DelayOf = Callable[[str, str], float]


@dataclass(slots=True)
class Network:
    """What may happen between two machines."""

    loss: float = 0.0
    duplication: float = 0.0
    jitter_s: float = 0.0
    delay_s: DelayOf = lambda _from, _to: 0.001
    """By sender and receiver: ids of clients and servers."""
    keeps_frame_order: bool = False
    """Whether frames between two servers arrive in the order in which they were sent, as on their
    links, which are TCP; otherwise jitter lets them overtake each other."""
    cuts: set[frozenset[str]] = field(default_factory=set)
    """Pairs that cannot reach each other."""
    one_way_cuts: set[tuple[str, str]] = field(default_factory=set)
    """Senders with receivers that they cannot reach; answers would arrive."""
    offline: set[str] = field(default_factory=set)
    """Machines that reach nobody."""

    def arrivals(self, sender: str, receiver: str, rng: Random) -> list[float]:
        """Return after how many seconds each copy of what is sent arrives; empty: it is lost."""
        if (
            (sender, receiver) in self.one_way_cuts
            or (self.cuts and frozenset((sender, receiver)) in self.cuts)
            or sender in self.offline
            or receiver in self.offline
        ):
            return []
        copies = 1 + (rng.random() < self.duplication)
        return [
            self.delay_s(sender, receiver) + self.jitter_s * rng.random()
            for _ in range(copies)
            if rng.random() >= self.loss
        ]

    def heal(self) -> None:
        """End all cuts."""
        self.cuts.clear()
        self.one_way_cuts.clear()
        self.offline.clear()
