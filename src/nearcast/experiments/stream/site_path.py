"""From a client of a site to another, with Kafka between them: echoes, and alerts of events.

A client publishes, its server writes the publication to Kafka, a program there makes an alert of it,
and `nearcast kafka bridge` has the server tell its subscribers: the way of seed 003's messages.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path

from nearcast.errors import NearcastError
from nearcast.experiments.echo_rate import PROTOTYPE_MEDIAN_MS
from nearcast.experiments.latency.nearcast_server import run_nearcast
from nearcast.experiments.percentiles import percentile
from nearcast.experiments.stream.points import Case, StreamPoint
from nearcast.experiments.stream.subjects import BRIDGE, SITE_ECHO, Subject
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.sdk import Notification, load_credentials
from nearcast.sdk.client import Client

__all__ = ["measure_site_path"]

_PUBLISHERS, _TOPICS = 20, 80
"""The bridge, a client, may publish to 100. An event broker counts two emergencies of a vehicle in
three seconds: that is 1,000 messages per second of all to all topics."""
_PLACE_KM = (5.0, 5.0)
_PAYLOAD = json.dumps({"position": _PLACE_KM, "speed": 0, "event": "emergency"}).encode()
_BEFORE = "alerts/"
_WARM_S = 4.0
_FIRST_WITHIN_S = 60.0
_DRAIN_S = 30.0
_LOOK_S = 0.02
_TICK_S = 0.001


def measure_site_path(
    case: Case, settings: KafkaSettings, folder: Path, seconds: float
) -> StreamPoint:
    """Run a server, a program that makes alerts, and the bridge; measure what clients see."""
    import uvloop

    words = ["--kafka", settings.bootstrap, "--kafka-prefix", settings.prefix]
    words += ["--kafka-events", "road/#"]
    with run_nearcast(
        publishers=_PUBLISHERS, subscribers=2, processor="forward", more=words
    ) as server:
        sign, service = server.subscribers
        with (
            Subject(case.mode, settings, folder) as maker,
            Subject(BRIDGE, settings, folder, service) as bridge,
        ):

            def check() -> None:
                maker.check()
                bridge.check()

            return uvloop.run(_drive(case, server.publishers, sign, seconds, check))


async def _drive(
    case: Case, publishers: Sequence[Path], sign: Path, seconds: float, check: Callable[[], None]
) -> StreamPoint:
    waiting: defaultdict[str, deque[float]] = defaultdict(deque)
    """By topic: when messages were sent whose alerts did not come yet; each topic is in order."""
    delays: list[tuple[float, float]] = []
    doubled = 0

    def note(notification: Notification) -> None:
        nonlocal doubled
        sent = waiting[notification.topic.removeprefix(_BEFORE)]
        if not sent:
            doubled += 1
            return
        sent_s = sent.popleft()
        delays.append((sent_s, (time.monotonic() - sent_s) * 1e3))

    clients = [Client(load_credentials(one), timeout_s=30.0) for one in publishers]
    listener = Client(load_credentials(sign), timeout_s=30.0)
    listener.on_notification(note)
    everybody = [*clients, listener]
    try:
        for one in everybody:
            one.start()
        await asyncio.gather(*(one.wait_connected() for one in everybody))
        listener.report(*_PLACE_KM, at_once=True)
        await listener.subscribe(f"{_BEFORE}road/#")

        def send(number: int) -> None:
            turn, topic = divmod(number, _TOPICS)
            waiting[f"road/{topic}"].append(time.monotonic())
            clients[turn % _PUBLISHERS].publish_now(f"road/{topic}", _PAYLOAD)

        send(0)
        if not await _until(lambda: bool(delays), _FIRST_WITHIN_S, check):
            raise NearcastError(f"no alert came within {_FIRST_WITHIN_S:.0f} s")
        warm = round(case.rate * _WARM_S)
        total = warm + round(case.rate * seconds)
        since_s = await _paced(1, 1 + total, case.rate, send, since=1 + warm)
        await _until(lambda: len(delays) > total, _DRAIN_S, check)
        check()
    finally:
        await asyncio.gather(
            *(one.close(timeout_s=1.0) for one in everybody), return_exceptions=True
        )
    measured = [delay_ms for sent_s, delay_ms in delays if sent_s >= since_s]
    return StreamPoint(
        case.mode,
        case.rate,
        percentile(measured, 0.5) if measured else None,
        percentile(measured, 0.99) if measured else None,
        lost=sum(map(len, waiting.values())),
        doubled=doubled,
        wrong=0,
        alerts=1 + total,
        events=1 + total,
        mercury_p50_ms=PROTOTYPE_MEDIAN_MS.get(case.rate) if case.mode == SITE_ECHO else None,
        note="from client to client of a site",
    )


async def _paced(
    first: int, end: int, rate_hz: int, send: Callable[[int], None], since: int
) -> float:
    """Send at an even pace whatever comes back; return when the one numbered `since` was due."""
    started_s, number = time.monotonic(), first
    while number < end:
        due = min(end, first + 1 + int((time.monotonic() - started_s) * rate_hz))
        while number < due:
            send(number)
            number += 1
        next_s = started_s + (number - first) / rate_hz
        await asyncio.sleep(max(_TICK_S, next_s - time.monotonic()))
    return started_s + (since - first) / rate_hz


async def _until(is_done: Callable[[], bool], limit_s: float, check: Callable[[], None]) -> bool:
    end_s = time.monotonic() + limit_s
    while not is_done():  # counts, no event
        if time.monotonic() >= end_s:
            return False
        check()
        await asyncio.sleep(_LOOK_S)
    return True
