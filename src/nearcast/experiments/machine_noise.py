"""What the machine itself does to round trips while something else is measured.

Two processes exchange small datagrams over bare UDP sockets, 200 per second: what these need at
the 99th percentile no server on this machine can beat. On a virtual machine, the time that its
host gave to others is told as well, and when that was.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

from nearcast.experiments.percentiles import percentile

__all__ = ["MachineNoise", "Noise", "stolen_s"]

_INTERVAL_S = 0.005
_BYTES = 200
_LOST_S = 1.0
_STOLEN_COLUMN = 8


@dataclass(frozen=True, slots=True)
class Noise:
    """What bare sockets needed meanwhile."""

    median_ms: float
    p99_ms: float
    stolen_percent: float | None
    """Share of this machine's CPU time that its host did not give; None where nobody tells."""
    stolen_at_s: tuple[float, ...] = ()
    """Unix times at which such a theft was seen, in order; 10 ms of CPU time or more each."""

    def is_quiet(self, start_s: float, end_s: float, margin_s: float = 0.05) -> bool:
        """Tell whether nothing was stolen in a while, nor shortly before or after it."""
        at = bisect_left(self.stolen_at_s, start_s - margin_s)
        return at == len(self.stolen_at_s) or self.stolen_at_s[at] > end_s + margin_s


class MachineNoise:
    """Measures between `begin` and `end`, as often as wanted."""

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe()
        answers = context.Process(target=_answer, args=(theirs,), daemon=True)
        answers.start()
        port: int = mine.recv()
        self._pipe, theirs = context.Pipe()
        asks = context.Process(target=_ask, args=(theirs, port), daemon=True)
        asks.start()
        self._pipe.recv()
        self._processes = [asks, answers]
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.join()

    def begin(self) -> None:
        """Begin to measure."""
        self._began_s, self._stolen_s = time.monotonic(), stolen_s()
        self._pipe.send(True)

    def end(self) -> Noise:
        """Return what was found since `begin`."""
        self._pipe.send(False)
        round_trips_ms: list[float]
        round_trips_ms, stolen_at_s = self._pipe.recv()
        before_s, after_s = self._stolen_s, stolen_s()
        all_s = (time.monotonic() - self._began_s) * (os.cpu_count() or 1)
        known = before_s is not None and after_s is not None
        return Noise(
            percentile(round_trips_ms, 0.5),
            percentile(round_trips_ms, 0.99),
            100 * ((after_s or 0.0) - (before_s or 0.0)) / all_s if known else None,
            tuple(stolen_at_s),
        )


def stolen_s() -> float | None:
    """Return how long the host kept CPU time from this machine so far; None where nobody tells."""
    try:
        ticks = int(Path("/proc/stat").read_text().split(maxsplit=9)[_STOLEN_COLUMN])
    except (OSError, ValueError, IndexError):
        return None
    return float(ticks) / os.sysconf("SC_CLK_TCK")


def _answer(pipe: Connection) -> None:
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("127.0.0.1", 0))
    pipe.send(own.getsockname()[1])
    while True:
        data, address = own.recvfrom(2048)
        own.sendto(data, address)


def _ask(pipe: Connection, port: int) -> None:
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.connect(("127.0.0.1", port))
    own.settimeout(_LOST_S)
    pipe.send(None)
    while pipe.recv():
        found_ms: list[float] = []
        stolen_at_s: list[float] = []
        known_s, due_s = stolen_s(), time.monotonic()
        while not pipe.poll(max(0.0, due_s - time.monotonic())):
            due_s += _INTERVAL_S
            began_s = time.monotonic()
            question = str(began_s).encode().ljust(_BYTES)
            with suppress(TimeoutError):
                own.send(question)
                while own.recv(2048) != question:
                    pass  # the answer to one that was given up
                found_ms.append((time.monotonic() - began_s) * 1e3)
            if (before_s := known_s) != (known_s := stolen_s()) and before_s is not None:
                stolen_at_s.append(time.time())
        pipe.recv()
        pipe.send((found_ms, stolen_at_s))
