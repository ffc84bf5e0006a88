"""A flood of bogus datagrams at a live server: what an honest client still gets done."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from nearcast.experiments.survive.live_trial import PUBLISHERS, TOPICS, open_trial
from nearcast.sdk import Client, Credentials

__all__ = ["FloodResult", "run_flood"]

_IN_FLIGHT = 64
_PACE_S = 0.002
"""Of the honest client: a steady load that the server carries easily."""
_BURST = 100


@dataclass(frozen=True, slots=True)
class FloodResult:
    """Acknowledged publications of an honest client per second, and bogus datagrams per second."""

    goodput_per_s: float
    goodput_in_flood_per_s: float
    flood_per_s: float

    @property
    def kept(self) -> float:
        """Share of the goodput that is left in the flood."""
        return self.goodput_in_flood_per_s / max(1e-9, self.goodput_per_s)


async def run_flood(folder: Path, seconds: float, rate_per_s: float, seed: int) -> FloodResult:
    """Measure an honest client without and with a flood, on the same server."""
    async with open_trial(folder, seed) as trial:
        credentials = await asyncio.to_thread(trial.live.enrol_clients, PUBLISHERS[:1])
        honest = credentials[PUBLISHERS[0]]
        before = await _goodput(honest, seconds)
        targets = [("127.0.0.1", one.port) for one in trial.live.site.servers if one.role == "edge"]
        with _flooding(targets, rate_per_s) as sent:
            began_s = time.monotonic()
            during = await _goodput(honest, seconds)
            elapsed_s = time.monotonic() - began_s
    return FloodResult(before, during, sent[0] / elapsed_s)


async def _goodput(credentials: Credentials, seconds: float) -> float:
    """Return acknowledged publications per second of a client that publishes steadily."""
    room, acknowledged = asyncio.Semaphore(_IN_FLIGHT), 0

    def done() -> None:
        nonlocal acknowledged
        acknowledged += 1
        room.release()

    async with Client(credentials, timeout_s=60.0) as client:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while loop.time() - began_s < seconds:
            await room.acquire()
            (await client.publish(TOPICS[0], b"honest")).when_done(done)
            await asyncio.sleep(_PACE_S)
        return acknowledged / (loop.time() - began_s)


@contextmanager
def _flooding(targets: list[tuple[str, int]], rate_per_s: float) -> Iterator[list[int]]:
    """Send bogus datagrams from another process inside the block; the list holds their number."""
    context = get_context("spawn")
    total = context.Value("q", 0)
    process = context.Process(target=_flood, args=(targets, rate_per_s, total), daemon=True)
    process.start()
    sent = [0]
    try:
        while not total.value:
            time.sleep(0.01)
        yield sent
    finally:
        process.kill()
        process.join()
        sent[0] = total.value


def _flood(targets: list[tuple[str, int]], rate_per_s: float, total: object) -> None:
    """Send datagrams with random bytes, some of which look like INITs or sealed ones."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heads = (b"", b"\x11\x00", b"\x14\x00")
    bogus = [heads[number % 3] + os.urandom(300) for number in range(300)]
    began_s, sent = time.monotonic(), 0
    while True:
        for number in range(_BURST):
            sock.sendto(bogus[(sent + number) % len(bogus)], targets[number % len(targets)])
        sent += _BURST
        total.value = sent  # type: ignore[attr-defined]
        early_s = sent / rate_per_s - (time.monotonic() - began_s)
        if early_s > 0:
            time.sleep(early_s)
