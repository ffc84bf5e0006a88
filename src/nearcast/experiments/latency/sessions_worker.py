"""The load process of ``bench sessions``: clients that only say where they are.

As many have their home elsewhere and ask this server now and then which servers were revoked.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from nearcast.experiments.latency.nearcast_connections import NearcastConnections
from nearcast.experiments.latency.pacing import Pacer
from nearcast.experiments.latency.process_usage import cpu_seconds, pss_mb
from nearcast.experiments.latency.questions import Questions

_SESSIONS_PER_SOCKET = 500
_SETTLE_S = 2.0


def measure(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what idle sessions cost the server."""
    began_s = time.monotonic()
    connections = NearcastConnections(
        [],
        [Path(one) for one in asked["clients"]],
        sessions_per_socket=_SESSIONS_PER_SOCKET,
        topics=0,
    )
    connect_s = time.monotonic() - began_s
    gc.collect()
    gc.freeze()
    pacer = Pacer(connections)
    pacer.wait(lambda: False, _SETTLE_S)
    questions = Questions(len(connections.sessions), connections.sessions[0].home)
    before, own_s, began_s = cpu_seconds(asked["pids"]), time.process_time(), time.monotonic()
    pacer.wait(questions.ask, asked["seconds"])
    took_s, own_s = time.monotonic() - began_s, time.process_time() - own_s
    cpu_s = sum(cpu_seconds(asked["pids"]).values()) - sum(before.values())
    found = {
        "connect_s": connect_s,
        "cpu_percent": 100 * cpu_s / took_s,
        "mb": sum(map(pss_mb, asked["pids"].values())),
        "disconnections": sum(one.disconnections for one in connections.sessions),
        "load_cpu_percent": 100 * own_s / took_s,
        "questions": questions.asked,
        "questions_answered": questions.answered,
    }
    questions.close()
    connections.close()
    return found


def main() -> None:
    """Measure what stdin asks for."""
    gc.disable()
    sys.stdout.write(json.dumps(measure(json.load(sys.stdin))) + "\n")


if __name__ == "__main__":
    main()
