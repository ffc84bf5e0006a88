"""Small sites for tests: their scenario, their clients, and waiting with a deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from nearcast.domain.json_files import write_json
from nearcast.errors import NearcastError
from nearcast.links.http_client import ask
from nearcast.site.layout import SiteSettings
from nearcast.site.live_site import LiveSite

__all__ = [
    "health",
    "is_running",
    "memory_bytes",
    "metrics_of",
    "output_of",
    "quick",
    "until",
    "write_small_scenario",
]

_POLL_S = 0.02


def write_small_scenario(
    folder: Path,
    *,
    edges: int = 1,
    clients: Sequence[str],
    topics: Sequence[str],
    spool: int = 100_000,
) -> Path:
    """Write a scenario in which all clients are members of all topics, and no limit is near.

    The clients take turns to live beside edge server e1, e2, ...; ``FOLDER/plan`` is a plan by
    which these are their homes.
    """
    folder.mkdir(parents=True)
    settings = {"name": "small", "width_km": 10.0, "height_km": 10.0}
    write_json(folder / "scenario.json", settings)
    tables = {
        "servers": ["server_id,x_km,y_km,storage,compute,client_limit"]
        + [f"e{one + 1},{one},0,{1e9:.0f},{1e12:.0f},1000" for one in range(edges)],
        "clients": ["client_id,x_km,y_km"]
        + [f"{name},{index % edges},0.1" for index, name in enumerate(clients)],
        "topics": ["topic_id,spool"] + [f"{name},{spool}" for name in topics],
        "members": ["topic_id,client_id"] + [f"{t},{c}" for t in topics for c in clients],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "plan").mkdir()
    homes = [f"{name},e{index % edges + 1}" for index, name in enumerate(clients)]
    (folder / "plan" / "homes.csv").write_text("\n".join(["client_id,server_id", *homes]) + "\n")
    return folder


def quick(scenario: Path) -> SiteSettings:
    """Return how to run a small scenario by its plan: no planner to be loaded, no delays."""
    return SiteSettings(
        plan=scenario / "plan",
        delay_factor=0.0,
        log_segment_s=0.3,
        # so clients miss a dead server after three times half a second
        wire=replace(SiteSettings().wire, report_interval_s=0.5),
    )


def until(condition: Callable[[], object], what: str, within_s: float = 60.0) -> None:
    """Wait until something is so; the test fails when it is not in time."""
    deadline_s = time.monotonic() + within_s
    pause = Event()
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what}"
        pause.wait(_POLL_S)


def is_running(pid: int) -> bool:
    """Tell whether a process is there; one that only waits to be reaped is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def health(live: LiveSite, server: str) -> str:
    """Return what a server's health check says, "" while nobody answers."""
    try:
        ask(f"http://127.0.0.1:{live.site.place(server).http_port}/health")
    except NearcastError as error:
        return "" if "does not answer" in str(error) else str(error)
    return "ok"


def metrics_of(http_port: int) -> dict[str, dict[str, float]]:
    """Return a server's metrics by name; inside by the values of all labels but the server's."""
    with urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = [value for key, value in sorted(sample.labels.items()) if key != "server"]
            found.setdefault(sample.name, {})[" ".join(labels)] = sample.value
    return found


def output_of(live: LiveSite, server: str) -> str:
    """Return all that a server's process has said."""
    return live.site.output_file(server).read_text(errors="replace")


def memory_bytes(pid: int) -> int:
    """Return the memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
