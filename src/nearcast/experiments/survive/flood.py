"""A flood of bogus datagrams at a live server: what honest clients with a session still get done."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from nearcast.experiments.survive.live_trial import PUBLISHERS, LiveTrial, open_trial
from nearcast.sdk import Client, Receipt
from nearcast.wire.actions import Home
from nearcast.wire.framing import InitKeys
from nearcast.wire.settings import Address, WireSettings

__all__ = ["FloodResult", "run_flood"]

_TOPIC = "flooded"
"""In no plan: the home processes it, so that one server has all the work."""
_WIRE = WireSettings(messages_per_s=1e6)
"""As on a server that strangers can reach: sites on one machine take INITs at any rate."""
_IN_FLIGHT = 64
_PACE_S = 0.002
"""Of an honest client: a steady load that the server carries easily."""
_WARM_UP_S = 1.0
_ROUNDS = 2
"""Without and with the flood in turn: the machine's other work falls on both."""
_BURST = 50
_BOGUS = 300
_BOGUS_BYTES = 300


@dataclass(frozen=True, slots=True)
class FloodResult:
    """Acknowledged publications of honest clients per second, and bogus datagrams per second."""

    goodput_per_s: float
    goodput_in_flood_per_s: float
    flood_per_s: float

    @property
    def kept(self) -> float:
        """Share of the goodput that is left in the flood."""
        return self.goodput_in_flood_per_s / max(1e-9, self.goodput_per_s)


async def run_flood(folder: Path, seconds: float, rate_per_s: float, seed: int) -> FloodResult:
    """Measure the clients of one server without and with a flood at it, so many seconds each."""
    async with open_trial(folder, seed, _WIRE) as trial, AsyncExitStack() as stack:
        credentials = await asyncio.to_thread(trial.live.enrol_clients, PUBLISHERS)
        home = credentials[PUBLISHERS[0]].home
        clients = [
            await stack.enter_async_context(Client(one, timeout_s=60.0))
            for one in credentials.values()
            if one.home == home
        ]
        await _goodput(clients, _WARM_UP_S)
        quiet = flooded = flood = 0.0
        for _ in range(_ROUNDS):
            quiet += await _goodput(clients, seconds / _ROUNDS) / _ROUNDS
            async with _flooding(_behind_proxy(trial, home), home.server_key, rate_per_s) as sent:
                flooded += await _goodput(clients, seconds / _ROUNDS) / _ROUNDS
            flood += sent[0] / _ROUNDS
    return FloodResult(quiet, flooded, flood)


def _behind_proxy(trial: LiveTrial, home: Home) -> Address:
    """Return where a server itself is: the flood must not fill up the proxy of honest clients."""
    _, port = home.address
    server = next(name for name, proxy in trial.udp.items() if proxy.port == port)
    return "127.0.0.1", trial.live.site.place(server).port


async def _goodput(clients: Iterable[Client], seconds: float) -> float:
    """Return the acknowledged publications per second of clients that publish steadily."""
    return sum(await asyncio.gather(*(_goodput_of(one, seconds) for one in clients)))


async def _goodput_of(client: Client, seconds: float) -> float:
    room, acknowledged = asyncio.Semaphore(_IN_FLIGHT), 0

    def done(receipt: Receipt) -> None:
        nonlocal acknowledged
        acknowledged += receipt.error is None
        room.release()

    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while loop.time() - began_s < seconds:
        if room.locked():  # nothing may come back for longer than is left
            await asyncio.sleep(_PACE_S)
            continue
        await room.acquire()
        receipt = await client.publish(_TOPIC, b"honest")
        receipt.when_done(partial(done, receipt))
        await asyncio.sleep(_PACE_S)
    return acknowledged / (loop.time() - began_s)


@asynccontextmanager
async def _flooding(
    target: Address, server_key: bytes, rate_per_s: float
) -> AsyncIterator[list[float]]:
    """Send bogus datagrams from another process inside the block; the list holds their rate."""
    context = get_context("spawn")
    total = context.Value("q", 0)
    arguments = (target, _bogus(server_key), rate_per_s, total)
    process = context.Process(target=_flood, args=arguments, daemon=True)
    process.start()
    rate = [0.0]
    try:
        while not total.value:  # noqa: ASYNC110 - another process counts
            await asyncio.sleep(0.01)
        before, began_s = total.value, time.monotonic()
        yield rate
        rate[0] = (total.value - before) / (time.monotonic() - began_s)
    finally:
        process.kill()
        process.join()


def _bogus(server_key: bytes) -> list[bytes]:
    """Return random bytes, sealed datagrams of no session, and INITs by who knows the server."""
    keys = InitKeys(server_key)
    kinds = (
        lambda: os.urandom(_BOGUS_BYTES),
        lambda: b"\x14\x00" + os.urandom(_BOGUS_BYTES),
        lambda: keys.write_init(1, os.urandom(_BOGUS_BYTES)),
    )
    return [kinds[number % len(kinds)]() for number in range(_BOGUS)]


def _flood(target: Address, bogus: list[bytes], rate_per_s: float, total: object) -> None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(target)
    began_s, sent = time.monotonic(), 0
    while True:
        for number in range(_BURST):
            try:
                sock.send(bogus[(sent + number) % len(bogus)])
            except OSError:  # the server is not there any more
                return
        sent += _BURST
        total.value = sent  # type: ignore[attr-defined]
        early_s = sent / rate_per_s - (time.monotonic() - began_s)
        if early_s > 0:
            time.sleep(early_s)
