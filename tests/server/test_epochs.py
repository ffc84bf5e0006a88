"""A client that is given a lower epoch than before is heard all the same."""

from __future__ import annotations

import pytest

from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.raw_client import RawClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.actions import Acknowledged
from nearcast.wire.codec import encode
from nearcast.wire.messages import Publish
from nearcast.wire.noise import public_key
from nearcast.wire.publication import NUMBER_END
from server.site_making import QUICK, RandomSite


@pytest.mark.parametrize("delegated", [0.0, 1.0])
@pytest.mark.parametrize("durable", [True, False])
def test_after_its_homes_clock_was_set_back_a_restarted_client_is_acknowledged(
    delegated: float, durable: bool
) -> None:
    made = RandomSite(1, delegated=delegated, wire=QUICK, processor="forward")
    made.start()
    (topic, name), *_ = made.targets
    client, home = made.people[name], made.site.servers[made.homes[name]]
    client.publish(topic, b"before", durable=durable)
    made.site.run(1.0)
    before = client.session.epoch
    home.kill()
    home.clock.jump(-20.0)
    home.restart()
    made.site.restart_client(client)
    client.connect()
    made.site.run(5.0)
    assert client.session.is_connected
    assert client.session.epoch < before
    for number in range(10):
        client.publish(topic, b"after %d" % number, durable=durable)
        made.site.run(0.5)
    made.site.run(5.0)
    assert client.session.unacknowledged == 0
    other = next(one for one in made.subscribers[topic] if one != name)
    heard = [one.payload for one in made.people[other].notified if one.topic == topic]
    wanted = [b"before", *(b"after %d" % number for number in range(10))]
    # the first that is sent once only tells the client that its epoch is stale
    assert heard == (wanted if durable or delegated == 0.0 else [wanted[0], *wanted[2:]])


class _Numbers:
    """Two edges, an honest client, and one that chooses its numbers; e0 has the topic at first."""

    def __init__(self, hostile: str = "hostile") -> None:
        site = self.site = SimulatedSite(1)
        site.gather_s = 0.01  # what comes together is claimed together
        for name in ("e0", "e1"):
            site.add_server(name)
        self.car = site.add_client("car", "e0")
        key, home = site.random.randbytes(32), site.servers["e0"].home
        credential = site.authority.client(hostile, public_key(key))
        self.hostile = RawClient(site, "hostile", key, home, credential)
        self.obey(1, "e0")
        site.connect([self.car])
        site.run(1.0)
        self.hostile.connect()
        site.run(1.0)

    def obey(self, revision: int, broker: str) -> None:
        past = ("e0",) if broker != "e0" else ()
        topic = TopicOrder("t", 100, (broker,), version=revision, moved_from=past)
        clients = tuple(ClientOrder(name, "e0", {"t": broker}) for name in ("car", "hostile"))
        servers = self.site.server_orders()
        self.site.obey(Orders(revision, revision, "", servers, (topic,), clients))

    def send(self, epoch: int, sequence: int, *, durable: bool = True) -> None:
        made = Publish("t", epoch, sequence, sequence, durable, b"x")
        self.hostile.send(self.hostile.seal(encode(made)))

    @property
    def acknowledged(self) -> int:
        return sum(isinstance(event, Acknowledged) for _, event in self.car.events)


@pytest.mark.parametrize("epoch", [5, NUMBER_END - 2, NUMBER_END, (1 << 63) - 1])
@pytest.mark.parametrize("sequence", [1, NUMBER_END - 2, NUMBER_END, (1 << 63) - 2])
def test_numbers_of_a_client_do_not_hold_up_the_streams_of_others(
    epoch: int, sequence: int
) -> None:
    """Answers to claims name many streams; one with a number out of range was refused, for all."""
    made = _Numbers()
    made.car.publish("t", b"1")
    made.send(epoch, sequence)
    made.site.run(1.0)
    made.obey(2, "e1")
    made.site.run(1.0)
    made.car.publish("t", b"2")
    made.send(epoch, sequence + 1)
    made.site.run(2.0)
    taker = made.site.servers["e1"]
    assert made.car.session.unacknowledged == 0
    assert "t" in taker.stored.topics
    assert taker.counts["streams_taken_over"] == taker.counts["mesh_refused"] == 0


@pytest.mark.parametrize("durable", [True, False])
def test_a_stolen_key_cannot_use_up_the_epochs_of_its_client(durable: bool) -> None:
    made = _Numbers("car")  # the thief's session takes the place of the client's
    epochs = [(1 << 61), *((1 << 61) + 1 + number * (1 << 32) for number in range(5))]
    for epoch in (*epochs, NUMBER_END - 1, (1 << 63) - 1):
        made.send(epoch, 1, durable=durable)
        made.site.run(0.1)
    refused = made.site.servers["e0"].counts["refused_malformed"]
    assert refused == 1, "the last one does not even get there"
    made.car.connect()
    made.site.run(2.0)
    for number in range(5):
        made.car.publish("t", b"%d" % number, durable=durable)
        made.site.run(1.0)
    live = made.site.servers["e0"].node
    assert live is not None
    spooled = [one.payload for one in live.broker.topics["t"].spool.view()]
    # the first that is sent once only tells the client that its epoch is stale
    assert spooled[len(epochs) :] == [b"%d" % number for number in range(not durable, 5)]
    assert bool(made.acknowledged) is durable
