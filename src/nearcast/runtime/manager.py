"""The shell of the manager: store, mesh, timer and HTTP around its state machine."""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from nearcast.errors import ConfigError, OutputError, TrustError
from nearcast.links.daemon_thread import in_daemon_thread
from nearcast.links.mesh import MeshLink
from nearcast.links.steady_clock import SteadyClock
from nearcast.runtime.config import ManagerConfig
from nearcast.runtime.config_files import read_key_file
from nearcast.runtime.http_endpoint import HttpEndpoint
from nearcast.runtime.manager_files import ManagerFiles
from nearcast.runtime.manager_flows import ManagerFlows
from nearcast.runtime.manager_http import (
    CredentialKind,
    Tokens,
    TooManyError,
    answer_operator,
    manager_metrics,
    read_token,
)
from nearcast.runtime.manager_plans import AskedPlan, PlanPart, check_in_force, plan_part
from nearcast.runtime.manager_site import (
    open_site,
    prepare_another_plan,
    with_addresses,
)
from nearcast.runtime.manager_store import ManagerStore
from nearcast.runtime.mesh_peers import links_down, links_status
from nearcast.runtime.peer_trust import PeerTrust
from nearcast.runtime.trust_files import StartingTrust, open_trust, read_credential
from nearcast.server.enrolment import EnrolledClient, Enroller, Enrolment
from nearcast.server.manager import Manager
from nearcast.server.manager_state import (
    ManagerState,
    with_plan,
    with_processors,
    with_revocations,
)
from nearcast.server.peer_channels import draw_incarnation
from nearcast.server.processor_rules import ProcessorRule, check_rules
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.credentials import LONGEST_DAYS, next_serial, read_body
from nearcast.trust.revocations import Revocation, RevocationList
from nearcast.trust.signed import Kind, SigningKey
from nearcast.trust.site_plane import SitePlane, issue_plane
from nearcast.wire.init_gate import TokenBuckets

__all__ = ["LiveManager", "run_manager"]

_log = logging.getLogger(__name__)
_STORE_FILE = "manager.db"
_LOOK_S = 1.0
"""How often the files of the authority are looked at."""
_SWEEP_INTERVAL_S = 0.02
_MOST_WAYS = 7
"""Edge servers that a client is told besides its home."""


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
    enrol_file = config.enrol_token_file
    tokens = Tokens(
        read_token(config.token_file), read_token(enrol_file) if enrol_file is not None else None
    )
    check_rules(config.site.processors)  # complains here, not in servers
    clock = SteadyClock()
    trust = open_trust(config, clock())
    store = ManagerStore(config.data / _STORE_FILE)
    try:
        opening = asyncio.ensure_future(open_site(config, store, clock()))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            # a first plan may take long: a stop does not wait for it
            await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                return
            manager = LiveManager(config, store, mesh, clock, opening.result(), trust)
            try:
                await manager.start(tokens)
                if on_ready is not None:
                    on_ready(manager)
                await stopping
            finally:
                await manager.stop()
        finally:
            opening.cancel()
            stopping.cancel()
            await asyncio.wait({opening, stopping})  # its helper process is gone then
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
        trust: StartingTrust,
    ) -> None:
        self._config, self._store, self._mesh, self._clock = config, store, mesh, clock
        self._trust = trust.trust
        self._peer_trust = PeerTrust(trust, config.id, mesh, clock)
        self.credential = read_credential(config.credential_file)
        signer = SigningKey(read_key_file(config.signing_key_file))
        plane = store.fact("plane")
        self.plane = (
            issue_plane(signer, msgspec.json.decode(plane, type=SitePlane)) if plane else b""
        )
        self._enroller = Enroller(store.clients, signer, config.enrolment.rules())
        per_s = config.enrolment.clients_per_s
        self._enrolments = TokenBuckets(per_s, 10 * per_s, 1)
        self._files = ManagerFiles(config)
        self._looks = 0.0
        self._is_adopting = self._is_swept = False
        """Whether another plan is being written, and whether the last one is gone."""
        self._manager = Manager(
            state,
            store.clients,
            signer,
            cloud=config.site.cloud,
            incarnation=draw_incarnation(os.urandom),
            areas=config.site.coverage if config.site.roaming else None,
        )
        self.flows = ManagerFlows(
            config.site, self._manager, self._install_flows, self._send, self._clock
        )
        """What operators ask about flows."""
        self.refused_requests: Counter[str] = Counter()
        self.http: HttpEndpoint | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = 0.0

    async def start(self, tokens: Tokens) -> None:
        """Listen to servers and operators."""
        self._loop = asyncio.get_running_loop()
        self.http = HttpEndpoint(
            self._config.http.host,
            self._config.http.port,
            status=self.status,
            warnings=lambda: links_down(self._mesh.states()),
            metrics=lambda: manager_metrics(self.status()),
            answer=partial(answer_operator, self, tokens),
        )
        self._learn(self._manager.state)
        self._look()
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
        return {
            **self._manager.status(self._clock()),
            **links_status(self._mesh),
            "refused_requests": dict(self.refused_requests),
            "credential_days_left": round(self._peer_trust.days_left, 1),
        }

    async def enrol(
        self, enrolments: Sequence[Enrolment], *, is_operator: bool
    ) -> list[EnrolledClient]:
        """Enrol clients, durably; servers ask for those that they do not know."""
        now, state = self._clock(), self._manager.state
        if not is_operator and not all(self._enrolments.take("", now) for _ in enrolments):
            raise TooManyError("too many clients enrol; try again later")
        homes = self._store.clients.home_choice(state.servers)
        records, revoked = self._enroller.enrol(
            enrolments, homes, state.revocations, now, is_operator=is_operator
        )
        after = with_revocations(state, revoked, now)
        self._store.save_clients(records, after)
        if after is not state:
            self._install(after)
        return records

    async def revoke(self, kind: CredentialKind, name: str) -> int:
        """Let no credential count that somebody has so far; return the list's version."""
        now = self._clock()
        known = self._store.clients.enrolled(name) if kind == "client" else None
        least_serial = next_serial(known.serial if known else 0, now)
        until_s = known.until_s if known else int(now + LONGEST_DAYS * 86_400)
        self._revoke([Revocation(kind, name, least_serial, until_s)])
        _log.info("revoked", extra={"fields": {"kind": kind, "name": name}})
        return self._manager.state.revocations.version

    async def adopt(self, asked: AskedPlan) -> int:
        """Adopt another plan for the same servers; return its version."""
        check_in_force(asked, self._manager.state)
        if self._is_adopting:
            raise TooManyError("another plan is being adopted; try again later")
        self._is_adopting = True
        try:
            plan = await prepare_another_plan(
                self._config.site, asked, self._store, self._manager.state, self._clock()
            )
            # servers and revocations may have changed meanwhile: the state of now counts
            state = self._manager.state
            state = with_plan(state, state.servers, plan.topics, plan.version)
            self._store.adopt(state, plan.stored)
        finally:
            self._is_adopting, self._is_swept = False, False
        self._install(state)
        fields = {"version": plan.version.version, "folder": str(asked.plan)}
        _log.info("plan_adopted", extra={"fields": fields})
        return plan.version.version

    def plan_part(self, part: PlanPart, after: str) -> dict[str, Any]:
        """Return some rows of the plan in force: those that follow a name."""
        return plan_part(self._store.clients, self._manager.state, part, after)

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

    def _install_flows(self, state: ManagerState) -> None:
        self._store.save_flows(state)
        self._install(state)
        _log.info("flows_changed", extra={"fields": {"revision": state.revision}})

    def find_client(self, client: str) -> EnrolledClient | None:
        """Return an enrolled client."""
        return self._store.clients.enrolled(client)

    def server(self, server: str) -> ServerOrder:
        """Return where a server is."""
        return self._manager.state.servers[server].order

    def ways_from(self, home: str) -> list[str]:
        """Return other edge servers for a client, the nearest to its home first."""
        servers = self._manager.state.servers
        here = servers[home].place_km or (0.0, 0.0)
        others = [
            (math.dist(here, one.place_km), name)
            for name, one in servers.items()
            if one.place_km is not None and name != home
        ]
        return [name for _, name in heapq.nsmallest(_MOST_WAYS, others)]

    # Events of the loop

    def _on_mesh(self, server: str, data: bytes) -> None:
        self._send(self._manager.on_mesh(server, data, self._clock()))
        self._take_lost_revocations()
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
        self._timer = None
        if self._clock() >= self._looks:
            self._look()
        now = self._clock()
        frames = self._manager.on_timer(now)
        if not self._is_swept and not self._is_adopting and self._manager.next_wakeup(now) > now:
            self._sweep()
        self._send(frames)

    def _sweep(self) -> None:
        """Remove a part of a plan that is no longer in force, or was not finished."""
        try:
            self._is_swept = not self._store.sweep()
        except OutputError as error:
            self._is_swept = True  # later: the next plan needs it, and says so
            _log.error("store_failed", extra={"fields": {"reason": str(error)}})

    def _look(self) -> None:
        """Take over what the authority has signed since the last look."""
        self._looks = self._clock() + _LOOK_S
        self._peer_trust.on_timer()
        entries, version = self._files.new_revocations(self._trust)
        try:
            if entries:
                self._revoke(entries, version)
            orders = self._files.new_servers()
            if orders is not None:
                state = self._manager.state
                servers = with_addresses(state.servers, self._config, orders)
                state = replace(state, revision=state.revision + 1, servers=servers)
                self._store.save_servers(state)
                self._install(state)
        except (ConfigError, OutputError) as error:
            _log.error("change_failed", extra={"fields": {"reason": str(error)}})

    def _take_lost_revocations(self) -> None:
        """Learn again what a store that was lost or is an old copy does not know."""
        documents, self._manager.lost_revocations = self._manager.lost_revocations, []
        for document in documents:
            try:
                found = read_body(self._trust.open(Kind.REVOCATIONS, document), RevocationList)
                self._revoke(found.entries, found.version)
            except (TrustError, OutputError) as error:
                _log.warning("revocations_refused", extra={"fields": {"reason": str(error)}})

    def _revoke(self, entries: Sequence[Revocation], above: int = 0) -> None:
        before = self._manager.state
        state = with_revocations(before, entries, self._clock(), above)
        if state is not before:
            self._store.save_revocations(state)
            self._install(state)

    def _learn(self, state: ManagerState) -> None:
        """Tell the links who the servers are: those whose credentials count."""
        if state.revocations.version > self._trust.revocations.version:
            self._trust.revoke(self._manager.revocations)
        self._peer_trust.learn(server.order for server in state.servers.values())

    def _install(self, state: ManagerState) -> None:
        before = self._manager.state
        frames = self._manager.install(state, self._clock())
        if (before.servers, before.revocations) != (state.servers, state.revocations):
            self._learn(state)
        self._send(frames)

    def _send(self, frames: list[tuple[str, bytes]]) -> None:
        for server, data in frames:
            self._mesh.send(server, data)
        now = self._clock()
        delay_s = min(max(0.0, self._manager.next_wakeup(now) - now), 1.0)
        if not self._is_swept and not self._is_adopting:
            delay_s = min(delay_s, _SWEEP_INTERVAL_S)
        # a timer that is due is left alone: servers that talk all the time must not put it off
        if self._timer is None or now + delay_s < self._wakes_at:
            if self._timer is not None:
                self._timer.cancel()
            self._wakes_at = now + delay_s
            self._timer = self._loop.call_later(delay_s, self._on_timer)
