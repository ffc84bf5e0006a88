"""The receiving process of ``bench sdk``: a client as programs have it, and a child that sends."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from nearcast.experiments.latency.bare_receiver import cpu_us_per_datagram
from nearcast.experiments.latency.nearcast_connections import NearcastConnections
from nearcast.experiments.latency.pacing import Pacer
from nearcast.experiments.latency.workload import TOPICS, topic_name
from nearcast.sdk.client import Client

_START_S = 60.0
_LOST_S = 5.0
_WARM_UP = 5 * TOPICS
"""Messages before those that count."""


def send(asked: dict[str, Any], begin: Connection) -> None:
    """Be the publishers: connect, wait for the word, send."""
    connections = NearcastConnections([Path(one) for one in asked["publishers"]], [])
    pacer = Pacer(connections)
    begin.recv()
    pacer.send(0, _WARM_UP + asked["messages"], asked["rate_hz"])
    pacer.wait(lambda: not connections.unacknowledged(), _LOST_S)
    connections.close()


async def receive(asked: dict[str, Any], begin: Connection) -> dict[str, Any]:
    """Return what the notifications cost this process."""
    wanted = _WARM_UP + asked["messages"]
    heard, before_s = 0, 0.0
    async with Client.connect(asked["subscriber"], timeout_s=_START_S) as client:
        for number in range(TOPICS):
            await client.subscribe(topic_name(number))
        begin.send(None)
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_S + wanted / asked["rate_hz"] + _LOST_S):
                async for _ in client.notifications():
                    heard += 1
                    if heard == _WARM_UP:
                        before_s = time.process_time()
                    elif heard == wanted:
                        break
        cpu_s = time.process_time() - before_s
    if heard <= _WARM_UP:
        raise RuntimeError(f"only {heard} notifications came")
    return {
        "sent": asked["messages"],
        "lost": wanted - heard,
        "cpu_us_per_notification": cpu_s * 1e6 / (heard - _WARM_UP),
    }


def main() -> None:
    """Measure what stdin asks for."""
    asked = json.load(sys.stdin)
    context = get_context("fork")
    mine, theirs = context.Pipe()
    sender = context.Process(target=send, args=(asked, theirs))
    sender.start()
    found = asyncio.run(receive(asked, mine))
    sender.join()
    bound_us = cpu_us_per_datagram(asked["rate_hz"], asked["messages"])
    found["bound_cpu_us_per_notification"] = bound_us
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
