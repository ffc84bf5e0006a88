"""Clients that another edge server took in, while the manager is away or has restarted."""

from __future__ import annotations

import pytest

from nearcast.experiments.survive.trial_site import TrialSite
from nearcast.server.broker_messages import CopyNack
from nearcast.server.mesh_messages import encode_mesh
from nearcast.server.orders_from_plan import DELEGATED
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.simulated_site import SimulatedSite


def homes(trial: TrialSite) -> dict[str, str]:
    """Return where clients are; those without a session are nowhere."""
    return {
        name: one.session.home.address[0] if one.session.is_connected else ""
        for name, one in trial.site.clients.items()
    }


def planned(trial: TrialSite) -> dict[str, str]:
    """Return where clients belong by the plan that the manager has."""
    return {
        one.client: one.home
        for server in trial.site.servers
        for one in trial.manager._directory.clients_of(server)
    }


@pytest.mark.parametrize(
    ("when", "target", "switches"),
    [
        ("before", "e0", False),
        ("before", DELEGATED, True),
        ("while", "e0", True),
        ("while", DELEGATED, False),
        ("after", "e0", True),
    ],
)
def test_a_manager_that_restarts_leaves_guests_where_they_are(
    when: str, target: str, switches: bool
) -> None:
    """Killed before clients become guests, while they are, or only for a moment afterwards."""
    trial = TrialSite(
        7, edges=3, publishers=2, subscribers=2, homes=("e0",) * 4, targets=(target,) * 2
    )
    site = trial.site
    trial.start()
    assert set(homes(trial).values()) == {"e0"}
    if when == "before":
        trial.manager.kill()
        site.run(1.0)
    site.servers["e0"].kill()
    trial.publish_some(4, 0.1)
    site.run(10.0)
    guests = homes(trial)
    assert "" not in guests.values()
    assert "e0" not in guests.values()
    if when == "while":
        trial.manager.kill()
        site.run(5.0)
    if switches:
        trial.homes = ("e0", "e1", "e2")
        trial.switch_plan()  # stored; servers hear of it when the manager is up
    site.run(5.0)
    trial.manager.kill()
    site.run(1.0)
    trial.manager.restart()
    trial.publish_some(4, 0.1)
    site.run(20.0)
    away = {name for name, home in planned(trial).items() if home == "e0"}
    found = homes(trial)
    assert "" not in found.values()
    for name, home in planned(trial).items():
        if name in away:
            assert found[name] == guests[name], "it stays where it was taken in"
        else:
            assert found[name] == home, "it goes where the new plan has it"
    site.servers["e0"].restart()
    site.run(30.0)
    assert homes(trial) == planned(trial)
    trial.publish_some(4, 0.1)
    site.run(30.0)
    trial.look()
    assert not trial.waiting
    assert all(one.acknowledged for one in trial.messages)
    for name in ("s0", "s1"):
        heard = [one.payload.decode() for one in site.clients[name].notified]
        assert sorted(heard) == sorted(one.payload for one in trial.messages)


def test_a_server_that_stood_in_gives_what_it_has_to_one_that_it_never_heard_of() -> None:
    """By its orders e0 has no part in the topic: nobody told it that the cloud server has one now."""
    site = SimulatedSite(3)
    for name in ("e0", "e1"):
        site.add_server(name)
    site.add_server("cloud", is_edge=False)
    car = site.add_client("car", "e1")

    def obey(revision: int, broker: str, *past: str) -> None:
        topic = TopicOrder("t", 100, (broker,), version=revision, moved_from=past)
        order = ClientOrder("car", "e1", {"t": broker})
        servers = site.server_orders()
        for name in ("e1", "cloud"):
            site.servers[name].obey(
                Orders(revision, revision, "cloud", servers, (topic,), (order,))
            )
        site.servers["e0"].obey(Orders(revision, revision, "cloud", servers, (), ()))

    obey(1, "e1")
    site.connect([car])
    site.run(2.0)
    car.publish("t", b"at home")
    site.run(1.0)
    site.servers["e1"].kill()
    site.servers["cloud"].kill()
    site.run(8.0)
    for number in range(3):
        car.publish("t", b"as a guest %d" % number)
    site.run(10.0)
    assert car.session.home.address[0] == "e0"
    assert car.session.unacknowledged == 0
    for name in ("e1", "cloud"):
        site.servers[name].restart()
    obey(2, "cloud", "e1")
    site.run(20.0)
    assert car.session.home.address[0] == "e1"
    car.publish("t", b"at home again")
    site.run(20.0)
    assert car.session.unacknowledged == 0
    node = site.servers["cloud"].node
    assert node is not None
    assert [one.sequence for one in node.broker.topics["t"].spool.view()] == [1, 2, 3, 4, 5]
    had = site.servers["e0"].node
    assert had is not None
    had.topics._told.stand_ins.clear()  # that the cloud server manages it was said while e0 was away
    had.topics._told.volunteers.clear()
    asked = CopyNack("t", "car", car.session.epoch, ((2, 4),))
    refused = had.counts["mesh_refused"]
    had._peers.dispatch("cloud", [encode_mesh(asked)], site.now)
    had._peers.dispatch("e1", [encode_mesh(asked)], site.now)
    assert had.counts["mesh_refused"] == refused + 1, "only who has claimed the stream gets it"
