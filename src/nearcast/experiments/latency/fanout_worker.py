"""The load process of ``bench fanout``: one message after the other to many subscribers."""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from nearcast.experiments.latency.nearcast_connections import NearcastConnections
from nearcast.experiments.latency.pacing import Pacer
from nearcast.experiments.latency.process_usage import cpu_seconds
from nearcast.experiments.latency.workload import TOPICS, make_payload

_SESSIONS_PER_SOCKET = 50
_LOST_S = 5.0
_PROBE_AFTER_S = 20.0
"""Clients report every ten seconds, and hear the server's answer: there is no need to ask more."""
_IDLE_S = 3.0
"""How long the server is watched before the first message: its clients report all the time."""
_PAUSE_S = 0.1
"""From one message to the next. Subscribers gather receipts for some 150 ms, so that one may tell of
two messages, and those of the last message are not counted."""


def measure(asked: dict[str, Any]) -> dict[str, Any]:
    """Return how long the first and the last subscriber wait, and what it costs the server."""
    connections = NearcastConnections(
        [Path(one) for one in asked["publishers"]],
        [Path(one) for one in asked["subscribers"]],
        sessions_per_socket=_SESSIONS_PER_SOCKET,
        topics=1,
        probe_after_s=_PROBE_AFTER_S,
    )
    if asked["group"]:
        connections.join_group(_SESSIONS_PER_SOCKET)
    pacer = Pacer(connections)
    gc.collect()
    gc.freeze()
    _send(connections, pacer, 0)  # the first message makes the server load what it needs
    sent, by_group = connections.datagrams(), sum(one.by_group for one in connections.heard)
    idle_share = _idle_share(pacer, asked["pids"])
    began_s = time.monotonic()
    before, own_s = cpu_seconds(asked["pids"]), time.process_time()
    waits = [_send(connections, pacer, 1 + index) for index in range(asked["messages"])]
    own_s = time.process_time() - own_s
    after, took_s = cpu_seconds(asked["pids"]), time.monotonic() - began_s
    notifications = asked["messages"] * len(connections.heard)
    cpu_s = sum(after.values()) - sum(before.values())
    openers = connections.group_openers()
    opened = sum(one.opened for one in openers)
    found = {
        "first_ms": median(one[0] for one in waits),
        "last_ms": median(one[1] for one in waits),
        "lost": sum(one[2] for one in waits),
        "cpu_us_per_notification": cpu_s * 1e6 / notifications,
        "added_cpu_us_per_notification": (cpu_s - idle_share * took_s) * 1e6 / notifications,
        "load_cpu_us_per_notification": own_s * 1e6 / notifications,
        "datagrams_per_message": (connections.datagrams() - sent) / asked["messages"],
        "group_share": (sum(one.by_group for one in connections.heard) - by_group) / notifications,
        "open_us": sum(one.seconds for one in openers) * 1e6 / opened if opened else 0.0,
    }
    connections.close()
    return found


def _idle_share(pacer: Pacer, pids: dict[str, int]) -> float:
    """Return which part of a core the server takes while nothing is published."""
    began_s, before = time.monotonic(), cpu_seconds(pids)
    pacer.wait(lambda: False, _IDLE_S)
    cpu_s = sum(cpu_seconds(pids).values()) - sum(before.values())
    return cpu_s / (time.monotonic() - began_s)


def _send(connections: NearcastConnections, pacer: Pacer, number: int) -> tuple[float, float, int]:
    """Return the delays to the first and to the last subscriber in ms, and how many got nothing."""
    for heard in connections.heard:
        heard.heads.clear()
        heard.at_ns.clear()
    began_ns = time.monotonic_ns()
    connections.publish(number * TOPICS, make_payload(began_ns, number))
    connections.flush()
    waiting = list(connections.heard)

    def is_done() -> bool:
        while waiting and waiting[-1].at_ns:
            waiting.pop()
        return not waiting

    pacer.wait(is_done, _LOST_S)
    at_ns = [one.at_ns[0] for one in connections.heard if one.at_ns]
    pacer.wait(lambda: False, _PAUSE_S)
    lost = len(connections.heard) - len(at_ns)
    if not at_ns:
        return float("nan"), float("nan"), lost
    return (min(at_ns) - began_ns) / 1e6, (max(at_ns) - began_ns) / 1e6, lost


def main() -> None:
    """Measure what stdin asks for."""
    gc.disable()
    sys.stdout.write(json.dumps(measure(json.load(sys.stdin))) + "\n")


if __name__ == "__main__":
    main()
