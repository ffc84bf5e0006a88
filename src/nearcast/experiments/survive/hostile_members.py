"""A client with a session and a server of the site that both send anything but sense."""

from __future__ import annotations

import typing
from dataclasses import dataclass, field
from random import Random

import msgspec

from nearcast.errors import WireError
from nearcast.experiments.survive.random_messages import random_value
from nearcast.experiments.survive.trial_site import TrialSite
from nearcast.server.mesh_messages import MeshMessage, encode_mesh
from nearcast.server.peer_channel import PeerFrame, encode_frame
from nearcast.testing.raw_client import RawClient
from nearcast.wire.codec import encode
from nearcast.wire.messages import Close, Message, Publish

__all__ = ["HostileReport", "run_hostile_members"]

_FRAMES = 3
_BATCH = 50
_PLAUSIBLE = 5
_EXTREME_KM = (0.0, 5e-324, -1e4, 1e4, 1e308)
_EXTREME_US = (0, 1, 1 << 53, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_INCARNATION = 2
_TOPIC = "extreme"
"""No orders name it: it is processed where it is published."""
_SESSION_DATAGRAMS = 1_000


@dataclass(slots=True)
class HostileReport:
    """What became of them."""

    inputs: int = 0
    violations: list[str] = field(default_factory=list)


def run_hostile_members(count: int, seed: int) -> HostileReport:
    """Send messages of all types with random and extreme values, sealed and numbered as they must.

    Nothing may raise, and afterwards the site serves its other clients as before.
    """
    report, trial = HostileReport(), TrialSite(seed, subscribers=1, is_in_order=True)
    trial.start()
    trial.site.clients["s0"].subscribe(_TOPIC)
    trial.site.run(1.0)
    rng, played = Random(seed), trial.site.clients["p1"]
    home = trial.site.servers["e0"].home
    hostile = RawClient(trial.site, "p1", played.key, home, played.credential)
    while report.inputs < count and len(report.violations) < 10:
        try:
            _send_as_client(trial, hostile, rng)
            _send_as_server(trial, 1 + report.inputs // 2, rng)
            trial.site.run(0.05)
        except Exception as error:  # a shell would lose the event: that is what must not happen
            report.violations.append(f"{error!r}, seed {seed}, input {report.inputs}")
        report.inputs += 2 * _BATCH
    _check_service(trial, report)
    return report


def _send_as_client(trial: TrialSite, hostile: RawClient, rng: Random) -> None:
    """Send sealed datagrams with frames of any type."""
    if hostile.channel is None or len(hostile.sent) % _SESSION_DATAGRAMS == 0:
        hostile.connect()  # a first session, and another one now and then
        trial.site.run(0.1)
    kinds = [one for one in typing.get_args(Message) if one is not Close]
    for _ in range(_BATCH):
        frames = b"".join(_frame(kinds, rng) for _ in range(_FRAMES))
        hostile.send(hostile.seal(frames[:1_100]))
    for _ in range(_PLAUSIBLE):
        # the first of a new epoch, so that the broker takes it and subscribers are told
        hostile.epoch += 1
        hostile.send(hostile.seal(encode(_extreme(hostile.epoch, rng))))


def _extreme(epoch: int, rng: Random) -> Publish:
    x_km, y_km = rng.choice(_EXTREME_KM), rng.choice(_EXTREME_KM)
    published_us = rng.choice(_EXTREME_US)
    payload = rng.randbytes(rng.choice((0, 10, 700)))
    return Publish(_TOPIC, epoch, 1, 1, True, payload, True, x_km, y_km, published_us)


def _frame(kinds: list[typing.Any], rng: Random) -> bytes:
    while True:
        try:
            return encode(random_value(rng.choice(kinds), rng))
        except (WireError, OverflowError):
            continue


def _send_as_server(trial: TrialSite, first: int, rng: Random) -> None:
    """Send messages of any type to e0 as if e1 had restarted; they are numbered from `first`."""
    kinds = typing.get_args(MeshMessage)
    contents = []
    for _ in range(_BATCH):
        try:
            contents.append(encode_mesh(random_value(rng.choice(kinds), rng)))
        except (OverflowError, msgspec.MsgspecError):
            contents.append(rng.randbytes(20))
    frame = encode_frame(PeerFrame(_INCARNATION, False, first, first, contents, 0, 0))
    trial.site.servers["e0"].on_mesh("e1", frame)


def _check_service(trial: TrialSite, report: HostileReport) -> None:
    """Restart the server that was played, and see that the others are served."""
    trial.site.servers["e1"].kill()
    trial.site.servers["e1"].restart()
    trial.site.run(20.0)
    before = len(trial.messages)
    trial.publisher_names = ["p0"]
    trial.publish_some(5, 0.5)
    trial.site.run(15.0)
    trial.look()
    last = trial.messages[before:]
    heard = {one.payload.decode() for one in trial.site.clients["s0"].notified}
    report.violations += [
        f"{one.payload!r} not acknowledged" for one in last if not one.acknowledged
    ]
    report.violations += [f"{one.payload!r} not heard" for one in last if one.payload not in heard]
