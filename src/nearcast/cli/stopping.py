"""When a verb that runs on and on is to end: after some seconds, or by a signal."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["stopping"]


@contextmanager
def stopping(seconds: float | None) -> Iterator[Callable[[], bool]]:
    """Give what tells when to stop: after some seconds, at Ctrl-C or SIGTERM."""
    stopped = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stopped.set()) for number in numbers]
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    try:
        yield lambda: stopped.is_set() or time.monotonic() >= deadline
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
