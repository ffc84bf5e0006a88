"""The manager of a simulated site: the true state machine, a made-up store and machine."""

from __future__ import annotations

from dataclasses import replace

from nearcast.server.manager import Manager
from nearcast.server.manager_state import ManagerState
from nearcast.server.orders_from_plan import SitePlan
from nearcast.server.peer_channels import draw_incarnation
from nearcast.testing.machine_clock import MachineClock
from nearcast.testing.plan_directory import PlanDirectory
from nearcast.testing.simulated_world import SimulatedWorld

__all__ = ["MANAGER", "SimulatedManager"]

MANAGER = "manager"


class SimulatedManager:
    """A manager whose store keeps each state before anybody hears of it."""

    def __init__(
        self,
        site: SimulatedWorld,
        state: ManagerState,
        plan: SitePlan,
        cloud: str,
    ) -> None:
        self._site, self._cloud = site, cloud
        self._directory = PlanDirectory(plan)
        self.clock = MachineClock(site.clock)
        self.stored = state
        self.incarnation = 0
        self.node: Manager | None = None
        self._wakeup = float("inf")
        self.restart()

    def restart(self) -> None:
        """Start with what the store has."""
        self.incarnation += 1
        self._wakeup = float("inf")
        self.clock.begin()
        self.node = Manager(
            self.stored,
            self._directory,
            self._site.authority.key,
            cloud=self._cloud,
            incarnation=draw_incarnation(self._site.random.randbytes),
        )
        self._on_time()

    def kill(self) -> None:
        """End it; the store stays."""
        self.node = None

    def install(self, state: ManagerState, plan: SitePlan | None = None) -> None:
        """Adopt a state: it is stored first; a manager that is down goes by it when it starts."""
        self.stored = state
        if plan is not None:
            self._directory.replace(plan)
        if self.node is not None:
            self._send(self.node.install(state, self.clock.read()))

    def on_mesh(self, server: str, frame: bytes) -> None:
        """Take a frame of a server, if alive."""
        node = self.node
        if node is None:
            return
        self._send(node.on_mesh(server, frame, self.clock.read()))
        highest = node.highest_revision()
        if highest > self.stored.revision:
            self.install(replace(self.stored, revision=highest + 1))

    def _on_time(self) -> None:
        self._wakeup = float("inf")
        if self.node is not None:
            self._send(self.node.on_timer(self.clock.read()))

    def _on_timer(self, at: float) -> None:
        if at == self._wakeup:
            self._on_time()

    def _send(self, frames: list[tuple[str, bytes]]) -> None:
        for server, frame in frames:
            self._site.send_frame(MANAGER, server, frame)
        if self.node is not None:
            now = self._site.now
            wanted = self.clock.true_time(self.node.next_wakeup(self.clock.read()))
            at = min(max(now, wanted), now + 1.0)
            if at < self._wakeup:
                self._wakeup = at
                self._site.at(at, lambda: self._on_timer(at))
