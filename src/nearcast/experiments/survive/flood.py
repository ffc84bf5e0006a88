"""Floods at a live server: what honest clients with a session get done, and how newcomers fare."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from nearcast.experiments.latency.process_usage import cpu_seconds
from nearcast.experiments.survive.flooders import FLOODS, Flooder, strangers
from nearcast.experiments.survive.live_trial import PUBLISHERS, SUBSCRIBERS, LiveTrial, open_trial
from nearcast.sdk import Client, Receipt
from nearcast.sdk.credentials import Credentials
from nearcast.sdk.failures import ClientError
from nearcast.wire.actions import Home
from nearcast.wire.settings import Address, WireSettings

__all__ = ["FloodResult", "run_floods"]

_TOPIC = "honest"
"""In no plan: the home processes it, so that one server has all the work."""
_WIRE = WireSettings()
"""As on a server that strangers can reach: sites on one machine take INITs at any rate."""
_IN_FLIGHT = 64
_PACE_S = 0.002
"""Of an honest client: a steady load that the server carries easily."""
_NEWCOMER_S = 5.0
"""Within which a newcomer wants to be connected."""
_NEWCOMER_PAUSE_S = 0.1
_WARM_UP_S = 1.0
_ROUNDS = 2
"""Of all three phases in turn: the machine's other work falls on all of them."""


@dataclass(slots=True)
class FloodResult:
    """What honest clients got done, per second, in the three phases of a measurement."""

    goodput_per_s: float = 0.0
    """Acknowledged publications without any flood."""
    goodput_beside_per_s: float = 0.0
    """While as many datagrams are sent to nobody: the machine works as hard, the server does not."""
    goodput_in_flood_per_s: float = 0.0
    server_cpu: float = 0.0
    """Processors that the server is busy with without any flood: other programs hardly matter."""
    server_cpu_in_flood: float = 0.0
    flood_per_s: float = 0.0
    """Datagrams, or sessions, of the flood."""
    newcomers_s: list[float] = field(default_factory=list)
    """How long newcomers took to connect in the flood; infinity for those that gave up."""

    @property
    def kept(self) -> float:
        """Share of the goodput that is left in the flood, as against a machine at rest."""
        return self.goodput_in_flood_per_s / max(1e-9, self.goodput_per_s)

    @property
    def kept_beside(self) -> float:
        """The same as against a machine that works as hard."""
        return self.goodput_in_flood_per_s / max(1e-9, self.goodput_beside_per_s)

    def measured(self, name: str) -> dict[str, float]:
        """Return all figures, by names that begin with that of the flood."""
        came = [one for one in self.newcomers_s if one < float("inf")]
        return {
            f"{name}_flood_per_s": self.flood_per_s,
            f"{name}_goodput_per_s": self.goodput_per_s,
            f"{name}_goodput_beside_per_s": self.goodput_beside_per_s,
            f"{name}_goodput_in_flood_per_s": self.goodput_in_flood_per_s,
            f"{name}_goodput_kept": self.kept,
            f"{name}_goodput_kept_beside": self.kept_beside,
            f"{name}_server_cpu": self.server_cpu,
            f"{name}_server_cpu_in_flood": self.server_cpu_in_flood,
            f"{name}_newcomers_connected": len(came) / max(1, len(self.newcomers_s)),
            f"{name}_newcomer_median_s": median(came) if came else _NEWCOMER_S,
        }


async def run_floods(
    folder: Path, seconds: float, rate_per_s: float, seed: int
) -> dict[str, FloodResult]:
    """Measure the clients of one server in each kind of flood, so many seconds per phase."""
    results = {name: FloodResult() for name in FLOODS}
    async with open_trial(folder, seed, _WIRE) as trial, AsyncExitStack() as stack:
        names = (*PUBLISHERS, *SUBSCRIBERS)
        everybody = await asyncio.to_thread(trial.live.enrol_clients, names)
        home = everybody[PUBLISHERS[0]].home
        clients = [
            await stack.enter_async_context(Client(one, timeout_s=60.0))
            for one in everybody.values()
            if one.home == home
        ]
        others = [one for one in everybody.values() if one.home != home]
        flooder, newcomer, *_ = (replace(one, home=home, servers=()) for one in others)
        server = _server_of(trial, home)
        flooded = _FloodedServer(
            ("127.0.0.1", trial.live.site.place(server).port),
            trial.live.processes.pid(server),
            clients,
            flooder,
            newcomer,
            rate_per_s,
        )
        await _goodput(clients, _WARM_UP_S)
        for _ in range(_ROUNDS):
            for name, flood in FLOODS.items():
                await flooded.measure(flood, results[name], seconds / _ROUNDS)
    return results


def _server_of(trial: LiveTrial, home: Home) -> str:
    """Return the server behind the proxy that clients know as their home."""
    return next(name for name, proxy in trial.udp.items() if proxy.port == home.address[1])


@dataclass(frozen=True, slots=True)
class _FloodedServer:
    """A server, its clients, and those that flood it or are new to it."""

    address: Address
    """Of itself: a flood must not fill up the proxy of honest clients."""
    pid: int
    clients: Sequence[Client]
    flooder: Credentials
    newcomer: Credentials
    rate_per_s: float

    async def measure(self, flood: Flooder, result: FloodResult, seconds: float) -> None:
        """Add one round of all phases to a result."""
        used_s = self._cpu_s()
        result.goodput_per_s += await _goodput(self.clients, seconds) / _ROUNDS
        result.server_cpu += (self._cpu_s() - used_s) / seconds / _ROUNDS
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
            nobody.bind(("127.0.0.1", 0))
            async with self._flooding(strangers, nobody.getsockname()):
                result.goodput_beside_per_s += await _goodput(self.clients, seconds) / _ROUNDS
        async with self._flooding(flood, self.address) as sent:
            used_s = self._cpu_s()
            newcomers = asyncio.create_task(_newcomers_s(self.newcomer, seconds))
            goodput = await _goodput(self.clients, seconds)
            result.server_cpu_in_flood += (self._cpu_s() - used_s) / seconds / _ROUNDS
            newcomers_s = await newcomers
        result.goodput_in_flood_per_s += goodput / _ROUNDS
        result.flood_per_s += sent[0] / _ROUNDS
        result.newcomers_s += newcomers_s

    def _cpu_s(self) -> float:
        return sum(cpu_seconds({"": self.pid}).values())

    @asynccontextmanager
    async def _flooding(self, flood: Flooder, target: Address) -> AsyncIterator[list[float]]:
        """Flood from another process inside the block; the list holds the rate afterwards."""
        context = get_context("forkserver")  # the site's, which has read all modules already
        total = context.Value("q", 0)
        arguments = (target, self.flooder, self.rate_per_s, total)
        process = context.Process(target=flood, args=arguments, daemon=True)
        process.start()
        rate = [0.0]
        try:
            while not total.value and process.is_alive():  # noqa: ASYNC110 - it counts there
                await asyncio.sleep(0.01)
            before, began_s = total.value, time.monotonic()
            yield rate
            rate[0] = (total.value - before) / (time.monotonic() - began_s)
        finally:
            process.kill()
            process.join()


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


async def _newcomers_s(newcomer: Credentials, seconds: float) -> list[float]:
    """Connect again and again; return how long each try took, infinity when it failed."""
    loop = asyncio.get_running_loop()
    taken_s, began_s = [], loop.time()
    while loop.time() - began_s < seconds:
        came_s = loop.time()
        try:
            async with Client(newcomer, timeout_s=_NEWCOMER_S):
                taken_s.append(loop.time() - came_s)
                await asyncio.sleep(_NEWCOMER_PAUSE_S)
        except ClientError:
            taken_s.append(float("inf"))
    return taken_s
