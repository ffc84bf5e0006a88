"""Measures one part of a large site in this process and prints the numbers as JSON.

Each client publishes to one topic and takes part in two; a topic has a hundred publishers, a tenth
of which have their home on the next edge server. It subscribes to both and to a pattern.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from nearcast.experiments.site_scale_homes import AT_ONCE, subscribe_at
from nearcast.runtime.manager_store import ManagerStore
from nearcast.server.enrolment import EnrolledClient
from nearcast.server.manager import Manager
from nearcast.server.manager_state import PlanVersion, SiteServer, make_orders, with_site
from nearcast.server.orders_from_plan import PlannedClient, PlannedTopic, SitePlan
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.server import Server
from nearcast.server.server_settings import ClientAccess, ServerSettings
from nearcast.server.signed_orders import sign_orders
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.credentials import (
    ClientCredential,
    Role,
    ServerCredential,
    Validity,
    issue_client,
    issue_server,
)
from nearcast.trust.rights import EVERYTHING
from nearcast.trust.signed import SigningKey
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.messages import Subscribe

_AUTHORITY, _CLOUD, _NOW_S = SigningKey(b"a" * 32), "cloud", 1.8e9
_VALID = Validity(int(_NOW_S), int(_NOW_S) + 86_400)
_PUBLISHERS_PER_TOPIC = 100
_BATCH = 10_000
_CREDENTIAL_BYTES = 250
"""Of a client with a few rights."""

__all__ = ["enrolled_client"]


class _Clients(Collection[PlannedClient]):
    def __init__(self, clients: int, edges: int) -> None:
        self._clients, self._edges = clients, edges
        self._topics = max(1, clients // _PUBLISHERS_PER_TOPIC)

    def __len__(self) -> int:
        return self._clients

    def __contains__(self, item: object) -> bool:
        return any(one == item for one in self)

    def topic_at(self, number: int) -> str:
        """Return the edge server that processes a topic."""
        return f"e{number * self._edges // self._topics}"

    def at(self, edge: int) -> Iterator[PlannedClient]:
        """Return the clients whose home an edge server is."""
        for block in (edge, (edge - 1) % self._edges):
            first, end = (-(-one * self._clients // self._edges) for one in (block, block + 1))
            home = f"e{edge}"
            yield from (one for one in self._between(first, end) if one.home == home)

    def __iter__(self) -> Iterator[PlannedClient]:
        return self._between(0, self._clients)

    def _between(self, first: int, end: int) -> Iterator[PlannedClient]:
        for number in range(first, end):
            topic = number // _PUBLISHERS_PER_TOPIC % self._topics
            other = (topic + 1) % self._topics
            away = number % 10 == 0
            home = (number * self._edges // self._clients + away) % self._edges
            publish = {f"t{topic}": self.topic_at(topic)}
            yield PlannedClient(f"c{number}", f"e{home}", publish, (f"t{topic}", f"t{other}"))


def _servers(edges: int) -> dict[str, SiteServer]:
    names: list[tuple[str, Role]] = [(f"e{number}", "edge") for number in range(edges)]
    found = {}
    for index, (name, role) in enumerate([*names, (_CLOUD, "cloud")]):
        key = index.to_bytes(32, "big")
        document = issue_server(_AUTHORITY, ServerCredential(name, role, key, 1, _VALID))
        order = ServerOrder(name, "10.0.0.1", 7000, key, "10.0.0.1", 7100, document)
        found[name] = SiteServer(order, (float(index), 0.0) if role == "edge" else None)
    return found


def _build(clients: int, edges: int, folder: Path) -> dict[str, Any]:
    """Write the database of the manager."""
    began_s = time.perf_counter()
    planned = _Clients(clients, edges)
    topics = tuple(
        PlannedTopic(f"t{number}", 100, (planned.topic_at(number),), False, str(number))
        for number in range(max(1, clients // _PUBLISHERS_PER_TOPIC))
    )
    plan = SitePlan(topics, planned)
    version = PlanVersion(1, _NOW_S, None, None, None)
    state = with_site(None, _servers(edges), plan, version)
    store = ManagerStore(folder / "manager.db")
    store.save_site(state, plan)
    for start in range(0, clients, _BATCH):
        numbers = range(start, min(start + _BATCH, clients))
        enrolled = (enrolled_client(one, f"e{one * edges // clients}") for one in numbers)
        store.save_clients(enrolled, state)
    store.close()
    size_mb = (folder / "manager.db").stat().st_size / 2**20
    return {"database_mb": round(size_mb, 1), "build_s": round(time.perf_counter() - began_s, 1)}


def enrolled_client(number: int, home: str) -> EnrolledClient:
    """Return a client of the site with as much about it as is usual."""
    key, credential = number.to_bytes(32, "big"), bytes(_CREDENTIAL_BYTES)
    until_s = _VALID.until_s
    return EnrolledClient(f"c{number}", key, home, None, 1, until_s, EVERYTHING, credential)


def _measure_manager(_clients: int, _edges: int, folder: Path) -> dict[str, Any]:
    """Start a manager from its database, and make the orders of one edge server."""
    store = ManagerStore(folder / "manager.db")
    state = store.load()
    assert state is not None
    manager = Manager(state, store.clients, _AUTHORITY, cloud=_CLOUD, incarnation=1)
    orders = make_orders(state, store.clients, "e1", _CLOUD, _NOW_S)
    document = sign_orders(_AUTHORITY, orders)
    (folder / "orders").write_bytes(document)
    manager.status(_NOW_S)
    gc.collect()
    found = {"manager_mb": round(_memory_mb(), 1), "orders_kb": round(len(document) / 1024, 1)}
    store.close()
    return found


def _edge() -> Server:
    return Server(
        ServerSettings("e1", "manager"),
        PeerChannels(1, AT_ONCE),
        lambda: _NOW_S,
        access=ClientAccess(os.urandom),
        trust=SiteTrust(_AUTHORITY.public_key),
        private_key=b"k" * 32,
        chance=Random(1),
    )


def _measure_edge(_clients: int, _edges: int, folder: Path) -> dict[str, Any]:
    """Let an edge server obey its orders."""
    document = (folder / "orders").read_bytes()
    server = _edge()
    gc.collect()
    before_mb = _memory_mb()
    server.obey_document(document, _NOW_S)
    del document
    gc.collect()
    return {"edge_mb": round(_memory_mb() - before_mb, 2)}


def _measure_subscriptions(clients: int, edges: int, folder: Path) -> dict[str, Any]:
    """Let all clients of the site subscribe, and look what one edge server knows of it."""
    server, planned, messages = _edge(), _Clients(clients, edges), 0
    said: dict[str, list[bytes]] = {}
    for to, frame in server.obey_document((folder / "orders").read_bytes(), _NOW_S).mesh:
        said.setdefault(to, []).append(frame)
    for edge in range(edges):
        if edge != 1:
            home, wishes = f"e{edge}", _wishes(planned.at(edge))
            messages += subscribe_at(
                home, 2 + edge, server, said.get(home, ()), wishes, _credential, _NOW_S
            )
    assert server.clients is not None
    for client, topic in _wishes(planned.at(1)):
        server.clients.subscriptions.subscribe(client, Subscribe(1, topic), _NOW_S)
    return {
        "edge_subscriptions": server.subscribers.table.subscriptions,
        "subscription_messages": messages,
    }


def _wishes(clients: Iterable[PlannedClient]) -> Iterator[tuple[str, str]]:
    for one in clients:
        for topic in (*one.topics, f"{one.topics[0]}/#"):
            yield one.client, topic


def _credential(client: str) -> bytes:
    key = int(client[1:]).to_bytes(32, "big")
    return issue_client(_AUTHORITY, ClientCredential(client, key, 1, _VALID, EVERYTHING))


def _memory_mb() -> float:
    """Return what this process has written: its part of libraries depends on who else has them."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    """Measure the task given as JSON in the first argument."""
    task = json.loads(sys.argv[1])
    part = {
        "build": _build,
        "manager": _measure_manager,
        "edge": _measure_edge,
        "subscriptions": _measure_subscriptions,
    }[task["part"]]
    found = part(task["clients"], task["edges"], Path(task["folder"]))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
