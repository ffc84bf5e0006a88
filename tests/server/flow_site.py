"""A simulated site on which a flow of two recording components runs, and what it must have done."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from msgspec import msgpack, structs

from nearcast.flow.flow import Component, ContentMapping, Flow
from nearcast.flow.flow_orders import FlowOrder
from nearcast.flow.messages import Part
from nearcast.flow.stored import FLOW_TOPICS, StoredInstance
from nearcast.routing.keys import INDEX_END, NetPath
from nearcast.server.flow_messages import MovePart
from nearcast.server.mesh_messages import encode_mesh
from nearcast.server.server import Server
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.recording_processor import RECORDING
from nearcast.testing.simulated_site import SimulatedSite

KEYS = ("k0", "k1", "k2", "k3", "k4", "k5")
FIRST = Component(RECORDING, ("in",), "middle", {}, ContentMapping("key"))
SECOND = Component(RECORDING, ("middle",), "out", {}, ContentMapping("key"))
CLIENTS = (ClientOrder("d0", "e0"), ClientOrder("d1", "e1"), ClientOrder("w", "e1"))
RECORDS = Flow("records", ("in",), {"first": FIRST, "second": SECOND})


class FlowSite:
    """Two edges and a cloud; devices d0 (at e0) and d1 (at e1) publish, w at e1 hears "out"."""

    def __init__(
        self,
        seed: int,
        flow: Flow = RECORDS,
        is_inline: bool = False,
        allowed: tuple[str, ...] = (),
        nets: Mapping[str, NetPath] | None = None,
    ) -> None:
        self.site = SimulatedSite(seed)
        self.site.nets |= nets or {}
        self.site.allowed_processors |= set(allowed)
        if is_inline:
            self.site.inline_processors |= {RECORDING, *allowed}
        self.site.allowed_processors |= {RECORDING}
        for name in ("e0", "e1"):
            self.site.add_server(name)
        self.site.add_server("cloud", is_edge=False)
        self.devices = [self.site.add_client(f"d{one}", f"e{one}") for one in range(2)]
        self.watcher = self.site.add_client("w", "e1")
        self.order = FlowOrder(flow, 1, dict.fromkeys(flow.components, "cloud"))
        self.revision = 0
        self.published: list[tuple[str, str, int]] = []
        """Key, publisher, number."""
        self.obey((self.order,))
        self.site.connect([*self.devices, self.watcher])
        self.site.run(2.0)
        self.watcher.subscribe("out")
        self.site.run(2.0)

    def obey(
        self,
        flows: tuple[FlowOrder, ...],
        clients: tuple[ClientOrder, ...] = CLIENTS,
        topics: tuple[TopicOrder, ...] = (),
    ) -> None:
        """Give all servers orders with these flows."""
        self.revision += 1
        servers, plan = self.site.server_orders(), self.revision if topics else 1
        orders = Orders(self.revision, plan, "cloud", servers, topics, clients)
        self.site.obey(structs.replace(orders, flows=flows))

    def node(self, server: str) -> Server:
        """Return a server that runs."""
        node = self.site.servers[server].node
        assert node is not None
        return node

    def publish(self, count: int, pause_s: float = 0.01) -> None:
        """Let both devices publish messages of all keys."""
        rng = self.site.random
        for _ in range(count):
            device, key = rng.choice(self.devices), rng.choice(KEYS)
            number = len(self.published)
            self.published.append((key, device.name, number))
            body = {"key": key, "publisher": device.name, "number": number}
            device.publish("in", json.dumps(body).encode())
            self.site.run(2 * pause_s * rng.random())

    def move(
        self,
        component: str,
        giver: str,
        taker: str,
        low: int,
        high: int,
        net: NetPath | None = None,
    ) -> None:
        """Have a part moved, as the manager would."""
        server = self.site.servers[giver]
        if server.node is not None:
            message = MovePart("records", component, Part(net, low, high), taker)
            server.node._peers.dispatch("manager", [encode_mesh(message)], server.clock.read())
            server.do(server.node.on_timer(server.clock.read()))

    def move_some(self) -> None:
        """Have some server give away half of the indexes, if it holds them."""
        rng = self.site.random
        giver, taker = rng.sample(list(self.site.servers), 2)
        half = INDEX_END // 2
        low = rng.choice((0, half))
        self.move(rng.choice(("first", "second")), giver, taker, low, low + half)

    def settle(self) -> None:
        """Start all servers that are down, and let everything come to its end."""
        for server in self.site.servers.values():
            server.crash_in(None)
            if server.node is None:
                server.restart()
        self.site.run(60.0)

    def heard(self) -> list[tuple[str, str, int]]:
        """What the watcher heard, in order."""
        bodies = [json.loads(one.payload) for one in self.watcher.notified]
        return [(one["key"], one["publisher"], one["number"]) for one in bodies]

    def stored(self, component: str) -> dict[str, dict[str, list[list[object]]]]:
        """What the logs of all servers have as states of a component: by server and key."""
        found = {}
        for name, server in self.site.servers.items():
            for topic, live in server.stored.topics.items():
                fields = topic.removeprefix(FLOW_TOPICS).split("\0")
                if topic.startswith(FLOW_TOPICS) and fields[2:4] == ["instance", component]:
                    assert live.state is not None
                    state = msgpack.decode(live.state, type=StoredInstance).state
                    found[name] = json.loads(state) if state else {}
        return found

    def check(self) -> None:
        """Check that each message was processed once by each component, in order, and heard."""
        for component in ("first", "second"):
            states = self.stored(component)
            owners = Counter(
                key for state in states.values() for key, seen in state.items() if seen
            )
            assert set(owners.values()) <= {1}, owners
            seen = {key: one for state in states.values() for key, one in state.items() if one}
            for key in KEYS:
                for device in ("d0", "d1"):
                    expected = [n for k, who, n in self.published if (k, who) == (key, device)]
                    got = [number for who, number in seen.get(key, []) if who == device]
                    assert got == expected, (component, key, device)
        assert Counter(self.heard()) == Counter(self.published)
