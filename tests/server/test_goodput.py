"""A server with more to do than it can: what it gets done stays near what it could get done."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from nearcast.server.peer_channels import PeerChannels
from nearcast.server.server import Server
from nearcast.server.server_settings import ClientAccess, ServerSettings
from nearcast.server.site_orders import ClientOrder, Orders, ServerOrder, TopicOrder
from nearcast.testing.authority import SmallAuthority
from nearcast.testing.whole_pass import whole_pass
from nearcast.wire.actions import Home, SendDatagram
from nearcast.wire.client_session import ClientSession
from nearcast.wire.noise import public_key

AUTHORITY = SmallAuthority()
PROCESS_S, REFUSE_S, READ_S = 500e-6, 100e-6, 20e-6
"""What a publication that is processed or refused, and any datagram, takes."""
CAPACITY_HZ = 1 / (PROCESS_S + READ_S)
CLIENTS, TOPICS, BATCH = 8, 5, 64
RUN_S, PAUSE_S = 0.1, 0.2


class SlowEdge:
    """An edge server that takes its time, and publishers that offer more than it can process.

    Datagrams wait in one queue, as in the kernel, and are read in batches while the server runs.
    """

    def __init__(self, is_paused: bool) -> None:
        self.now = 1_700_000_000.0
        self._is_paused, self._ran_s = is_paused, 0.0
        server_key, rng = bytes(range(32)), Random(5)
        self.edge = Server(
            ServerSettings("e1"),
            PeerChannels(1),
            lambda: self.now,
            AUTHORITY.trust(),
            server_key,
            access=ClientAccess(rng.randbytes),
            chance=Random(1),
        )
        names = [f"car{number}" for number in range(CLIENTS)]
        self.topics = [f"t{number}" for number in range(TOPICS)]
        orders = Orders(
            1,
            1,
            "cloud",
            (ServerOrder("e1", "e1", 7000, public_key(server_key)),),
            tuple(TopicOrder(topic, 100, ("e1",)) for topic in self.topics),
            tuple(ClientOrder(name, "e1", dict.fromkeys(self.topics, "e1")) for name in names),
        )
        self.edge.obey(orders, self.now)
        home = Home(("e1", 7000), public_key(server_key))
        self.clients = {}
        for number, name in enumerate(names):
            key = bytes([number + 1] * 32)
            credential = AUTHORITY.client(name, public_key(key))
            self.clients[name, 1] = ClientSession(key, home, rng.randbytes, None, credential)
            self.clients[name, 1].connect(self.now)
        self.queue: deque[tuple[float, bytes, tuple[str, int]]] = deque()
        for _ in range(200):
            self.run_for(0.005)

    @property
    def unacknowledged(self) -> int:
        return sum(one.unacknowledged for one in self.clients.values())

    def run_for(self, seconds: float) -> None:
        """Let clients send, and the server work."""
        end = self.now + seconds
        for address, client in self.clients.items():
            for item in client.poll(self.now):
                if isinstance(item, SendDatagram):
                    self.queue.append((self.now, item.data, address))
        while self.now < end:
            if self.queue:
                self._serve()
            else:
                self._pass(end - self.now)

    def _pass(self, seconds: float) -> None:
        """Let the server work; one that is paused does not run for 0.2 s after each 0.1 s."""
        pauses = int((self._ran_s % RUN_S + seconds) / RUN_S) if self._is_paused else 0
        self._ran_s += seconds
        self.now += seconds + pauses * PAUSE_S

    def _serve(self) -> None:
        batch = [self.queue.popleft() for _ in range(min(BATCH, len(self.queue)))]
        waited_s = self.now - batch[0][0] if len(batch) == BATCH else 0.0
        before = self.edge.counts["busy"], self.edge.counts["publications"]
        out = whole_pass(self.edge, [one[1:] for one in batch], self.now, waited_s)
        refused = self.edge.counts["busy"] - before[0]
        processed = self.edge.counts["publications"] - before[1]
        self._pass(READ_S * len(batch) + REFUSE_S * refused + PROCESS_S * processed)
        tickets = [group.ticket for group in out.to_store]
        for one in out.datagrams + self.edge.on_committed(tickets, self.now).datagrams:
            self.clients[one.address].receive([one.data], self.now)


@pytest.mark.parametrize("is_paused", [False, True])
def test_publishers_that_offer_twice_what_a_server_can_do_keep_it_at_work(is_paused: bool) -> None:
    one = SlowEdge(is_paused)
    seconds, began, published = 5.0, one.now, 0
    while one.now < began + seconds:
        offered = 2 * CAPACITY_HZ * (one.now - began)
        while published < offered and one.unacknowledged < 4_000:
            client = one.clients[f"car{published % CLIENTS}", 1]
            client.publish(one.topics[published // CLIENTS % TOPICS], b"x" * 100, one.now)
            published += 1
        one.run_for(0.01)
    acknowledged, could = published - one.unacknowledged, CAPACITY_HZ * (one.now - began)
    could *= RUN_S / (RUN_S + PAUSE_S) if is_paused else 1.0
    assert acknowledged > 0.6 * could
