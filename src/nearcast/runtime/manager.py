"""The shell of the manager: store, mesh, timer and HTTP around its state machine."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nearcast.errors import OutputError
from nearcast.links.daemon_thread import in_daemon_thread
from nearcast.links.mesh import MeshLink
from nearcast.links.steady_clock import SteadyClock
from nearcast.runtime.config import ManagerConfig
from nearcast.runtime.http_endpoint import HttpEndpoint
from nearcast.runtime.manager_http import answer_operator, manager_metrics, read_token
from nearcast.runtime.manager_site import open_site, plan_version, read_another_plan
from nearcast.runtime.manager_store import ManagerStore
from nearcast.runtime.mesh_peers import links_down, links_status, server_peers
from nearcast.server.manager import Manager
from nearcast.server.manager_state import (
    EnrolledClient,
    Enrolment,
    ManagerState,
    enrol,
    with_processors,
    with_site,
)
from nearcast.server.peer_channels import draw_incarnation
from nearcast.server.processor_rules import ProcessorRule, check_rules
from nearcast.server.site_orders import ServerOrder

__all__ = ["LiveManager", "run_manager"]

_log = logging.getLogger(__name__)
_STORE_FILE = "manager.db"


async def run_manager(
    config: ManagerConfig,
    mesh: MeshLink,
    stop: asyncio.Event,
    on_ready: Callable[[LiveManager], None] | None = None,
) -> None:
    """Run the manager of a site until it is told to stop.

    Parameters
    ----------
    config
        What to run.
    mesh
        The way to the servers.
    stop
        Set it to end the manager.
    on_ready
        Called when the manager answers.

    Raises
    ------
    NearcastError
        When it cannot start.
    """
    token = read_token(config.token_file)
    check_rules(config.site.processors)  # complains here, not in servers
    clock = SteadyClock()
    store = ManagerStore(config.data / _STORE_FILE)
    try:
        opening = asyncio.ensure_future(open_site(config, store, clock()))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            # a first plan may take long: a stop does not wait for it
            await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                return
            manager = LiveManager(config, store, mesh, clock, opening.result())
            try:
                await manager.start(token)
                if on_ready is not None:
                    on_ready(manager)
                await stopping
            finally:
                await manager.stop()
        finally:
            opening.cancel()
            stopping.cancel()
    finally:
        store.close()


class LiveManager:
    """A manager, alive between `start` and `stop`."""

    def __init__(
        self,
        config: ManagerConfig,
        store: ManagerStore,
        mesh: MeshLink,
        clock: Callable[[], float],
        state: ManagerState,
    ) -> None:
        self._config, self._store, self._mesh, self._clock = config, store, mesh, clock
        self._manager = Manager(
            state,
            cloud=config.site.cloud,
            incarnation=draw_incarnation(os.urandom),
        )
        self.http: HttpEndpoint | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def start(self, token: str) -> None:
        """Listen to servers and operators."""
        self._loop = asyncio.get_running_loop()
        self.http = HttpEndpoint(
            self._config.http.host,
            self._config.http.port,
            status=self.status,
            warnings=lambda: links_down(self._mesh.states()),
            metrics=lambda: manager_metrics(self.status()),
            answer=partial(answer_operator, self, token),
        )
        self._learn(self._manager.state)
        await self.http.start()
        await self._mesh.start(self._on_mesh)
        self._on_timer()

    async def stop(self) -> None:
        """Let go of everything."""
        if self._timer is not None:
            self._timer.cancel()
        if self.http is not None:
            await self.http.close()
        await self._mesh.close()

    # What operators ask

    def status(self) -> dict[str, Any]:
        """Return what operators want to see."""
        return {**self._manager.status(self._clock()), **links_status(self._mesh)}

    async def enrol(self, enrolments: Sequence[Enrolment]) -> list[EnrolledClient]:
        """Enrol clients: durable first, then the servers hear of it."""
        state, records = enrol(self._manager.state, enrolments)
        self._store.save_clients(records, state.revision)
        self._install(state)
        return records

    async def adopt(self, folder: Path) -> int:
        """Adopt another plan of the same scenario; return its version."""
        known = str(self._store.fact("scenario"))
        site = await in_daemon_thread(lambda: read_another_plan(self._config, folder, known))
        state = self._manager.state
        version = plan_version(state, site.report, self._clock())
        state = with_site(state, state.servers, site.plan, version)
        self._store.save_site(state)
        self._install(state)
        fields = {"version": version.version, "folder": str(folder)}
        _log.info("plan_adopted", extra={"fields": fields})
        return version.version

    @property
    def processors(self) -> tuple[ProcessorRule, ...]:
        """What brokers do with messages."""
        return self._manager.state.processors

    async def set_processors(self, rules: Sequence[ProcessorRule]) -> int:
        """Have brokers do something else with messages; return the new revision."""
        await in_daemon_thread(
            lambda: check_rules(rules, self._config.site.may_order)
        )  # may load modules
        state = with_processors(self._manager.state, rules)
        self._store.save_processors(state)
        self._install(state)
        _log.info("processors_changed", extra={"fields": {"revision": state.revision}})
        return state.revision

    def find_client(self, client: str) -> EnrolledClient | None:
        """Return an enrolled client."""
        return self._manager.state.clients.get(client)

    def server(self, server: str) -> ServerOrder:
        """Return where a server is."""
        return self._manager.state.servers[server].order

    # Events of the loop

    def _on_mesh(self, server: str, data: bytes) -> None:
        self._send(self._manager.on_mesh(server, data, self._clock()))
        state, highest = self._manager.state, self._manager.highest_revision()
        if highest > state.revision:
            # our store was lost or is an old copy; servers only obey a higher revision
            fields = {"ours": state.revision, "highest": highest}
            _log.warning("servers_are_ahead", extra={"fields": fields})
            try:
                self._store.save_revision(highest + 1)
            except OutputError as error:
                _log.error("store_failed", extra={"fields": {"reason": str(error)}})
                return
            self._install(replace(state, revision=highest + 1))

    def _on_timer(self) -> None:
        self._send(self._manager.on_timer(self._clock()))

    def _learn(self, state: ManagerState) -> None:
        orders = (server.order for server in state.servers.values())
        self._mesh.learn(server_peers(orders, self._config.id))

    def _install(self, state: ManagerState) -> None:
        self._learn(state)
        self._send(self._manager.install(state, self._clock()))

    def _send(self, frames: list[tuple[str, bytes]]) -> None:
        for server, data in frames:
            self._mesh.send(server, data)
        if self._timer is not None:
            self._timer.cancel()
        now = self._clock()
        delay_s = min(max(0.0, self._manager.next_wakeup(now) - now), 1.0)
        self._timer = self._loop.call_later(delay_s, self._on_timer)
