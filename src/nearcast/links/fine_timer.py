"""Timers and sleeps finer than an event loop's, which round to whole milliseconds."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Timer", "make_timer", "sleep_exactly"]

_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1
_SET_TIMER_SLACK = 29


class Timer(Protocol):
    """Calls back once at or soon after a time of `time.monotonic`; a new time replaces the last."""

    def set(self, due_s: float) -> None:
        """Call back at this time."""
        ...

    def close(self) -> None:
        """Never call back again."""
        ...


def make_timer(loop: asyncio.AbstractEventLoop, call_back: Callable[[], None]) -> Timer:
    """Return the finest timer that this system has."""
    try:
        return _KernelTimer(loop, call_back)
    except (OSError, AttributeError, NotImplementedError):
        return _LoopTimer(loop, call_back)


def sleep_exactly() -> None:
    """Have this thread wake up when it asked to: Linux adds up to 50 us to save wake-ups."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)


class _Timerspec(ctypes.Structure):
    # interval, then first expiry, each in seconds and nanoseconds
    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "at_s", "at_ns")]


class _KernelTimer:
    """Linux's timerfd, whose error is some ten microseconds; Python has it from 3.13 only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call_back: Callable[[], None]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self._spec = _Timerspec()
        self._loop, self._call_back = loop, call_back
        self._file = libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "no timerfd")
        loop.add_reader(self._file, self._fire)

    def set(self, due_s: float) -> None:
        """Call back at this time."""
        due_ns = max(1, int(due_s * 1e9))  # 0 would disarm it
        self._spec.at_s, self._spec.at_ns = divmod(due_ns, 1_000_000_000)
        self._settime(self._file, _ABSOLUTE, ctypes.byref(self._spec), None)

    def close(self) -> None:
        """Never call back again."""
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _fire(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            return  # set anew in the meantime
        self._call_back()


class _LoopTimer:
    def __init__(self, loop: asyncio.AbstractEventLoop, call_back: Callable[[], None]) -> None:
        self._loop, self._call_back = loop, call_back
        self._handle: asyncio.TimerHandle | None = None

    def set(self, due_s: float) -> None:
        """Call back at this time, rounded up to what the loop can do."""
        self.close()
        self._handle = self._loop.call_later(max(0.0, due_s - time.monotonic()), self._call_back)

    def close(self) -> None:
        """Never call back again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
