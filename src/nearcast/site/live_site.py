"""A site that runs: from a scenario to servers that answer, and clients that may connect."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nearcast.delay.network import network_of
from nearcast.domain.plan_files import read_plan
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import ConfigError, NearcastError, OutputError
from nearcast.links.http_client import ask
from nearcast.sdk.credentials import (
    Credentials,
    load_credentials,
    new_private_key,
    save_credentials,
)
from nearcast.sdk.enrolment import read_answer
from nearcast.site.layout import MANAGER, SiteFolder, SiteSettings, lay_out_site
from nearcast.site.processes import SiteProcesses

__all__ = ["LiveSite", "run_site"]

_START_S = 120.0
_MOST_DEATHS = 5
"""Of a server, in a row, before a site that starts is given up."""
_POLL_S = 0.1
_CLIENTS_PER_REQUEST = 1_000
OnProgress = Callable[[str], None]


class LiveSite:
    """The servers of a site, while they run."""

    def __init__(self, site: SiteFolder, scenario: Scenario, processes: SiteProcesses) -> None:
        self.site, self.scenario, self.processes = site, scenario, processes

    def wait_until_healthy(self, servers: Sequence[str], on_progress: OnProgress) -> None:
        """Wait until servers are ready to work; for the manager as long as it plans.

        Raises
        ------
        NearcastError
            When one of them gave up, or it took too long.
        """
        waiting = list(servers)
        began_s = time.monotonic()
        while waiting:
            given_up = self.processes.watch()
            given_up += [one for one in waiting if self.processes.deaths(one) > _MOST_DEATHS]
            for server in given_up:
                said = self.processes.last_words(server)
                raise NearcastError(f"server {server!r} did not start: {said}")
            if self._is_healthy(waiting[0]):
                on_progress(waiting.pop(0))
                began_s = time.monotonic()
            elif waiting[0] != MANAGER and time.monotonic() > began_s + _START_S:
                raise NearcastError(f"server {waiting[0]!r} was not ready after {_START_S:.0f} s")
            else:
                time.sleep(_POLL_S)

    def enrol_clients(self, names: Sequence[str] | None = None) -> dict[str, Credentials]:
        """Enrol clients of the scenario (default: all), and write their credentials."""
        ids = [str(one) for one in self.scenario.clients.ids.to_pylist()]
        wanted = set(ids if names is None else names)
        rows = [(index, name) for index, name in enumerate(ids) if name in wanted]
        keys = {name: self._private_key(name) for _, name in rows}
        found: dict[str, Credentials] = {}
        asked = [
            {
                "client": name,
                "public_key": _public_hex(keys[name]),
                "x_km": float(self.scenario.clients.x_km[index]),
                "y_km": float(self.scenario.clients.y_km[index]),
            }
            for index, name in rows
        ]
        enrolled: dict[str, Credentials] = {}
        authority = self.site.authority
        for start in range(0, len(asked), _CLIENTS_PER_REQUEST):
            body = asked[start : start + _CLIENTS_PER_REQUEST]
            answer = ask(f"{self.site.manager_url}/clients", body, self.site.token)
            enrolled |= read_answer(answer, keys, authority)
        delays_ms = self._client_delays_ms([index for index, _ in rows])
        for (index, name), delays in zip(rows, delays_ms, strict=True):
            credentials = replace(
                enrolled[name],
                x_km=float(self.scenario.clients.x_km[index]),
                y_km=float(self.scenario.clients.y_km[index]),
                delays_ms=delays,
            )
            save_credentials(credentials, self.site.credentials_file(name), overwrite=True)
            found[name] = credentials
        return found

    def status(self) -> dict[str, Any]:
        """Return what the manager knows."""
        found: dict[str, Any] = ask(f"{self.site.manager_url}/status")
        return found

    def _is_healthy(self, server: str) -> bool:
        port = self.site.place(server).http_port
        try:
            ask(f"http://127.0.0.1:{port}/health")
        except NearcastError:
            return False
        return True

    def _private_key(self, client: str) -> bytes:
        file = self.site.credentials_file(client)
        return load_credentials(file).private_key if file.exists() else new_private_key()

    def delays_ms(self, scenario: Scenario) -> list[Mapping[str, float]]:
        """Return the delays to emulate for clients that are where another scenario has them."""
        return list(self._client_delays_ms(range(len(scenario.clients)), scenario))

    def _client_delays_ms(
        self, rows: Sequence[int], scenario: Scenario | None = None
    ) -> Iterator[Mapping[str, float]]:
        import numpy as np

        factor = self.site.delay_factor
        edges = [one for one in self.site.servers if one.role == "edge"]
        names = [f"127.0.0.1:{one.port}" for one in edges]
        matrix = network_of(scenario or self.scenario).leg_matrix_ms(np.array(rows, dtype=np.int32))
        for row in matrix:
            legs_ms = {name: float(ms) for name, ms in zip(names, row, strict=True)}
            if self.site.deployment is not None:
                legs_ms = self.site.deployment.client_delays_ms(legs_ms)
            yield {name: factor * ms for name, ms in legs_ms.items()} if factor else {}


@contextmanager
def run_site(
    scenario_folder: Path,
    folder: Path,
    options: SiteSettings,
    on_progress: OnProgress = lambda server: None,
    prepare: Callable[[SiteFolder], None] = lambda site: None,
) -> Iterator[LiveSite]:
    """Run a site: all servers are ready inside the block, and gone after it.

    `prepare` is called when the folder is laid out and nothing runs yet.

    Raises
    ------
    NearcastError
        When scenario or plan cannot be used, another program runs this site, or a server does
        not start.
    """
    scenario = read_scenario(scenario_folder)
    if options.plan is not None:
        read_plan(options.plan, scenario)  # complains before anything is written
    with _locked(folder):
        site = lay_out_site(scenario, scenario_folder, folder, options)
        prepare(site)
        processes = SiteProcesses(site)
        live = LiveSite(site, scenario, processes)
        try:
            processes.start_all()
            live.wait_until_healthy([one.server for one in site.servers], on_progress)
            yield live
        finally:
            processes.stop_all()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other programs from laying out a site that runs; ends with the process at the latest."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "w")  # noqa: SIM115 - closed below
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{folder}: another program runs this site") from None
        yield


def _public_hex(private_key: bytes) -> str:
    from nearcast.wire.noise import public_key

    return public_key(private_key).hex()
