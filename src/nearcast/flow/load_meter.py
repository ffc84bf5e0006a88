"""How much work an instance is: measured, so that batches stay short and loads are known."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from nearcast.routing.keys import NetPath

__all__ = ["LoadMeter"]

_RECENT = 256
_WEIGHT = 0.2
"""Of the last batch in the mean."""


class LoadMeter:
    """Measures what an instance's processor takes.

    Parameters
    ----------
    clock
        The time now in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._busy_s = 0.0
        self._per_message_s = 0.0
        self._longest_batch = 0
        self._read_at = clock()
        self._recent: deque[tuple[NetPath, int]] = deque(maxlen=_RECENT)

    def batch_size(self, most: int, longest_s: float) -> int:
        """Return how many messages to process at a time, so that it takes no longer than this.

        One at first, and never many more than it was measured with: the next may be harder work.
        """
        most = min(most, 2 * self._longest_batch + 1)
        if self._per_message_s * most <= longest_s:
            return most
        return max(1, int(longest_s / self._per_message_s))

    def note(self, messages: Sequence[tuple[NetPath, int]], seconds: float) -> None:
        """Take what a batch was, by net and index, and how long it took."""
        self._busy_s += seconds
        self._longest_batch = max(self._longest_batch, len(messages))
        per_message_s = seconds / len(messages)
        known_s = self._per_message_s
        self._per_message_s = (
            per_message_s if not known_s else known_s + _WEIGHT * (per_message_s - known_s)
        )
        self._recent.extend(messages)

    @property
    def recent(self) -> Sequence[tuple[NetPath, int]]:
        """Net and index of the messages processed last."""
        return tuple(self._recent)

    def forget(self, is_gone: Callable[[NetPath, int], bool]) -> None:
        """Forget messages of a part that is held no more."""
        kept: Iterable[tuple[NetPath, int]] = [one for one in self._recent if not is_gone(*one)]
        self._recent = deque(kept, maxlen=_RECENT)

    def take_busy_share(self) -> float:
        """Return which share of the time since the last call the processor ran."""
        now, since, busy_s = self.clock(), self._read_at, self._busy_s
        self._read_at, self._busy_s = now, 0.0
        return busy_s / (now - since) if now > since else 0.0
