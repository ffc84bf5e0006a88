"""Mercury's echo test: client - edge - broker - back, at rising rates, until it breaks.

A message is published durably, spooled and processed by the `echo` processor, and its publisher is
notified: the time from one to the other is the round trip. In the same seconds bare UDP sockets
are measured: what the machine lets anybody do (`MachineNoise`).
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nearcast.experiments.machine_noise import MachineNoise, Noise
from nearcast.experiments.percentiles import percentile
from nearcast.links.garbage import freeze_gc
from nearcast.runtime.config import SpoolConfig
from nearcast.sdk import Notification
from nearcast.sdk.client import Client
from nearcast.sdk.credentials import Credentials
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.layout import SiteSettings
from nearcast.site.live_site import run_site

__all__ = ["PROTOTYPE_MEDIAN_MS", "RATES_HZ", "EchoPoint", "run", "summary"]

RATES_HZ = (1, 10, 100, 250, 500, 750, 1000)
PROTOTYPE_MEDIAN_MS = {1: 12.0, 10: 453.0, 500: 949.0, 1000: 6300.0}
"""Medians that Mercury's authors measured with their prototype."""
_KNEE_RATES_HZ = (2000, 3000, 4000, 6000, 8000, 12000)
_KNEE_P99_MS = 50.0
_CLIENTS = 50
_TOPICS = 20
_PAYLOAD_BYTES = 200
_DRAIN_S = 3.0
_WARM_UP_S = 1.0
"""At the same rate, before the measurement; not counted."""
_TICK_S = 0.001


@dataclass(frozen=True, slots=True)
class EchoPoint:
    """Round trips at one rate."""

    rate_hz: int
    sent: int
    returned: int
    achieved_hz: float
    """What the load generator managed to send."""
    median_ms: float
    p99_ms: float
    p999_ms: float
    largest_ms: float
    acknowledged: int
    """Publications that were durable at the end."""
    raw_median_ms: float
    """Of bare UDP sockets in the same seconds."""
    raw_p99_ms: float
    stolen_percent: float | None
    """CPU time that the machine's host gave to others meanwhile; None where nobody tells."""
    quiet_percent: float
    """Round trips near which nothing was stolen."""
    quiet_p99_ms: float
    """Of these."""
    is_knee: bool = False
    """The first rate at which the p99 passes 50 ms or something is lost."""


def run(
    rates_hz: Sequence[int] = RATES_HZ,
    *,
    seconds: float = 10.0,
    find_knee: bool = True,
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[EchoPoint]:
    """Measure each rate for a while, then go on until the knee."""
    import uvloop

    with tempfile.TemporaryDirectory(prefix="nearcast-echo-") as text:
        folder = Path(text)
        _write_scenario(folder / "scenario")
        options = SiteSettings(
            method="nearest",
            delay_factor=0.0,
            processor_rules=(ProcessorRule("#", "echo"),),
            segment_mb=SpoolConfig().segment_mb,
        )
        begin("starting the site")
        with (
            run_site(folder / "scenario", folder / "site", options) as live,
            MachineNoise() as machine,
        ):
            credentials = list(live.enrol_clients().values())
            planned = [*rates_hz, *(_KNEE_RATES_HZ if find_knee else ())]
            for rate_hz in planned:
                begin(f"{rate_hz:,} messages/s")
                load = uvloop.run(_round_trips(credentials, rate_hz, seconds, machine))
                point = _point(rate_hz, load, in_search=rate_hz not in rates_hz)
                yield point
                if point.is_knee:
                    return


def summary(points: Sequence[EchoPoint]) -> list[dict[str, object]]:
    """Return the table: round trips by rate, beside the bare socket and the prototype."""
    return [
        {
            "messages/s": point.rate_hz,
            "sent": point.sent,
            "lost": point.sent - point.returned,
            "median, ms": point.median_ms,
            "p99, ms": point.p99_ms,
            "p99.9, ms": point.p999_ms,
            "durable": point.acknowledged,
            "bare UDP p99, ms": point.raw_p99_ms,
            "stolen, %": point.stolen_percent,
            "p99 unstolen, ms": point.quiet_p99_ms,
            "Mercury's median, ms": PROTOTYPE_MEDIAN_MS.get(point.rate_hz),
            "knee": "here" if point.is_knee else "",
        }
        for point in points
    ]


class _RoundTrip(NamedTuple):
    arrived_s: float
    total_ms: float


@dataclass(slots=True)
class _Load:
    sent: int
    seconds: float
    round_trips: list[_RoundTrip]
    acknowledged: int
    noise: Noise


async def _round_trips(
    credentials: Sequence[Credentials], rate_hz: int, seconds: float, machine: MachineNoise
) -> _Load:
    found: list[_RoundTrip] = []

    def note(notification: Notification) -> None:
        found.append(_RoundTrip(time.time(), notification.total_ms or math.nan))

    clients = [Client(one, timeout_s=30.0) for one in credentials]
    try:
        for client in clients:
            client.on_notification(note)
            client.start()
        await asyncio.gather(*(client.wait_connected() for client in clients))
        topics = [f"t{index % _TOPICS}" for index in range(len(clients))]
        await asyncio.gather(
            *(client.subscribe(topic) for client, topic in zip(clients, topics, strict=True))
        )
        freeze_gc()
        payload = b"e" * _PAYLOAD_BYTES
        total = max(1, round(rate_hz * seconds))

        def send(number: int) -> None:
            at = number % len(clients)
            clients[at].publish_now(topics[at], payload)

        warm_up = max(1, round(rate_hz * _WARM_UP_S))
        await _paced(warm_up, rate_hz, send)
        await _until(lambda: len(found) >= warm_up, _DRAIN_S)
        found.clear()
        machine.begin()
        took_s = await _paced(total, rate_hz, send)
        await _until(lambda: len(found) >= total, _DRAIN_S)
        noise = machine.end()
        # acknowledgements follow the sync, which notifications do not wait for
        await _until(lambda: not any(client.unacknowledged for client in clients), _DRAIN_S)
        left = sum(client.unacknowledged for client in clients)
        return _Load(total, took_s, found, total - left, noise)
    finally:
        await asyncio.gather(
            *(client.close(timeout_s=1.0) for client in clients), return_exceptions=True
        )


async def _paced(total: int, rate_hz: int, send: Callable[[int], None]) -> float:
    """Send at an even pace whatever comes back; return how long it took."""
    started_s = time.monotonic()
    sent = 0
    while sent < total:
        due = min(total, int((time.monotonic() - started_s) * rate_hz) + 1)
        while sent < due:
            send(sent)
            sent += 1
        next_s = started_s + sent / rate_hz
        await asyncio.sleep(max(_TICK_S, next_s - time.monotonic()))
    return time.monotonic() - started_s


async def _until(is_done: Callable[[], bool], limit_s: float) -> None:
    end_s = time.monotonic() + limit_s
    while not is_done() and time.monotonic() < end_s:  # noqa: ASYNC110 - counts, no event
        await asyncio.sleep(0.02)


def _point(rate_hz: int, load: _Load, *, in_search: bool) -> EchoPoint:
    found = [one.total_ms for one in load.round_trips]
    quiet = [
        one.total_ms
        for one in load.round_trips
        if load.noise.is_quiet(one.arrived_s - one.total_ms / 1e3, one.arrived_s)
    ]
    p99_ms = percentile(found, 0.99)
    broken = p99_ms > _KNEE_P99_MS or len(found) < load.sent
    return EchoPoint(
        rate_hz=rate_hz,
        sent=load.sent,
        returned=len(found),
        achieved_hz=load.sent / max(load.seconds, 1.0 / rate_hz),
        median_ms=percentile(found, 0.5),
        p99_ms=p99_ms,
        p999_ms=percentile(found, 0.999),
        largest_ms=max(found, default=math.nan),
        acknowledged=load.acknowledged,
        raw_median_ms=load.noise.median_ms,
        raw_p99_ms=load.noise.p99_ms,
        stolen_percent=load.noise.stolen_percent,
        quiet_percent=100 * len(quiet) / max(1, len(found)),
        quiet_p99_ms=percentile(quiet, 0.99),
        is_knee=in_search and broken,
    )


def _write_scenario(folder: Path) -> None:
    """Write a scenario of one edge server in the middle of its clients."""
    folder.mkdir(parents=True)
    (folder / "scenario.json").write_text('{"name": "echo", "width_km": 1, "height_km": 1}\n')
    (folder / "servers.csv").write_text(
        "server_id,x_km,y_km,storage,compute\ne1,0.5,0.5,1000000,100000000\n"
    )
    clients = "".join(f"c{index},0.5,0.5\n" for index in range(_CLIENTS))
    (folder / "clients.csv").write_text("client_id,x_km,y_km\n" + clients)
    topics = "".join(f"t{index},100\n" for index in range(_TOPICS))
    (folder / "topics.csv").write_text("topic_id,spool\n" + topics)
    members = "".join(f"t{index % _TOPICS},c{index},1,1\n" for index in range(_CLIENTS))
    (folder / "members.csv").write_text("topic_id,client_id,publishes,subscribes\n" + members)
