"""The experiment on real servers: a site of processes, a flow, and half of a net's range moved."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from nearcast.broker.notifications import Notification as Made
from nearcast.broker.topic_spool import SpoolView
from nearcast.experiments.flows.flow_site import (
    CLOUD_SERVER,
    HEARER,
    OUTPUT,
    SOURCE,
    FlowLayout,
    FlowSite,
    open_flow_site,
)
from nearcast.experiments.lasr.testbed import EDGE_NETS, REPLICA, TARGET, JoseTestbed
from nearcast.experiments.lasr.trial import Arrival, Trial
from nearcast.flow.flow import Component, ContentMapping
from nearcast.routing.index_mapping import content_index
from nearcast.routing.keys import INDEX_END
from nearcast.runtime.config import ONE_ADDRESS, FlowsConfig
from nearcast.sdk.client import Client
from nearcast.sdk.credentials import load_credentials
from nearcast.wire.notification import Notification
from nearcast.wire.publication import Publication

__all__ = ["FrameStamp", "live_site", "run_live_trial"]

_STAMP = "nearcast.experiments.lasr.live_flow:FrameStamp"
_COMPONENT = Component(_STAMP, (SOURCE,), OUTPUT, {}, ContentMapping("id"))
_BROKERS = ("a1", "b1")
"""The edge server of each net that devices publish at; s1 is the first."""
_REPLICA_SERVER = "a2"
_SPLIT_AT = INDEX_END // 2
_LEAD_S = 1.0
_QUIET_S = 10.0
_DATAGRAM_ROOM = 600


class FrameStamp:
    """A component that tells when each frame reached it; it keeps no state."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Made]:
        """Return each frame's id, and the time."""
        for frame in batch:
            # one clock for all processes of a machine, so that delays compare
            told = {"id": json.loads(frame.payload)["id"], "received_s": time.monotonic()}
            yield Made(json.dumps(told).encode(), cause=frame)


@dataclass(slots=True)
class _Frames:
    """What was sent and what was heard in one trial, by a frame's id."""

    sent: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Number and time of sending."""
    heard: list[tuple[str, float, str]] = field(default_factory=list)
    """Id, time and server of processing."""
    command_s: float = 0.0


@contextmanager
def live_site(folder: Path, testbed: JoseTestbed) -> Iterator[FlowSite]:
    """Run a cloud server, two edge servers in the first net and one in the other.

    `testbed` has the most devices that any trial on it will have.
    """
    homes = {HEARER: _BROKERS[0]}
    for net, count in enumerate((testbed.devices, testbed.other_devices)):
        homes |= {_device(net, number): _BROKERS[net] for number in range(count)}
    edge_ms, cloud_ms = 500 * testbed.edge_rtt_s, 500 * testbed.cloud_rtt_s
    nets = [".".join(net) for net in EDGE_NETS]
    layout = FlowLayout(
        edges={"a1": 0.0, _REPLICA_SERVER: edge_ms, "b1": cloud_ms},
        homes=homes,
        cloud_ms=cloud_ms,
        has_distances=True,
        nets={"a1": nets[0], _REPLICA_SERVER: nets[0], "b1": nets[1]},
        # the offload is commanded, as in the paper: nobody else may move anything
        flows=FlowsConfig(overloaded=1e6, queue_age_s=1e6, idle_s=1e6),
        wire=replace(ONE_ADDRESS, datagram_limit=testbed.size_bytes + _DATAGRAM_ROOM),
        processors=(_STAMP,),
    )
    with open_flow_site(folder, layout) as site:
        site.live.enrol_clients()
        yield site


def run_live_trial(site: FlowSite, testbed: JoseTestbed, seed: int) -> Trial:
    """Run the experiment once: a flow begun anew, devices, the command at half time."""
    site.run_flow(_COMPONENT)
    frames = asyncio.run(_drive(site, testbed, Random(f"live devices {seed}")))
    return _trial(frames, testbed)


def _device(net: int, number: int) -> str:
    return f"s{net + 1}-{number}"


async def _drive(site: FlowSite, testbed: JoseTestbed, rng: Random) -> _Frames:
    frames = _Frames()
    counts = (testbed.devices, testbed.other_devices)
    devices = [_device(net, at) for net, count in enumerate(counts) for at in range(count)]
    clients = {
        name: Client(
            replace(
                load_credentials(site.live.site.credentials_file(name)),
                datagram_limit=testbed.size_bytes + _DATAGRAM_ROOM,
            )
        )
        for name in (*devices, HEARER)
    }

    def hear(one: Notification) -> None:
        body, server = json.loads(one.payload), one.publisher.rpartition("@")[2]
        frames.heard.append((body["id"], body["received_s"], server))

    clients[HEARER].on_notification(hear)
    try:
        for client in clients.values():
            client.start()
        for client in clients.values():
            await client.wait_connected()
        await clients[HEARER].subscribe(OUTPUT)
        begin_s = time.monotonic() + _LEAD_S
        phases_s = {name: begin_s + rng.uniform(0, testbed.period_s) for name in devices}
        await asyncio.gather(
            *(
                _publish(clients[one], one, at, testbed, frames, rng)
                for one, at in phases_s.items()
            ),
            _command(site, begin_s, testbed, frames),
        )
        await _drain(frames)
    finally:
        await asyncio.gather(
            *(one.close(timeout_s=2.0) for one in clients.values()), return_exceptions=True
        )
    return frames


async def _publish(
    client: Client, name: str, begin_s: float, testbed: JoseTestbed, frames: _Frames, rng: Random
) -> None:
    padding = "x" * testbed.size_bytes
    for number in range(testbed.frames):
        await asyncio.sleep(begin_s + number * testbed.period_s - time.monotonic())
        frame_id = f"{name}:{number}:{rng.getrandbits(48):x}"
        body = json.dumps({"id": frame_id, "pixels": ""})
        body = f'{body[:-2]}{padding[len(body) :]}"}}'
        frames.sent[frame_id] = number, time.monotonic()
        await client.publish(SOURCE, body.encode())


async def _command(site: FlowSite, begin_s: float, testbed: JoseTestbed, frames: _Frames) -> None:
    await asyncio.sleep(begin_s + testbed.frames * testbed.period_s / 2 - time.monotonic())
    frames.command_s = time.monotonic()
    net = ".".join(EDGE_NETS[0])
    await asyncio.to_thread(site.move, CLOUD_SERVER, _REPLICA_SERVER, 0, _SPLIT_AT, net)


async def _drain(frames: _Frames) -> None:
    """Wait until all came out, or nothing has for a while; then for what comes twice."""
    count, since_s = -1, time.monotonic()
    while len(frames.heard) < len(frames.sent) and time.monotonic() < since_s + _QUIET_S:
        if len(frames.heard) > count:
            count, since_s = len(frames.heard), time.monotonic()
        await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)


def _trial(frames: _Frames, testbed: JoseTestbed) -> Trial:
    begin_s = min(sent_s for _, sent_s in frames.sent.values())
    cloud_rtt_ms = 1e3 * testbed.cloud_rtt_s
    arrivals = []
    for frame_id, received_s, server in frames.heard:
        if frame_id.startswith("s1-"):
            number, sent_s = frames.sent[frame_id]
            index = content_index(frame_id)
            assert index is not None  # the id is a text
            receiver = TARGET if server == CLOUD_SERVER else REPLICA
            times = sent_s - begin_s, received_s - begin_s
            arrivals.append(Arrival(number, index, *times, receiver, 0, False))
    # a1 sends straight to the replica from the first frame on that was too quick for any other way
    direct_s = min(
        (one.sent_s for one in arrivals if one.receiver == REPLICA and one.delay_ms < cloud_rtt_ms),
        default=float("inf"),
    )
    return Trial(
        tuple(
            replace(one, left_net=True, went_astray=True)
            if one.receiver == REPLICA and one.sent_s < direct_s
            else one
            for one in arrivals
        ),
        len(frames.sent),
        len(frames.heard),
        0,
        frames.command_s - begin_s,
        _SPLIT_AT,
    )
