"""The product under test: an edge server, or two, with the clients of a bench enrolled."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from nearcast.errors import NearcastError
from nearcast.experiments.latency.processor import RECENT
from nearcast.experiments.latency.workload import PUBLISHERS, SUBSCRIBERS, TOPICS, topic_name
from nearcast.runtime.config import ProcessorsConfig, SpoolConfig
from nearcast.sdk.credentials import save_credentials
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.layout import SiteSettings
from nearcast.site.live_site import run_site
from nearcast.site.standalone_folder import StandaloneFolder

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


def run_nearcast(
    *,
    inline: bool = True,
    two_edges: bool = False,
    publishers: int = PUBLISHERS,
    subscribers: int = SUBSCRIBERS,
    topics: int = TOPICS,
    processor: str = RECENT,
    group: str = "",
    more: Sequence[str] = (),
) -> AbstractContextManager[NearcastServer]:
    """Run edge servers with the processor of this bench, gone after the block.

    Parameters
    ----------
    inline
        Whether the processor works in the server's loop or in a child process.
    two_edges
        Whether subscribers have an edge server of their own; brokers stay with the publishers.
    processor
        Of a server alone.
    group
        Multicast group of a server alone, as ADDRESS:PORT; empty: it has none.
    more
        Further options of a server alone.
    """
    senders = [f"publisher{index}" for index in range(publishers)]
    receivers = [f"subscriber{index}" for index in range(subscribers)]
    if two_edges:
        return _run_two_edges(senders, receivers, topics, inline)
    words = [f"--processor={processor}", *more]
    words += [f"--inline-processor={processor}"] if inline else []
    words += [f"--group={group}"] if group else []
    return _run_standalone(senders, receivers, words)


@contextmanager
def _run_standalone(
    senders: Sequence[str], receivers: Sequence[str], more: Sequence[str]
) -> Iterator[NearcastServer]:
    """Run one edge with its helpers and nothing else: what it takes is what an edge takes."""
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as text:
        folder = StandaloneFolder(Path(text) / "data")
        words = [f"--data={folder.path}", "--port=0", "--http-port=0", "--json", *more]
        words += [f"--session-limit={len(senders) + len(receivers) + _SPARE_SESSIONS}"]
        with _process(words, Path(text) / "output") as pid:
            everybody = folder.enrol([*senders, *receivers])
            files = [Path(text) / f"{one.client}.json" for one in everybody]
            for credentials, file in zip(everybody, files, strict=True):
                save_credentials(credentials, file)
            yield NearcastServer({_EDGES[0]: pid}, files[: len(senders)], files[len(senders) :])


@contextmanager
def _process(words: Sequence[str], output: Path) -> Iterator[int]:
    """Run ``nearcast serve standalone`` until the block, or this process, ends; yield its id."""
    read_end, write_end = os.pipe()  # readable for the child when this process is gone
    command = [sys.executable, "-c", "from nearcast.cli.main import main; main()"]
    command += ["serve", "standalone", *words, f"--parent-fd={read_end}"]
    try:
        with (
            output.open("wb") as said,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=said, pass_fds=[read_end]
            ) as process,
        ):
            assert process.stdout is not None
            try:
                if not process.stdout.readline():
                    process.wait()
                    raise NearcastError(f"the server did not start: {output.read_text().strip()}")
                yield process.pid
            finally:
                process.terminate()
    finally:
        os.close(read_end)
        os.close(write_end)


@contextmanager
def _run_two_edges(
    senders: Sequence[str], receivers: Sequence[str], topics: int, inline: bool
) -> Iterator[NearcastServer]:
    """Run a site of two edges, with its manager and its cloud server."""
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as text:
        folder = Path(text)
        _write_scenario(folder / "scenario", senders, receivers, topics)
        _write_plan(folder / "plan", senders, receivers)
        defaults, everybody = SiteSettings(), [*senders, *receivers]
        options = SiteSettings(
            plan=folder / "plan",
            delay_factor=0.0,
            processor_rules=(ProcessorRule("#", RECENT),),
            segment_mb=SpoolConfig().segment_mb,
            wire=replace(defaults.wire, session_limit=len(everybody) + _SPARE_SESSIONS),
            processors=ProcessorsConfig(
                inline=(*ProcessorsConfig().inline, *((RECENT,) if inline else ()))
            ),
        )
        with run_site(folder / "scenario", folder / "site", options) as live:
            for first in range(0, len(everybody), _ENROLLED_AT_ONCE):
                live.enrol_clients(everybody[first : first + _ENROLLED_AT_ONCE])
            yield NearcastServer(
                {name: live.processes.pid(name) for name in _EDGES},
                [live.site.credentials_file(one) for one in senders],
                [live.site.credentials_file(one) for one in receivers],
            )


def _write_scenario(
    folder: Path, publishers: Sequence[str], subscribers: Sequence[str], topics: int
) -> None:
    folder.mkdir(parents=True)
    (folder / "scenario.json").write_text('{"name": "bench", "width_km": 1, "height_km": 1}\n')
    servers = "".join(f"{name},0.5,0.5,1000000,100000000\n" for name in _EDGES)
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


def _write_plan(folder: Path, publishers: Sequence[str], subscribers: Sequence[str]) -> None:
    """Put publishers, and so the brokers, at the first edge, and subscribers at the last one."""
    folder.mkdir(parents=True)
    homes = [f"{one},{_EDGES[0]}\n" for one in publishers]
    homes += [f"{one},{_EDGES[-1]}\n" for one in subscribers]
    (folder / "homes.csv").write_text("client_id,server_id\n" + "".join(homes))
