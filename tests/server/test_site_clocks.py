"""A whole site whose machines have wrong clocks: everything is acknowledged and heard once."""

from __future__ import annotations

import pytest

from nearcast.testing.fake_disk import FakeDisk
from nearcast.testing.simulated_network import Network
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
