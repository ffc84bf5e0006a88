"""A small site of real processes on which a flow of one component runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from nearcast.domain.json_files import write_json
from nearcast.errors import NearcastError
from nearcast.experiments.flows.trial_processors import GRIND, TALLY
from nearcast.flow.flow import Component, Flow
from nearcast.links.http_client import ask
from nearcast.routing.keys import INDEX_END
from nearcast.runtime.config import ONE_ADDRESS, FlowsConfig, ProcessorsConfig, ServerConfig
from nearcast.runtime.config_files import load_config, write_config
from nearcast.runtime.crash_points import arm, enable
from nearcast.site.layout import MANAGER, SiteFolder, SiteSettings
from nearcast.site.live_site import LiveSite, run_site
from nearcast.wire.settings import WireSettings

__all__ = [
    "CLOUD_SERVER",
    "HEARER",
    "OUTPUT",
    "PUBLISHERS",
    "SOURCE",
    "FlowLayout",
    "FlowSite",
    "open_flow_site",
]

SOURCE = "trial/in"
OUTPUT = "trial/out"
PUBLISHERS = tuple(f"p{number}" for number in range(4))
HEARER = "hearer"
CLOUD_SERVER = "cloud"
_FLOW, _COMPONENT = "trial", "work"
_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class FlowLayout:
    """Who is where on the site of a trial."""

    edges: Mapping[str, float] = field(default_factory=lambda: {"e1": 0.0, "e2": 1.0})
    """The edge servers, and where they are on a line, in ms one way."""
    homes: Mapping[str, str] = field(
        default_factory=lambda: dict.fromkeys((*PUBLISHERS, HEARER), "e1")
    )
    """The home of each client."""
    cloud_ms: float = 0.0
    """From any edge server to the cloud server, one way."""
    has_distances: bool = False
    """Whether distances are emulated."""
    nets: Mapping[str, str] = field(default_factory=dict)
    """The net of each edge server; one that is not named is a net of its own."""
    flows: FlowsConfig = FlowsConfig()  # noqa: RUF009 - frozen
    wire: WireSettings = ONE_ADDRESS
    processors: tuple[str, ...] = (TALLY, GRIND)
    can_crash: bool = False
    """Whether servers can be armed to die at a step."""


@dataclass(frozen=True, slots=True)
class FlowSite:
    """A site with a cloud server and edges, on which a flow of one component runs."""

    live: LiveSite

    def run_flow(self, component: Component) -> None:
        """Start a flow of one component at the cloud server, and wait until all know it."""
        flow = Flow(_FLOW, (SOURCE,), {_COMPONENT: component})
        body = {"flow": msgspec.to_builtins(flow), "places": {}}
        revision = self._ask("/flows", body, "PUT")["number"]
        self._until(lambda: self._is_told(revision), "servers do not hear of the flow")
        self._until(lambda: self.held().get(CLOUD_SERVER), "the flow does not begin")

    def _is_told(self, revision: int) -> bool:
        servers = self._ask("/status")["servers"]
        return all(one["state"] == "up" and one["revision"] >= revision for one in servers)

    def move(self, giver: str, taker: str, low: int, high: int, net: str | None = None) -> None:
        """Have a part handed over; of one net only, if one is named."""
        body = {"component": _COMPONENT, "giver": giver, "taker": taker, "low": low, "high": high}
        if net is not None:
            body["net"] = net
        self._ask(f"/flows/{_FLOW}/moves", body)

    def held(self) -> dict[str, list[tuple[int, int]]]:
        """Return the ranges that servers hold, as they last reported."""
        (flow,) = self._ask("/flows")
        return {
            one["server"]: [(part["low"], part["high"]) for part in one["parts"]]
            for one in flow["components"][_COMPONENT]["places"]
            if one["parts"]
        }

    def arm(self, server: str, step: str | None) -> None:
        """Choose where a server dies next; None: nowhere."""
        arm(self.live.site.folder / "data" / server, step)

    def is_divided(self) -> bool:
        """Whether each index is held by exactly one server, and nothing is under way."""
        (flow,) = self._ask("/flows")
        places = flow["components"][_COMPONENT]["places"]
        parts = sorted((part["low"], part["high"]) for one in places for part in one["parts"])
        ends = [0, *(high for _, high in parts)]
        return (
            not any(one["under_way"] for one in places)
            and [low for low, _ in parts] == ends[:-1]
            and ends[-1] == INDEX_END
        )

    def restart(self, server: str) -> None:
        """Kill a server and start it again."""
        self.live.processes.kill(server)
        self.live.processes.start(server)

    def _ask(self, path: str, body: object = None, method: str | None = None) -> Any:
        place = next(one for one in self.live.site.servers if one.server == MANAGER)
        token = (self.live.site.folder / "token").read_text().strip()
        return ask(f"http://127.0.0.1:{place.http_port}{path}", body, token, method=method)

    def _until(self, condition: Any, problem: str) -> None:
        until_s = time.monotonic() + _WAIT_S
        while not condition():
            if time.monotonic() > until_s:
                raise NearcastError(problem)
            time.sleep(0.1)


@contextmanager
def open_flow_site(folder: Path, layout: FlowLayout | None = None) -> Iterator[FlowSite]:
    """Run the site in a new folder."""
    layout = layout or FlowLayout()
    scenario = _write_scenario(folder / "scenario", layout)
    settings = SiteSettings(
        plan=scenario / "plan",
        delay_factor=float(layout.has_distances),
        cloud=CLOUD_SERVER,
        wire=layout.wire,
        processors=ProcessorsConfig(
            inline=(*ProcessorsConfig().inline, *layout.processors), allowed=layout.processors
        ),
    )

    def prepare(site: SiteFolder) -> None:
        for place in site.servers[1:]:
            config = load_config(site.config_file(place.server))
            assert isinstance(config, ServerConfig)
            net = layout.nets.get(place.server)
            changed = msgspec.structs.replace(config, net=net, flows=layout.flows)
            write_config(site.config_file(place.server), changed)
            if layout.can_crash:
                enable(config.data)

    with run_site(scenario, folder / "site", settings, prepare=prepare) as live:
        yield FlowSite(live)


def _write_scenario(folder: Path, layout: FlowLayout) -> Path:
    folder.mkdir(parents=True)
    about = {"name": "flows", "width_km": 100.0, "height_km": 10.0}
    write_json(folder / "scenario.json", {**about, "ms_per_km": 1.0, "cloud_ms": layout.cloud_ms})
    tables = {
        "servers": ["server_id,x_km,y_km,storage,compute,client_limit"]
        + [f"{name},{at},0,1000000000,1000000000000,1000" for name, at in layout.edges.items()],
        "clients": ["client_id,x_km,y_km"]
        + [f"{name},{layout.edges[home]},0" for name, home in layout.homes.items()],
        "topics": ["topic_id,spool", f"{SOURCE},10000", f"{OUTPUT},100000"],
        "members": ["topic_id,client_id"]
        + [f"{topic},{name}" for topic in (SOURCE, OUTPUT) for name in layout.homes],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    plan = folder / "plan"
    plan.mkdir()
    homes = [f"{name},{home}" for name, home in layout.homes.items()]
    (plan / "homes.csv").write_text("\n".join(["client_id,server_id", *homes]) + "\n")
    return folder
