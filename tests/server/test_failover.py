"""A home that is gone: its clients are taken in elsewhere, and go back when it is there again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nearcast.server.mesh_messages import ClientIs, WhereIs, decode_mesh, encode_mesh
from nearcast.server.peer_channels import PeerChannels
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_manager import MANAGER
from nearcast.testing.simulated_network import Network
from nearcast.wire.actions import Acknowledged, Connected, HomeUnreachable
from nearcast.wire.notification import Notification
from server.site_making import RandomSite

WITHIN_S = 10.0


def lose_a_home(made: RandomSite) -> tuple[str, list[SimulatedClient]]:
    """Kill a server that is somebody's home; return its name and its clients."""
    made.start()
    lost = made.homes[next(iter(made.targets))[1]]
    made.site.servers[lost].kill()
    return lost, [one for name, one in made.people.items() if made.homes[name] == lost]


def first_after(client: SimulatedClient, kind: type, start: float) -> float:
    """Return how long after a time a client heard something of a kind."""
    return next(
        (at - start for at, event in client.events if isinstance(event, kind) and at > start),
        float("inf"),
    )


@pytest.mark.parametrize("delegated", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(6))
def test_when_a_home_is_gone_its_clients_publish_and_hear_within_ten_seconds(
    seed: int, delegated: float
) -> None:
    made = RandomSite(seed, delegated=delegated, spool=1_000, processor="forward")
    lost, orphans = lose_a_home(made)
    start = made.site.now
    made.published.clear()
    publishers = [one for one, _ in made.targets.items()]
    for _ in range(48):
        for topic, publisher in publishers:
            made.publish(topic, publisher)
        made.site.run(0.25)
    for orphan in orphans:
        assert orphan.session.home != made.site.servers[lost].home
        assert first_after(orphan, Connected, start) < WITHIN_S
        if any(name == orphan.name for _, name in publishers):
            assert first_after(orphan, Acknowledged, start) < WITHIN_S
        if any(orphan.name in names for names in made.subscribers.values()):
            assert first_after(orphan, Notification, start) < WITHIN_S
    made.site.run(20.0)
    assert made.unacknowledged == 0
    heard = made.heard()
    for name, wanted in made.expected().items():
        if made.homes[name] != lost:
            # those of the lost home were away for a while
            assert {one: heard[name][one] for one in wanted} == dict(wanted)
        assert set(heard[name].values()) <= {1}


@pytest.mark.parametrize("seed", range(4))
def test_an_idle_client_notices_that_its_home_is_gone(seed: int) -> None:
    made = RandomSite(seed)
    _, orphans = lose_a_home(made)
    start = made.site.now
    made.site.run(WITHIN_S)
    for orphan in orphans:
        assert orphan.session.is_connected
        assert first_after(orphan, Connected, start) < WITHIN_S


@pytest.mark.parametrize("seed", range(4))
def test_guests_go_home_when_their_home_is_there_again(seed: int) -> None:
    made = RandomSite(seed, spool=1_000, processor="forward")
    lost, orphans = lose_a_home(made)
    made.site.run(20.0)
    home = made.site.servers[lost].home
    moves = [
        len([1 for _, one in orphan.events if isinstance(one, Connected)]) for orphan in orphans
    ]
    assert all(orphan.session.home != home for orphan in orphans)
    made.site.run(20.0)
    # a guest stays where it is: nobody sends it to a home that does not answer
    after = [
        len([1 for _, one in orphan.events if isinstance(one, Connected)]) for orphan in orphans
    ]
    assert moves == after
    made.site.servers[lost].restart()
    made.site.run(20.0)
    assert all(orphan.session.home == home for orphan in orphans)
    assert all(orphan.session.is_connected for orphan in orphans)
    made.published.clear()
    before = {name: len(one.notified) for name, one in made.people.items()}
    made.publish_some(30)
    made.site.run(10.0)
    assert made.unacknowledged == 0
    for name, wanted in made.expected().items():
        told = made.people[name].notified[before[name] :]
        assert sorted((one.topic, one.publisher, one.sequence) for one in told) == sorted(wanted)


def test_a_client_whose_site_is_gone_tries_all_servers_and_comes_back_with_the_first() -> None:
    made = RandomSite(2, network=Network(jitter_s=0.01))
    made.start()
    for server in made.site.servers.values():
        server.kill()
    made.site.run(120.0)
    client = made.people["c0"]
    assert first_after(client, HomeUnreachable, 0.0) < float("inf")
    last = next(name for name in made.edge_names if name != made.homes["c0"])
    made.site.servers[last].restart()
    made.site.run(30.0)
    assert client.session.is_connected
    assert client.session.home == made.site.servers[last].home


def test_after_a_restart_a_publisher_is_back_within_two_round_trips() -> None:
    made = RandomSite(1)
    made.start()
    (topic, publisher), *_ = made.targets
    client, server = made.people[publisher], made.site.servers[made.homes[publisher]]
    server.kill()
    server.restart()
    start = made.site.now
    made.publish(topic, publisher)
    made.site.run(1.0)
    # to hear that the session is unknown, and for the handshake: a millisecond each way
    assert first_after(client, Connected, start) < 0.01


class FakeManager:
    """Answers where clients belong."""

    def __init__(self, made: RandomSite) -> None:
        self._made, self._channels = made, PeerChannels(1)
        self.asked: list[str] = []

    def on_mesh(self, server: str, frame: bytes) -> None:
        made, now = self._made, self._made.site.now
        for data in self._channels.receive(server, frame, now):
            message = decode_mesh(data)
            if isinstance(message, WhereIs):
                self.asked.append(message.client)
                order = next(
                    (one for one in made.orders().clients if one.client == message.client), None
                )
                self._channels.send(server, encode_mesh(ClientIs(message.client, order)))
        for receiver, data in self._channels.poll(now):
            made.site.send_frame(MANAGER, receiver, data)


def obey_alone(made: RandomSite) -> None:
    """Give each server orders that name only the clients whose home it is."""
    orders = made.orders()
    for name, server in made.site.servers.items():
        own = tuple(one for one in orders.clients if one.home == name)
        server.obey(replace(orders, clients=own))


@pytest.mark.parametrize("is_manager_up", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_guests_are_served_whom_no_orders_name(seed: int, is_manager_up: bool) -> None:
    made = RandomSite(seed, spool=1_000, processor="forward")
    made.site.obey = lambda _orders: obey_alone(made)  # type: ignore[assignment, method-assign]
    manager = FakeManager(made)
    if is_manager_up:
        made.site.on_frame[MANAGER] = manager.on_mesh
    lost, orphans = lose_a_home(made)
    made.site.run(WITHIN_S)
    made.published.clear()
    before = {name: len(one.notified) for name, one in made.people.items()}
    made.publish_some(30)
    made.site.run(10.0)
    home = made.site.servers[lost].home
    assert all(orphan.session.is_connected and orphan.session.home != home for orphan in orphans)
    assert made.unacknowledged == 0
    for name, wanted in made.expected().items():
        told = made.people[name].notified[before[name] :]
        assert sorted((one.topic, one.publisher, one.sequence) for one in told) == sorted(wanted)
    made.site.servers[lost].restart()
    made.site.run(30.0)
    assert all(orphan.session.is_connected for orphan in orphans)
    assert all(orphan.session.home == home for orphan in orphans), "the directory knows it too"
    if is_manager_up:
        assert {orphan.name for orphan in orphans} <= set(manager.asked)
