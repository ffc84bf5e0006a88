"""One message to many subscribers: how long the last one waits, and what it costs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nearcast.experiments.latency.fanout_bound import group_bound_us, unicast_bound_us
from nearcast.experiments.latency.nearcast_server import run_nearcast
from nearcast.experiments.latency.target import ask_worker
from nearcast.wire.group_settings import GroupSettings

__all__ = ["GOAL_SUBSCRIBERS", "GOAL_US", "GROUP", "UNICAST", "WAYS", "FanoutPoint", "run", "steps"]

UNICAST = "unicast"
GROUP = "group"
WAYS = (UNICAST, GROUP)
_GROUP = "239.192.7.1"
_LEAST = GroupSettings(_GROUP, 7401).least_receivers
GOAL_SUBSCRIBERS = 1_000
GOAL_US = 8.0
"""CPU time of the server per notification, at so many subscribers."""


@dataclass(frozen=True, slots=True)
class FanoutPoint:
    """Medians over messages that were sent one after the other."""

    way: str
    """How they are told: each in its session, or by multicast."""
    subscribers: int
    messages: int
    first_ms: float
    """Until the first subscriber had it."""
    last_ms: float
    """Until the last one had it."""
    lost: int
    cpu_us_per_notification: float
    """Of all server processes, receipts and reports included."""
    added_cpu_us_per_notification: float
    """The same without what the sessions take while nothing is sent: reports, above all."""
    bound_cpu_us_per_notification: float
    """The least: what sealing and sending alone took here, see `fanout_bound`."""
    load_cpu_us_per_notification: float
    datagrams_per_message: float
    """That the server sent with notifications; beacons and repetitions of the group count."""
    group_share: float
    """Of the notifications that came by multicast, not in a session."""
    open_us: float
    """CPU time of one receiver to open a datagram of the group and check its signature; in the
    load process that is done once for all sessions of a socket."""


def run(
    subscribers: Sequence[int],
    *,
    messages: int = 30,
    ways: Sequence[str] = WAYS,
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[FanoutPoint]:
    """Measure each number of subscribers on one edge server; few are never told by group."""
    for way in ways:
        counts = [one for one in subscribers if way == UNICAST or one >= _LEAST]
        if not counts:
            continue
        begin(f"starting the server, {way}")
        group = f"{_GROUP}:{_free_port()}" if way == GROUP else ""
        with run_nearcast(publishers=1, subscribers=max(counts), topics=1, group=group) as server:
            for count in counts:
                begin(f"{count:,} subscribers, {way}")
                question = {
                    "publishers": [str(one) for one in server.publishers],
                    "subscribers": [str(one) for one in server.subscribers[:count]],
                    "messages": messages,
                    "pids": server.pids,
                    "group": bool(group),
                }
                bound_us = group_bound_us(count) if group else unicast_bound_us()
                found = ask_worker("fanout_worker", question)
                yield FanoutPoint(
                    way, count, messages, bound_cpu_us_per_notification=bound_us, **found
                )


def steps(subscribers: Sequence[int], ways: Sequence[str]) -> int:
    """Return how often `run` says what it begins."""
    counts = [sum(way == UNICAST or one >= _LEAST for one in subscribers) for way in ways]
    return sum(1 + one for one in counts if one)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind((_GROUP, 0))
        port: int = found.getsockname()[1]
        return port
