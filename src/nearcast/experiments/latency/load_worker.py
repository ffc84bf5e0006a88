"""The load process: one system, one rate; a JSON object on stdin, another one on stdout."""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from nearcast.experiments.latency.arrivals import count
from nearcast.experiments.latency.connections import Connections
from nearcast.experiments.latency.pacing import Pacer
from nearcast.experiments.latency.process_usage import cpu_seconds
from nearcast.experiments.latency.tcp_connections import TcpConnections
from nearcast.experiments.latency.workload import PUBLISHERS, TOPICS, make_payload
from nearcast.experiments.machine_noise import stolen_s
from nearcast.experiments.percentiles import percentile
from nearcast.links.fine_timer import sleep_exactly

_PROBES = 1 << 40
_WARM_UP = 1 << 41
"""First numbers of messages that are not counted."""
_DRAIN_S = 5.0
_START_S = 60.0
_PROBE_S = 0.25


def open_connections(target: dict[str, Any]) -> Connections:
    """Return the connections to a system."""
    match target["kind"]:
        case "nats":
            from nearcast.experiments.latency.nats_protocol import NatsProtocol

            return TcpConnections(target["port"], NatsProtocol())
        case "mqtt":
            from nearcast.experiments.latency.mqtt_protocol import MqttProtocol

            return TcpConnections(target["port"], MqttProtocol())
        case "zenoh":
            sys.path.append(target["packages"])
            from nearcast.experiments.latency.zenoh_connections import ZenohConnections

            return ZenohConnections(f"tcp/127.0.0.1:{target['port']}")
        case _:
            from nearcast.experiments.latency.nearcast_connections import NearcastConnections

            return NearcastConnections(
                [Path(one) for one in target["publishers"]],
                [Path(one) for one in target["subscribers"]],
            )


def wait_until_through(connections: Connections, pacer: Pacer) -> None:
    """Send probes until each subscriber has heard all topics: then everybody is connected."""
    probes = TOPICS * PUBLISHERS
    for attempt in range(round(_START_S / _PROBE_S)):
        first = _PROBES + attempt * probes
        for number in range(first, first + probes):
            connections.publish(number, make_payload(time.monotonic_ns(), number))
        connections.flush()
        wanted = probes * len(connections.heard)
        if pacer.wait(_arrived(connections, first, first + probes, wanted), _PROBE_S):
            return
    raise RuntimeError(f"the system did not pass messages on within {_START_S:.0f} s")


def measure(target: dict[str, Any], rate_hz: float, seconds: float, warm_up_s: float) -> Any:
    """Return what happened at a rate."""
    connections = open_connections(target)
    pacer = Pacer(connections)
    wait_until_through(connections, pacer)
    warm_up = round(rate_hz * warm_up_s)
    total = max(1, round(rate_hz * seconds))
    if warm_up:
        pacer.send(_WARM_UP, warm_up, rate_hz)
        _drain(connections, pacer, _WARM_UP, _WARM_UP + warm_up)
    for heard in connections.heard:
        heard.at_ns.clear()
        heard.heads.clear()
    gc.collect()
    gc.freeze()
    before, own_s, stolen = cpu_seconds(target["pids"]), time.process_time(), stolen_s()
    began_s = time.monotonic()
    late_ns = pacer.send(0, total, rate_hz)
    _drain(connections, pacer, 0, total)
    took_s, own_s = time.monotonic() - began_s, time.process_time() - own_s
    after, stolen_after = cpu_seconds(target["pids"]), stolen_s()
    counted = count(connections.heard, 0, total)
    result = {
        "sent": total,
        "lost": total * len(connections.heard) - len(counted.delays_ms),
        "repeated": counted.repeated,
        "unacknowledged": connections.unacknowledged(),
        "p50_ms": counted.percentile_ms(0.5),
        "p99_ms": counted.percentile_ms(0.99),
        "p999_ms": counted.percentile_ms(0.999),
        "achieved_hz": total / (total / rate_hz + late_ns[-1] / 1e9),
        "send_late_p99_ms": percentile(late_ns, 0.99) / 1e6,
        "cpu_s": {label: after[label] - before.get(label, 0.0) for label in after},
        "load_cpu_s": own_s,
        "seconds": took_s,
        "stolen_s": None if stolen is None or stolen_after is None else stolen_after - stolen,
    }
    connections.close()
    return result


def _drain(connections: Connections, pacer: Pacer, first: int, end: int) -> None:
    """Wait for all notifications and acknowledgements, but not for ever."""
    arrived = _arrived(connections, first, end, (end - first) * len(connections.heard))
    pacer.wait(lambda: not connections.unacknowledged() and arrived(), _DRAIN_S)


def _arrived(connections: Connections, first: int, end: int, wanted: int) -> Any:
    """Return what tells whether so many notifications are there; repeated ones do not count."""
    looked_at = -1

    def is_complete() -> bool:
        nonlocal looked_at
        known = sum(len(one.heads) for one in connections.heard)
        if known < wanted or known == looked_at:
            return False
        looked_at = known
        return len(count(connections.heard, first, end).delays_ms) >= wanted

    return is_complete


def main() -> None:
    """Measure what stdin asks for."""
    sleep_exactly()  # to oversleep would count as delay
    gc.disable()
    asked = json.load(sys.stdin)
    found = measure(asked["target"], asked["rate_hz"], asked["seconds"], asked["warm_up_s"])
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
