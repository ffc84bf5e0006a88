"""A whole site whose machines have wrong clocks: everything is acknowledged and heard once."""

from __future__ import annotations

from random import Random

import pytest

from nearcast.experiments.survive.trial_site import TrialSite
from nearcast.testing.fake_disk import FakeDisk
from nearcast.testing.simulated_manager import SimulatedManager
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_server import SimulatedServer
from nearcast.wire.publication import Publication
from server.site_making import QUICK, RandomSite
from server.test_site_faults import check_last_round, check_spools

YEAR_S = 365 * 86_400.0
BOOT_S = -1_699_999_000.0
"""From the simulation's time back to the beginning of 1970."""


@pytest.mark.parametrize("seed", range(3))
def test_a_site_with_clocks_years_apart_works(seed: int) -> None:
    made = RandomSite(seed, spool=1_000, network=Network(loss=0.05), wire=QUICK)
    clocks = [one.clock for one in made.site.servers.values()]
    for clock in clocks + [one.clock for one in made.people.values()]:
        clock.jump(made.rng.choice((BOOT_S, -YEAR_S, -31.0, 0.0, 31.0, YEAR_S)))
        clock.begin()
    for server in made.site.servers.values():
        server.kill()
        server.restart()
    made.start()
    made.publish_some(60, pause_s=0.01)
    made.site.run(20.0)
    check_spools(made)
    assert made.heard() == made.expected()


@pytest.mark.parametrize("jump_s", [BOOT_S, -3_600.0, YEAR_S])
@pytest.mark.parametrize("seed", range(2))
def test_servers_that_restart_with_another_time_are_heard(seed: int, jump_s: float) -> None:
    made = RandomSite(seed, spool=1_000, wire=QUICK)
    made.start()
    made.publish_some(20, pause_s=0.01)
    made.site.run(1.0)
    for server in made.site.servers.values():
        server.kill()
        server.clock.jump(jump_s)
        made.site.run(0.2)
        server.restart()
        made.publish_some(5, pause_s=0.01)
        made.site.run(3.0)
    made.site.run(15.0)
    check_spools(made)
    check_last_round(made)


def test_a_server_that_lost_its_folder_is_heard_again() -> None:
    made = RandomSite(5, spool=1_000, wire=QUICK)
    made.start()
    made.publish_some(20, pause_s=0.01)
    made.site.run(5.0)
    server = made.site.servers["e0"]
    server.kill()
    server.spool.disk = FakeDisk(1)
    server.orders_file = None
    made.site.run(0.5)
    server.restart()
    server.obey(made.orders())
    made.site.run(10.0)
    check_last_round(made)


def _wrong_site(seed: int) -> TrialSite:
    """Return a site at work whose machines, the manager's too, know nothing of the time."""
    trial = TrialSite(seed, edges=3, subscribers=6, is_in_order=True)
    site, rng = trial.site, Random(seed)
    jumps_s = [BOOT_S, -YEAR_S, -1.0, 1.0, 3_600.0, YEAR_S]
    machines: list[SimulatedManager | SimulatedServer] = [trial.manager, *site.servers.values()]
    for machine in machines:
        machine.kill()
        machine.clock.jump(rng.choice(jumps_s))
        machine.restart()
    for client in site.clients.values():
        client.clock.jump(rng.choice(jumps_s))
        client.clock.begin()
    trial.start()
    site.run(15.0)  # servers and clients have reported, and heard what time it is
    return trial


@pytest.mark.parametrize("seed", range(4))
def test_a_message_counts_as_long_as_it_says_whatever_the_clocks_show(seed: int) -> None:
    trial = _wrong_site(seed)
    site, hearers = trial.site, [trial.site.clients[one] for one in trial.subscriber_names]
    for name in trial.publisher_names:
        site.clients[name].publish("t0", b"short", valid_s=0.5)
    site.run(2.0)
    for one in hearers:
        assert [note.payload for note in one.notified].count(b"short") == trial.publishers
    # what waits longer than it counts is told nobody
    for server in site.servers.values():
        server.pause()
    for name in trial.publisher_names:
        site.clients[name].publish("t0", b"late", valid_s=0.5)
    site.run(1.0)
    for server in site.servers.values():
        server.resume()
    site.run(10.0)
    assert trial.waiting == 0
    for one in hearers:
        assert b"late" not in [note.payload for note in one.notified]


def test_legs_of_a_way_are_true_whatever_the_clocks_show() -> None:
    trial = _wrong_site(5)
    trial.publish_some(20, 2.0)
    trial.site.run(2.0)
    for name in trial.subscriber_names:
        notified = trial.site.clients[name].notified
        assert len(notified) == 20
        for one in notified:
            legs_ms = (one.publish_leg_ms, one.between_ms, one.notify_leg_ms)
            assert all(leg is not None and abs(leg) < 100.0 for leg in legs_ms), legs_ms


def test_a_home_in_the_future_does_not_stop_the_time_of_others() -> None:
    """It cannot have got a message later than the one that has it by now."""
    message = Publication("t", "p", 1, 1, 7, 2**61, 0.0, 0.0, b"")
    record = message.record()
    message.note_arrival(5, 1_000)
    assert (message.received_us, message.arrived_us) == (1_000, 5)
    assert message.record() != record
    message.note_arrival(6, 2_000)
    assert message.received_us == 1_000
