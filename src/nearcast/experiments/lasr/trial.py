"""One run of the LASR experiment, and what is counted in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from nearcast.experiments.lasr.systems import LasrSystem, MasterSlaveSystem, System
from nearcast.experiments.lasr.testbed import EDGE_NETS, SOURCE, TARGET, JoseTestbed
from nearcast.overlay.overlay import Delivered
from nearcast.routing.overlay_node import Outcome
from nearcast.routing.route_actions import Deliver
from nearcast.routing.route_messages import Data

__all__ = ["Arrival", "SystemKind", "Trial", "run_trial"]

_WARM_UP_FRAMES = 10
"""Of each device: nets' keys go in, and messages take the way through the cloud's."""


class SystemKind(StrEnum):
    """What routes."""

    LASR = "LASR"
    MASTER_SLAVE = "master-slave"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A frame of s1 that was delivered."""

    frame: int
    index: int
    sent_s: float
    """After the first frame of all."""
    received_s: float
    receiver: str
    hops: int
    """Through the overlay; of master-slave none."""
    left_net: bool
    """Whether a hop between sender and receiver was outside the edge net."""
    went_astray: bool = False
    """Whether d1 may have got it, and told its sender that the replica has it."""

    @property
    def delay_ms(self) -> float:
        """From device to component."""
        return 1000 * (self.received_s - self.sent_s)

    @property
    def is_warm_up(self) -> bool:
        """Whether it is among the first, reported apart."""
        return self.frame < _WARM_UP_FRAMES


@dataclass(frozen=True, slots=True)
class Trial:
    """What one run gave."""

    arrivals: tuple[Arrival, ...]
    """Of s1, in the order of delivery."""
    published: int
    delivered: int
    """By all; less than published: lost, more: delivered twice."""
    rejected: int
    command_s: float
    split_at: int
    machine_p99_ms: float | None = None
    """With real processes: what a round trip over bare sockets took meanwhile, p99."""

    def misdelivered(self) -> list[Arrival]:
        """Return frames of the delegated half that d1 received after the command (Sec. 4.3).

        Also those that d1 did not process but sent on, or may have (`went_astray`).
        """
        return [
            one
            for one in self.arrivals
            if one.index < self.split_at
            and one.received_s >= self.command_s
            and (one.receiver == TARGET or one.went_astray)
        ]

    def misdelivered_later(self) -> list[Arrival]:
        """Return those of the misdelivered that were also sent after the command.

        Of master-slave there can be none where the command reaches the master before every question
        asked after it, so nothing is judged by this.
        """
        return [one for one in self.misdelivered() if one.sent_s >= self.command_s]

    def reconfiguration_ms(self) -> float:
        """Return the time from the command to the arrival of the last misdelivered frame."""
        last_s = max((one.received_s for one in self.misdelivered()), default=self.command_s)
        return 1000 * (last_s - self.command_s)


def run_trial(kind: SystemKind, testbed: JoseTestbed, seed: int) -> Trial:
    """Run the experiment once; the same arguments give the same trial."""
    paths: dict[bytes, tuple[int, bool]] = {}
    system: System
    if kind is SystemKind.LASR:
        system = LasrSystem(testbed, seed, lambda _peer, route: _note_path(testbed, paths, route))
    else:
        system = MasterSlaveSystem(testbed, seed)
    sent: dict[bytes, tuple[int, float]] = {}
    arrivals: list[Arrival] = []
    totals = {"published": 0, "delivered": 0}
    start_s = testbed.setup_s

    def publish(broker: str, device: int, frame: int) -> None:
        body = f"{device}:{frame}".encode() if broker == SOURCE else b""
        if body:
            sent[body] = (frame, system.world.now - start_s)
        totals["published"] += 1
        system.publish(broker, body)

    def arrive(now: float, peer: str, outcome: Outcome) -> None:
        if not isinstance(outcome, Deliver):
            return
        totals["delivered"] += 1
        data = outcome.data
        if data.origin == SOURCE:
            hops, left_net = paths.get(data.body, (0, False))
            frame, sent_s = sent[data.body]
            arrivals.append(Arrival(frame, data.index, sent_s, now - start_s, peer, hops, left_net))

    system.world.on_outcome = arrive
    rng = Random(f"devices {seed}")
    for number in range(2 * testbed.brokers):
        broker = testbed.broker(number)
        is_first_net = testbed.net_of(broker) == EDGE_NETS[0]
        for device in range(testbed.devices if is_first_net else testbed.other_devices):
            phase_s = rng.uniform(0, testbed.period_s)
            for frame in range(testbed.frames):
                when_s = start_s + phase_s + frame * testbed.period_s
                system.world.at(when_s, publish, broker, device, frame)
    system.world.at(testbed.command_s, system.offload)
    system.world.run(testbed.end_s)
    return Trial(
        tuple(arrivals),
        totals["published"],
        totals["delivered"],
        system.lost(),
        testbed.command_s - start_s,
        testbed.split_at,
    )


def _note_path(
    testbed: JoseTestbed, paths: dict[bytes, tuple[int, bool]], route: Delivered
) -> None:
    data = route.payload
    if isinstance(data, Data) and data.origin == SOURCE:
        hops, left_net = paths.get(data.body, (0, False))
        outside = any(testbed.net_of(node.peer) != EDGE_NETS[0] for node in route.path)
        paths[data.body] = (hops + route.hops, left_net or outside)
