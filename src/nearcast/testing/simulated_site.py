"""A whole site in one thread: real servers and sessions, a simulated network, disks and clocks.

Everything follows from the seed. Delays are those of the scenario's geometry or of a function;
the network may lose, double and reorder. Each machine has its own clock, each server the true
spool log on a made-up disk: see the other `simulated_` modules.
"""

from __future__ import annotations

from collections.abc import Iterable

from nearcast.server.manager_state import ManagerState
from nearcast.server.orders_from_plan import SitePlan
from nearcast.server.site_orders import Orders, ServerOrder
from nearcast.server.stream_targets import Capacity
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_manager import MANAGER, SimulatedManager
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_server import SimulatedServer
from nearcast.testing.simulated_world import SimulatedWorld
from nearcast.trust.rights import EVERYTHING, Rights
from nearcast.wire.actions import Home
from nearcast.wire.client_session import ClientSession
from nearcast.wire.messages import Report
from nearcast.wire.noise import public_key
from nearcast.wire.settings import WireSettings

__all__ = ["SimulatedSite"]


class SimulatedSite(SimulatedWorld):
    """Servers, clients, and the time between them."""

    def __init__(
        self, seed: int, network: Network | None = None, wire: WireSettings | None = None
    ) -> None:
        super().__init__(seed, network, wire)
        self.servers: dict[str, SimulatedServer] = {}
        self.clients: dict[str, SimulatedClient] = {}
        self.manager: SimulatedManager | None = None

    def add_server(
        self, name: str, capacity: Capacity | None = None, *, is_edge: bool = True
    ) -> SimulatedServer:
        """Start a server; it waits for orders."""
        server = SimulatedServer(self, name, capacity or Capacity(), is_edge)
        self.servers[name] = server
        self.on_frame[name] = server.on_mesh
        self.on_datagram[name] = server.on_datagram
        return server

    def add_manager(self, state: ManagerState, plan: SitePlan, cloud: str) -> SimulatedManager:
        """Start the manager; servers that report get its orders."""
        self.manager = SimulatedManager(self, state, plan, cloud)
        self.on_frame[MANAGER] = self.manager.on_mesh
        return self.manager

    def add_client(
        self,
        name: str,
        home: str,
        x_km: float = 0.0,
        y_km: float = 0.0,
        rights: Rights = EVERYTHING,
    ) -> SimulatedClient:
        """Make a client that begins to connect to a home."""
        key = self.random.randbytes(32)
        credential = self.authority.client(name, public_key(key), rights)
        server = self.servers[home].home
        session = self._session(key, server, credential, name)
        session.report(Report(x_km, y_km))
        client = self.clients[name] = SimulatedClient(self, name, key, credential, session)
        self.on_datagram[name] = client.on_datagram
        return client

    def restart_client(self, client: SimulatedClient) -> None:
        """End a client's program and start it again: it knows its key and its last home."""
        home = client.session.home
        client.clock.begin()
        client.session = self._session(client.key, home, client.credential, client.name)

    def _session(self, key: bytes, home: Home, credential: bytes, name: str) -> ClientSession:
        return ClientSession(
            key,
            home,
            self.random.randbytes,
            self.wire,
            credential,
            name,
            authority=self.authority.key.public_key,
        )

    def server_orders(self) -> tuple[ServerOrder, ...]:
        """Return the servers as orders name them."""
        return tuple(
            ServerOrder(
                one.name,
                *one.home.address,
                one.home.server_key,
                credential=self.authority.server(one.name, one.home.server_key),
            )
            if one.is_edge
            else ServerOrder(one.name, "", 0, one.home.server_key)
            for one in self.servers.values()
        )

    def obey(self, orders: Orders) -> None:
        """Give orders to all servers that run."""
        for server in self.servers.values():
            server.obey(orders)

    def connect(self, clients: Iterable[SimulatedClient]) -> None:
        """Let clients open their sessions."""
        for client in clients:
            client.connect()
