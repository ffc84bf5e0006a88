"""The product under test: an edge server, or two, with the clients of a bench enrolled."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from nearcast.experiments.latency.processor import RECENT
from nearcast.experiments.latency.workload import PUBLISHERS, SUBSCRIBERS, TOPICS, topic_name
from nearcast.runtime.config import ProcessorsConfig, SpoolConfig
from nearcast.site.layout import SiteSettings
from nearcast.site.live_site import run_site

__all__ = ["NearcastServer", "run_nearcast"]

_EDGES = ("edge", "edge2")
_SPARE_SESSIONS = 1_000
_ENROLLED_AT_ONCE = 1_000
"""The manager refuses a request of more than a megabyte."""


@dataclass(frozen=True, slots=True)
class NearcastServer:
    """A server that runs."""

    pids: dict[str, int]
    """Edge servers by name; their helper processes are their children."""
    publishers: Sequence[Path]
    """Credential files."""
    subscribers: Sequence[Path]


@contextmanager
def run_nearcast(
    *,
    inline: bool = True,
    two_edges: bool = False,
    publishers: int = PUBLISHERS,
    subscribers: int = SUBSCRIBERS,
    topics: int = TOPICS,
) -> Iterator[NearcastServer]:
    """Run edge servers with the processor of this bench, gone after the block.

    Parameters
    ----------
    inline
        Whether the processor works in the server's loop or in a child process.
    two_edges
        Whether subscribers have an edge server of their own; brokers stay with the publishers.
    """
    names = _EDGES[: 1 + two_edges]
    senders = [f"publisher{index}" for index in range(publishers)]
    receivers = [f"subscriber{index}" for index in range(subscribers)]
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as text:
        folder = Path(text)
        _write_scenario(folder / "scenario", names, senders, receivers, topics)
        _write_plan(folder / "plan", names, senders, receivers)
        defaults = SiteSettings()
        options = SiteSettings(
            plan=folder / "plan",
            delay_factor=0.0,
            processor=RECENT,
            segment_mb=SpoolConfig().segment_mb,
            wire=replace(defaults.wire, session_limit=publishers + subscribers + _SPARE_SESSIONS),
            processors=ProcessorsConfig(
                inline=(*ProcessorsConfig().inline, *((RECENT,) if inline else ()))
            ),
        )
        with run_site(folder / "scenario", folder / "site", options) as live:
            everybody = [*senders, *receivers]
            for first in range(0, len(everybody), _ENROLLED_AT_ONCE):
                live.enrol_clients(everybody[first : first + _ENROLLED_AT_ONCE])
            yield NearcastServer(
                {name: live.processes.pid(name) for name in names},
                [live.site.credentials_file(one) for one in senders],
                [live.site.credentials_file(one) for one in receivers],
            )


def _write_scenario(
    folder: Path,
    edges: Sequence[str],
    publishers: Sequence[str],
    subscribers: Sequence[str],
    topics: int,
) -> None:
    folder.mkdir(parents=True)
    (folder / "scenario.json").write_text('{"name": "bench", "width_km": 1, "height_km": 1}\n')
    servers = "".join(f"{name},0.5,0.5,1000000,100000000\n" for name in edges)
    (folder / "servers.csv").write_text("server_id,x_km,y_km,storage,compute\n" + servers)
    clients = "".join(f"{name},0.5,0.5\n" for name in (*publishers, *subscribers))
    (folder / "clients.csv").write_text("client_id,x_km,y_km\n" + clients)
    names = [topic_name(number) for number in range(topics)]
    (folder / "topics.csv").write_text(
        "topic_id,spool\n" + "".join(f"{name},100\n" for name in names)
    )
    members = [f"{topic},{one},1,0\n" for topic in names for one in publishers]
    members += [f"{topic},{one},0,1\n" for topic in names for one in subscribers]
    (folder / "members.csv").write_text(
        "topic_id,client_id,publishes,subscribes\n" + "".join(members)
    )


def _write_plan(
    folder: Path, edges: Sequence[str], publishers: Sequence[str], subscribers: Sequence[str]
) -> None:
    """Put publishers, and so the brokers, at the first edge, and subscribers at the last one."""
    folder.mkdir(parents=True)
    homes = [f"{one},{edges[0]}\n" for one in publishers]
    homes += [f"{one},{edges[-1]}\n" for one in subscribers]
    (folder / "homes.csv").write_text("client_id,server_id\n" + "".join(homes))
