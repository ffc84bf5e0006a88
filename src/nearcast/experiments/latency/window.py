"""The computation between publisher and subscriber, the same for every system."""

from __future__ import annotations

from collections import deque
from struct import Struct

from nearcast.experiments.latency.workload import HEAD, VALUE

__all__ = ["WINDOW", "Window"]

WINDOW = 100
"""Messages of the topic that are looked at."""
_RESULT = Struct(">dddI")
_RESULT_END = HEAD.size + _RESULT.size


class Window:
    """The last values of one topic; plain Python on purpose, as most users' processors are."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=WINDOW)

    def add(self, payload: bytes) -> bytes:
        """Return what to tell the subscribers about a message: as long as the message itself."""
        values = self._values
        values.append(VALUE.unpack_from(payload, HEAD.size)[0])
        total = 0.0
        smallest = largest = values[0]
        for value in values:
            total += value
            if value > largest:
                largest = value
            if value < smallest:
                smallest = value
        mean = total / len(values)
        squares = before = 0.0
        crossings = 0
        for value in values:
            gap = value - mean
            squares += gap * gap
            if gap * before < 0.0:
                crossings += 1
            before = gap
        result = _RESULT.pack(mean, squares / len(values), largest - smallest, crossings)
        return payload[: HEAD.size] + result + payload[_RESULT_END:]
