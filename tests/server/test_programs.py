"""A client's next program is not told what an earlier one of the same name lacked."""

from __future__ import annotations

from random import Random

import pytest

from nearcast.server.mesh_messages import Undelivered, encode_mesh
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.codec import encode
from nearcast.wire.messages import Notify
from server.site_making import QUICK
from server.test_site_faults import bad_network


class _Guarded:
    """Two edge servers and the cloud; a guard at e1 listens to north (at e1) and south (at e2)."""

    def __init__(self, seed: int, network: Network) -> None:
        self.rng, self.network = Random(seed), network
        self.site = SimulatedSite(seed, network, QUICK)
        for name in ("e1", "e2"):
            self.site.add_server(name)
        self.site.add_server("cloud", is_edge=False)
        homes = {"guard": "e1", "north": "e1", "south": "e2"}
        self.people = {name: self.site.add_client(name, home) for name, home in homes.items()}
        self.guard = self.people["guard"]
        self.targets = {
            name: self.rng.choice([homes[name], "cloud"]) for name in ("north", "south")
        }
        brokers = tuple(sorted(set(self.targets.values())))
        clients = tuple(
            ClientOrder(name, home, {"t": self.targets[name]} if name in self.targets else {})
            for name, home in homes.items()
        )
        topics = (TopicOrder("t", 50, brokers), TopicOrder("u", 50, ("cloud",)))
        self.site.obey(Orders(1, 1, "cloud", self.site.server_orders(), topics, clients))
        self.site.connect(self.people.values())
        while not all(one.session.is_connected for one in self.people.values()):
            self.site.run(1.0)
        self.guard.subscribe("t")
        self.site.run(5.0)

    def publish(self, kill: str = "") -> None:
        """Have both publish until the guard has heard all, while a server may be killed."""
        sent, kill_at = set(), self.rng.randrange(12)
        for number in range(12):
            for name in self.targets:
                sent.add(payload := f"{name}{number}".encode())
                self.people[name].publish("t", payload)
            self.site.run(self.rng.random() * 0.3)
            if kill and number == kill_at:
                self.site.servers[kill].kill()
                self.site.run(self.rng.choice([0.0, 0.1, 1.0, 3.0, 6.0]))
                self.site.servers[kill].restart()
        for _ in range(4_000):
            if {one.payload for one in self.guard.notified} == sent:
                break
            self.site.run(0.02)
        assert sorted(one.payload for one in self.guard.notified) == sorted(sent)

    def end(self, *, is_heard: bool) -> None:
        """End the guard's program with a goodbye, which may be lost."""
        loss = self.network.loss
        self.network.loss = loss if is_heard else 1.0
        self.guard.session.close()
        self.guard.go_on()
        self.network.loss = loss

    def begin(self) -> list[bytes]:
        """Return what the guard's next program hears, which wants something else."""
        before = len(self.guard.notified)
        self.site.restart_client(self.guard)
        self.guard.connect()
        self.site.run(0.2)
        self.guard.subscribe("u")
        self.site.run(20.0)
        self.people["south"].publish("u", b"new")
        self.site.run(5.0)
        return [one.payload for one in self.guard.notified[before:]]


@pytest.mark.parametrize("seed", range(8))
def test_the_next_program_hears_nothing_of_the_last_one(seed: int) -> None:
    made = _Guarded(seed, bad_network() if seed % 2 else Network())
    made.publish(made.rng.choice(["", "e1", "e1", "e2", "cloud"]))
    made.end(is_heard=seed % 4 == 3)
    made.site.run(made.rng.choice([0.0, 0.01, 0.1, 1.0]))
    assert made.begin() == [b"new"]


@pytest.mark.parametrize("after_s", [0.0, 0.1])
def test_what_another_home_still_has_for_a_program_is_for_that_one_only(after_s: float) -> None:
    made = _Guarded(0, Network())
    made.publish()
    epoch, node = made.guard.session.epoch, made.site.servers["e1"].node
    assert node is not None
    late = Notify("t", "north", 1, 99, True, 0, b"late")
    says = [encode_mesh(Undelivered("guard", (encode(late),), 1, one)) for one in (epoch, 0)]

    def arrive() -> None:
        node._peers.dispatch("e2", says, made.site.now)
        made.site.servers["e1"].do(node.on_timer(made.site.now))

    arrive()
    made.site.run(1.0)
    assert made.guard.notified[-1].payload == b"late"  # the guard itself hears it
    made.end(is_heard=True)
    made.site.run(0.05)
    made.site.at(made.site.now + after_s, arrive)  # before or after its next program is there
    assert made.begin() == [b"new"]
