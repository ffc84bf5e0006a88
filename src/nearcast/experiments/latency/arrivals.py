"""What reached the subscribers, kept as raw heads while the load runs and counted afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nearcast.experiments.latency.workload import HEAD

__all__ = ["Counted", "Heard", "count"]

_HEAD_TYPE = np.dtype([("due_ns", ">u8"), ("number", ">u8")])
assert _HEAD_TYPE.itemsize == HEAD.size


@dataclass(slots=True)
class Heard:
    """What one subscriber heard: two lists of equal length, appended to and nothing else."""

    heads: list[bytes] = field(default_factory=list)
    """First bytes of each payload."""
    at_ns: list[int] = field(default_factory=list)
    """When it was read."""
    by_group: int = 0
    """How many of them by multicast."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Notifications of some messages, each counted once per subscriber."""

    delays_ms: np.ndarray[tuple[int], np.dtype[np.float64]]
    repeated: int

    def percentile_ms(self, share: float) -> float:
        """Return the delay that this share does not exceed; NaN when nothing arrived."""
        if not len(self.delays_ms):
            return float("nan")
        return float(np.quantile(self.delays_ms, share, method="inverted_cdf"))


def count(heard: Sequence[Heard], first: int, end: int) -> Counted:
    """Count the notifications about messages with numbers from `first` to before `end`."""
    delays, repeated = [], 0
    for one in heard:
        # a thread of a library may be between its two appends
        known = min(len(one.heads), len(one.at_ns))
        heads = np.frombuffer(b"".join(one.heads[:known]), dtype=_HEAD_TYPE)
        number = heads["number"].astype(np.int64)
        delay_ns = np.array(one.at_ns[:known], dtype=np.int64) - heads["due_ns"].astype(np.int64)
        chosen = (number >= first) & (number < end)
        _, once = np.unique(number[chosen], return_index=True)
        delays.append(delay_ns[chosen][once] / 1e6)
        repeated += int(chosen.sum()) - len(once)
    return Counted(np.concatenate(delays) if delays else np.empty(0), repeated)
