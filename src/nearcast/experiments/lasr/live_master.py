"""The master-slave baseline as real processes, with the links between servers and distances.

One process for the master, each broker with its devices, each component and the replica. The
routers are those of `routing.master_slave`; nothing is stored on the way.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from typing import Any

import msgspec

from nearcast.errors import NearcastError
from nearcast.experiments.lasr.testbed import MASTER, REPLICA, SOURCE, TARGET, TOPIC, JoseTestbed
from nearcast.experiments.lasr.trial import Arrival, Trial
from nearcast.links.emulated_mesh import EmulatedMesh
from nearcast.links.mesh import PeerAddress
from nearcast.links.tcp_mesh import TcpMesh
from nearcast.routing.index_mapping import ShuffleMapping
from nearcast.routing.keys import NetPath
from nearcast.routing.master_slave import Master, MasterSlaveRouter
from nearcast.routing.route_actions import Deliver, RouteAction, SendPeer
from nearcast.routing.route_messages import RouteMessage
from nearcast.sdk.credentials import new_private_key
from nearcast.wire.noise import public_key

__all__ = ["run_live_master_trial"]

_LEAD_S = 1.5
_QUIET_S = 5.0
_ANSWER_S = 60.0
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(RouteMessage)
_HEADER = struct.Struct("<Id")
"""Of a frame: its number, and when it was sent."""
_Report = tuple[int, list[tuple[str, int, int, float, float]]]
"""How many messages a host sent; those that it got: origin, index, frame, sent and received."""


def run_live_master_trial(testbed: JoseTestbed, seed: int) -> Trial:
    """Run the experiment once."""
    count = 2 * testbed.brokers
    names = [MASTER, REPLICA]
    names += [testbed.component(at) for at in range(count)]
    names += [testbed.broker(at) for at in range(count)]
    keys = {name: new_private_key() for name in names}
    context = get_context("forkserver")
    pipes, processes = {}, []
    try:
        for name in names:
            pipes[name], far_end = context.Pipe()
            process = context.Process(
                target=_run_host, args=(name, keys[name], testbed, seed, far_end), daemon=True
            )
            process.start()
            far_end.close()
            processes.append(process)
        ports = {name: _received(pipes[name]) for name in names}
        peers = [
            PeerAddress(name, "127.0.0.1", ports[name], public_key(keys[name])) for name in names
        ]
        begin_s = time.monotonic() + _LEAD_S
        for name in names:
            pipes[name].send((peers, begin_s))
        time.sleep(_LEAD_S + testbed.frames * testbed.period_s)
        found = _drained(pipes)
    finally:
        for process in processes:
            process.terminate()
            process.join()
    published = sum(sent for sent, _ in found.values())
    delivered = [(name, *one) for name, (_, arrived) in found.items() for one in arrived]
    arrivals = [
        Arrival(frame, index, sent_s - begin_s, received_s - begin_s, name, 0, False)
        for name, origin, index, frame, sent_s, received_s in delivered
        if origin == SOURCE
    ]
    command_s = testbed.frames * testbed.period_s / 2
    return Trial(tuple(arrivals), published, len(delivered), 0, command_s, testbed.split_at)


def _drained(pipes: dict[str, Any]) -> dict[str, _Report]:
    """Ask all hosts until everything has arrived, or nothing does any more."""
    count, since_s = -1, time.monotonic()
    while True:
        for pipe in pipes.values():
            pipe.send(None)
        found = {name: _received(pipe) for name, pipe in pipes.items()}
        arrived = sum(len(arrivals) for _, arrivals in found.values())
        if arrived > count:
            count, since_s = arrived, time.monotonic()
        sent = sum(sent for sent, _ in found.values())
        if arrived >= sent or time.monotonic() > since_s + _QUIET_S:
            return found
        time.sleep(0.5)


def _received(pipe: Any) -> Any:
    if not pipe.poll(_ANSWER_S):
        raise NearcastError("a process of the master-slave baseline does not answer")
    try:
        return pipe.recv()
    except EOFError:
        raise NearcastError("a process of the master-slave baseline ended") from None


def _run_host(name: str, key: bytes, testbed: JoseTestbed, seed: int, pipe: Connection) -> None:
    """Be one host of the experiment: runs in a process of its own."""
    import uvloop

    uvloop.run(_Host(name, key, testbed, seed).run(pipe))


class _Host:
    """A master or a slave on a real link."""

    def __init__(self, name: str, key: bytes, testbed: JoseTestbed, seed: int) -> None:
        self._name, self._testbed = name, testbed
        self._rng = Random(f"{name} {seed}")
        self._tcp = TcpMesh("127.0.0.1", 0, key)
        self._master = Master() if name == MASTER else None
        self._number = int(name[1:]) - 1 if name[1:].isdigit() else 0
        mapping = ShuffleMapping(*testbed.range_of(self._number))
        self._slave = MasterSlaveRouter(
            name, self._net(name), MASTER, self._rng, mappings={TOPIC: mapping}
        )
        self._sent = 0
        self._arrived: list[tuple[str, int, int, float, float]] = []

    def _net(self, name: str) -> NetPath:
        return self._testbed.net_of(name)

    async def run(self, pipe: Connection) -> None:
        """Take part in a trial, and tell what was sent and what arrived whenever that is asked."""
        delays_s = self._delays_s()
        self._mesh = EmulatedMesh(self._tcp, delays_s)
        await self._mesh.start(self._on_message)
        pipe.send(self._tcp.port)
        peers, begin_s = await asyncio.to_thread(pipe.recv)
        self._mesh.learn(one for one in peers if one.server != self._name)
        if self._name.startswith("d"):
            low, high = self._testbed.range_of(self._number)
            self._do(self._slave.subscribe(TOPIC, low, high, time.monotonic()))
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._tell, pipe)
        tasks = [self._repeat()]
        if self._name.startswith("s"):
            period_s = self._testbed.period_s
            phases_s = [self._rng.uniform(0, period_s) for _ in range(self._devices())]
            tasks += [self._publish(begin_s + phase_s) for phase_s in phases_s]
        if self._name == TARGET:
            tasks.append(self._hand_over(begin_s))
        await asyncio.gather(*tasks)  # until the first process ends this one

    def _tell(self, pipe: Connection) -> None:
        pipe.recv()
        pipe.send((self._sent, self._arrived))

    def _delays_s(self) -> dict[str, float]:
        testbed = self._testbed
        count = 2 * testbed.brokers
        others = [MASTER, REPLICA, *(testbed.component(at) for at in range(count))]
        others += [testbed.broker(at) for at in range(count)]
        own = self._net(self._name)
        return {
            one: (testbed.edge_rtt_s if self._net(one) == own else testbed.cloud_rtt_s) / 2
            for one in others
        }

    def _devices(self) -> int:
        testbed = self._testbed
        return testbed.devices if self._number < testbed.brokers else testbed.other_devices

    async def _publish(self, begin_s: float) -> None:
        testbed = self._testbed
        for frame in range(testbed.frames):
            await asyncio.sleep(begin_s + frame * testbed.period_s - time.monotonic())
            now = time.monotonic()
            self._sent += 1
            body = _HEADER.pack(frame, now) + bytes(testbed.size_bytes - _HEADER.size)
            self._do(self._slave.publish(TOPIC, body, now))

    async def _hand_over(self, begin_s: float) -> None:
        testbed = self._testbed
        await asyncio.sleep(begin_s + testbed.frames * testbed.period_s / 2 - time.monotonic())
        low, _ = testbed.range_of(0)
        self._do(self._slave.hand_over(TOPIC, low, testbed.split_at, REPLICA))

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            self._do(self._slave.on_timer(time.monotonic()))

    def _on_message(self, sender: str, data: bytes) -> None:
        message = _decoder.decode(data)
        if self._master is not None:
            self._do(self._master.on_message(sender, message))
        else:
            self._do(self._slave.on_message(sender, message, time.monotonic()))

    def _do(self, actions: Sequence[RouteAction]) -> None:
        for action in actions:
            if isinstance(action, SendPeer):
                self._mesh.send(action.peer, _encode(action.message))
            elif isinstance(action, Deliver):
                data = action.data
                frame, sent_s = _HEADER.unpack_from(data.body)
                self._arrived.append((data.origin, data.index, frame, sent_s, time.monotonic()))
