"""Share of messages in time, by class, while consumer messages saturate the server.

The same load comes twice: once with classes, once without any.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from nearcast.errors import NearcastError
from nearcast.experiments.deadlines.probes import probe_classes
from nearcast.experiments.deadlines.work import WORK
from nearcast.experiments.latency.nearcast_server import NearcastServer, run_nearcast
from nearcast.sdk.credentials import load_credentials
from nearcast.wire.message_class import CONSUMER, MESSAGE_CLASSES

__all__ = ["SATURATED", "DeadlinePoint", "loads_differ", "run"]

SATURATED = 0.9
"""Share of a core from which on a server has no time left."""
_LOADERS = 8
_SETTLE_S = 1.0
"""Until the queue of the server stands."""
_EQUAL = 1.02
"""Loads that differ by less are the same."""
_INTERVAL_S = 0.1
"""Between two messages of a class: below what each may be used."""


@dataclass(frozen=True, slots=True)
class DeadlinePoint:
    """One class, with classes or without."""

    with_classes: bool
    message_class: str
    deadline_ms: float
    sent: int
    arrived: int
    share_in_time: float
    p50_ms: float | None
    p99_ms: float | None
    load_hz: float
    """Consumer messages that were sent per second: the same both ways, or the ways cannot be
    compared."""
    server_cpu_share: float
    """Of one core, by the server's loop: near 1, it is saturated."""


def loads_differ(points: Sequence[DeadlinePoint]) -> bool:
    """Tell whether the load with classes was another one than without."""
    loads_hz = [one.load_hz for one in points]
    return max(loads_hz) > _EQUAL * min(loads_hz)


def run(
    *,
    seconds: float = 5.0,
    rate_hz: float = 3_000.0,
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[DeadlinePoint]:
    """Measure both ways, each on an edge server that has just started."""
    for is_classed in (True, False):
        begin("with classes" if is_classed else "without classes")
        with run_nearcast(publishers=_LOADERS + 1, subscribers=1, processor=WORK) as server:
            yield from _measure(server, seconds, rate_hz, is_classed)


def _measure(
    server: NearcastServer, seconds: float, rate_hz: float, is_classed: bool
) -> Iterator[DeadlinePoint]:
    (pid,) = server.pids.values()
    question = {
        "publishers": [str(one) for one in server.publishers[1:]],
        "seconds": seconds + 2 * _SETTLE_S,
        "server": pid,
        "rate_hz": rate_hz,
        "message_class": CONSUMER if is_classed else "",
    }
    with _LoadProcess(question) as load:
        probes = asyncio.run(
            probe_classes(
                load_credentials(server.publishers[0]),
                load_credentials(server.subscribers[0]),
                MESSAGE_CLASSES,
                seconds=seconds,
                interval_s=_INTERVAL_S,
                with_classes=is_classed,
                load=load.start,
            )
        )
        found = load.found()
    for probe in probes:
        yield DeadlinePoint(
            is_classed,
            probe.message_class,
            probe.deadline_ms,
            probe.sent,
            len(probe.delays_ms),
            probe.share_in_time,
            probe.at(0.5),
            probe.at(0.99),
            **found,
        )


class _LoadProcess:
    """The load, in a process of its own."""

    def __init__(self, question: dict[str, object]) -> None:
        self._question = json.dumps(question) + "\n"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nearcast.experiments.deadlines.load_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def start(self) -> None:
        """Begin, and wait until the queue of the server stands."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(self._question)
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise NearcastError("the load process did not start")
        time.sleep(_SETTLE_S)

    def found(self) -> dict[str, float]:
        """Wait for its end; return how much it sent, and what that took the server."""
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise NearcastError("the load process failed")
        found: dict[str, float] = json.loads(answer)
        return found
