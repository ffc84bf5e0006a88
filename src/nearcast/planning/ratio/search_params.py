"""How long and how to search."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.errors import ConfigError

__all__ = ["SearchParams"]


@dataclass(frozen=True, slots=True)
class SearchParams:
    """How long and how to search.

    With `iterations` (or neither limit) the result depends on the seed alone; a time limit
    makes it depend on the machine.
    """

    iterations: int | None = None
    """Moves to look at, rounded up to whole sweeps over the clients."""
    time_limit_s: float | None = None
    """Seconds for everything, set-up included; ends the search even before `iterations`."""
    seed: int = 0
    hot: float = 0.5
    """First temperature, in units of a typical client's detour to the next server."""
    cold: float = 0.03
    """Last temperature, in the same unit."""
    group_chance: float = 0.01
    """Share of moves that take all members of a topic at a server along."""
    swap_chance: float = 0.2
    """Share of moves that, where the server is full, swap two clients instead."""

    def __post_init__(self) -> None:
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(f"iterations must be 1 or more, not {self.iterations}")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise ConfigError(f"the time limit must be positive, not {self.time_limit_s}")
        if self.seed < 0:
            raise ConfigError(f"the seed must not be negative: {self.seed}")
        if not self.hot >= self.cold > 0:
            raise ConfigError(f"temperatures must fall and be positive: {self.hot}, {self.cold}")
        if min(self.group_chance, self.swap_chance) < 0 or self.group_chance + self.swap_chance > 1:
            raise ConfigError("the chances of group moves and swaps are shares of all moves")
