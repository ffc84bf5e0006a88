"""When a verb that runs on and on is to end: after some seconds, or by a signal."""

from __future__ import annotations

import signal
import threading
import time
from typing import Self

__all__ = ["Stop"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Takes Ctrl-C and SIGTERM while it is entered: they set `event`.

    Parameters
    ----------
    seconds
        After which it is due without a signal; None: never.
    interrupt_at
        The signal that raises KeyboardInterrupt besides, counted from 1; None: none does. It may
        be changed inside the block.
    """

    def __init__(self, seconds: float | None = None, interrupt_at: int | None = None) -> None:
        self.event = threading.Event()
        self.interrupt_at = interrupt_at
        self._deadline_s = float("inf") if seconds is None else time.monotonic() + seconds
        self._signals = 0

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def is_due(self) -> bool:
        """Return whether a signal came or the time is over."""
        return self.event.is_set() or time.monotonic() >= self._deadline_s

    def _on_signal(self, *_: object) -> None:
        self._signals += 1
        self.event.set()
        if self._signals == self.interrupt_at:  # not a later one: it would interrupt tidying up
            raise KeyboardInterrupt
