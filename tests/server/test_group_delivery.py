"""Alerts by multicast on a site: exactly the subscribers that unicast would tell, once each."""

from __future__ import annotations

from dataclasses import replace
from math import hypot
from random import Random

import pytest
from msgspec import structs

from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.testing.authority import ALWAYS
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.trust.revocations import Revocation, RevocationList, issue_revocations
from nearcast.trust.rights import Rights
from nearcast.wire.framing import read_header
from nearcast.wire.group_settings import GroupSettings

GROUP = GroupSettings("239.192.7.1", 7401, least_receivers=4)
CARS = 30
REACH_KM = 5.0


def circle(x_km: float, y_km: float) -> str:
    return (
        f'{{"type":"Feature","geometry":{{"type":"Point","coordinates":[{x_km},{y_km}]}},'
        f'"properties":{{"radius_km":{REACH_KM}}}}}'
    )


def site_with_group(
    seed: int, group: GroupSettings | None = GROUP, edges: tuple[str, ...] = ("e1",)
) -> tuple[SimulatedSite, SimulatedClient, dict[str, SimulatedClient]]:
    """Return a site, a publisher and subscribers of `alerts` that had the time to join."""
    site = SimulatedSite(seed)
    site.group = group
    for name in edges:
        site.add_server(name)
    rng = Random(seed)
    cars = {
        f"car{n}": site.add_client(
            f"car{n}", edges[n % len(edges)], rng.uniform(0, 10), rng.uniform(0, 10)
        )
        for n in range(CARS)
    }
    sign = site.add_client("sign", edges[0])
    homes = tuple(ClientOrder(f"car{n}", edges[n % len(edges)]) for n in range(CARS))
    orders = Orders(1, 0, "", site.server_orders(), (), (*homes, ClientOrder("sign", edges[0])))
    site.obey(orders)
    site.connect([sign, *cars.values()])
    site.run(1.0)
    for one in cars.values():
        one.subscribe("alerts")
    site.run(5.0)
    return site, sign, cars


def texts(client: SimulatedClient) -> list[str]:
    return [one.text for one in client.notified]


def group_members(site: SimulatedSite, server: str = "e1") -> int:
    node = site.servers[server].node
    assert node is not None
    assert node.sessions is not None
    assert node.sessions.group is not None
    return node.sessions.group.members


@pytest.mark.parametrize("seed", range(3))
def test_with_losses_all_in_the_area_are_told_once_and_nobody_else(seed: int) -> None:
    site, sign, cars = site_with_group(seed, edges=("e1", "e2"))
    assert group_members(site, "e1") + group_members(site, "e2") >= CARS
    site.network = Network(loss=0.1, duplication=0.05, jitter_s=0.01)
    rng, wanted = Random(seed), dict[str, list[str]]({name: [] for name in cars})
    for number in range(40):
        x_km, y_km = rng.uniform(0, 10), rng.uniform(0, 10)
        area = circle(x_km, y_km) if number % 4 else ""
        sign.publish("alerts", f"{number}".encode(), area=area)
        for name, car in cars.items():
            report = car.session._context.report
            if not area or hypot(report.x_km - x_km, report.y_km - y_km) <= REACH_KM:
                wanted[name].append(f"{number}")
        site.run(rng.choice((0.0, 0.02, 0.5)))
    site.run(20.0)
    assert {name: sorted(texts(one), key=int) for name, one in cars.items()} == wanted
    told = sum(map(len, wanted.values()))
    counts = site.servers["e1"].counts + site.servers["e2"].counts
    assert counts["group_notifications"] > told / 2
    assert 0 < counts["group_repaired"] < counts["group_notifications"] / 4
    assert counts["notifications"] == told


def test_who_loses_the_group_is_told_in_its_session_until_it_is_back() -> None:
    site, sign, cars = site_with_group(1)
    car = cars["car0"]
    hear = car.on_group_datagram
    car.on_group_datagram = lambda data: None  # type: ignore[method-assign]
    car.go_on()
    sign.publish("alerts", b"1")
    site.run(2.0)
    assert texts(car) == ["1"]  # it did not confirm in time
    assert group_members(site) == CARS
    car.on_group_datagram = hear  # type: ignore[method-assign]
    car.go_on()
    site.run(12.0)
    assert group_members(site) == CARS + 1
    sign.publish("alerts", b"2")
    site.run(5.0)
    assert all(texts(one) == ["1", "2"] for one in cars.values())
    assert site.servers["e1"].counts["group_repaired"] == 1


def test_who_falls_silent_in_the_group_says_so_before_anything_is_missed() -> None:
    site, sign, cars = site_with_group(1)
    cars["car0"].on_group_datagram = lambda data: None  # type: ignore[method-assign]
    cars["car0"].go_on()
    site.run(8.0)
    assert group_members(site) == CARS
    sign.publish("alerts", b"1")
    site.run(0.1)
    assert texts(cars["car0"]) == ["1"]


def test_without_right_to_all_topics_of_the_group_a_client_gets_no_key() -> None:
    site, sign, cars = site_with_group(1)
    guest = site.add_client("guest", "e1", rights=Rights(subscribe=("alerts",)))
    guest.connect()
    site.run(1.0)
    guest.subscribe("alerts")
    site.run(15.0)
    assert guest.session.group.address is None
    sign.publish("alerts", b"1")
    site.run(1.0)
    assert texts(guest) == ["1"]
    assert all(texts(one) == ["1"] for one in cars.values())


def test_topics_that_are_not_for_the_group_and_small_audiences_are_told_one_by_one() -> None:
    group = GroupSettings("239.192.7.1", 7401, least_receivers=4, topics=("alerts",))
    site, sign, cars = site_with_group(1, group)
    for one in cars.values():
        one.subscribe("news")
    site.run(1.0)
    sign.publish("news", b"1")
    sign.publish("alerts", b"2", area=circle(-100, -100))
    site.run(1.0)
    assert all(texts(one) == ["1"] for one in cars.values())
    assert site.servers["e1"].counts["group_notifications"] == 0


def test_a_server_that_starts_again_has_other_keys_and_nothing_is_told_twice() -> None:
    site, sign, cars = site_with_group(2)
    site.is_overheard = True
    sign.publish("alerts", b"1")
    site.run(1.0)
    old = [data for _, to, data in site.overheard if to == (GROUP.address, GROUP.port)]
    site.servers["e1"].kill()
    site.run(1.0)
    site.servers["e1"].restart()
    site.run(30.0)
    assert group_members(site) >= CARS
    before = {name: one.session.drops["group_key"] for name, one in cars.items()}
    for one in cars.values():
        for data in old:
            one.on_group_datagram(data)
    assert all(one.session.drops["group_key"] > before[name] for name, one in cars.items())
    sign.publish("alerts", b"2")
    site.run(10.0)
    assert all(texts(one) == ["1", "2"] for one in cars.values())


def test_what_was_told_by_group_and_not_confirmed_follows_a_client_that_begins_a_new_session() -> (
    None
):
    site, sign, cars = site_with_group(3)
    car = cars["car0"]
    car.on_group_datagram = lambda data: None  # type: ignore[method-assign]
    car.go_on()
    sign.publish("alerts", b"1")
    site.run(0.01)
    assert texts(car) == []
    car.session.connect(car.clock.read())  # before the server gave up waiting
    car.go_on()
    site.run(0.3)
    assert texts(car) == ["1"]
    site.run(10.0)
    assert texts(car) == ["1"]


def revoke(site: SimulatedSite, revision: int, *names: str) -> None:
    """Give new orders by which clients no longer count."""
    known = site.servers["e1"].saved_orders
    assert known is not None
    entries = tuple(Revocation("client", name, 2, ALWAYS.until_s) for name in names)
    listed = issue_revocations(site.authority.key, RevocationList(revision, 0, entries))
    site.obey(structs.replace(known, revision=revision, revocations=listed))


def key_ids(client: SimulatedClient) -> set[int]:
    return set(client.session.group._keys)


@pytest.mark.parametrize("has_left", [False, True])
def test_a_revoked_client_reads_nothing_more_even_if_it_left_before(has_left: bool) -> None:
    site, sign, cars = site_with_group(1)
    thief = cars.pop("car0")
    stolen = key_ids(thief)
    assert stolen
    if has_left:
        thief.session.close()
        thief.go_on()
        site.run(1.0)
    revoke(site, 2, "car0")
    site.is_overheard = True
    sign.publish("alerts", b"1")  # there is no other key yet
    site.run(15.0)
    assert group_members(site) == CARS
    sign.publish("alerts", b"2")
    site.run(5.0)
    told = [read_header(data) for _, to, data in site.overheard if to[1] == GROUP.port]
    assert told
    assert not {one.receiver for one in told} & stolen
    assert all(texts(one) == ["1", "2"] for one in cars.values())
    assert texts(thief) == []


def test_keys_change_while_alerts_go_on_and_nobody_notices() -> None:
    group = replace(GROUP, rotation_s=30.0)
    site, sign, cars = site_with_group(1, group)
    used = key_ids(cars["car1"])
    for number in range(60):
        sign.publish("alerts", f"{number}".encode())
        site.run(1.5)
        used |= key_ids(cars["car1"])
    site.run(5.0)
    assert all(texts(one) == [f"{number}" for number in range(60)] for one in cars.values())
    counts = site.servers["e1"].counts
    assert counts["group_keys"] >= 2
    assert len(used) >= 3
    assert counts["group_notifications"] == 60 * CARS
    assert counts["group_repaired"] == 0


def test_a_client_that_moves_home_hears_the_group_of_its_new_home() -> None:
    site, sign, cars = site_with_group(1, edges=("e1", "e2"))
    car = cars["car0"]
    before = key_ids(car)
    known = site.servers["e1"].saved_orders
    assert known is not None
    homes = tuple(
        structs.replace(one, home="e2") if one.client == "car0" else one for one in known.clients
    )
    site.obey(structs.replace(known, revision=2, clients=homes))
    sign.publish("alerts", b"1")
    site.run(20.0)
    sign.publish("alerts", b"2")
    site.run(3.0)
    assert texts(car) == ["1", "2"]
    assert car.session.home == site.servers["e2"].home
    assert key_ids(car)
    assert not key_ids(car) & before
