"""Subscriptions with filters: exactly what matches is heard, once and in order, whatever happens."""

from __future__ import annotations

from collections import Counter

import pytest

from nearcast.errors import WireError
from nearcast.server.mesh_messages import Notices
from nearcast.server.peers import Peers
from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.server.subscriber_messages import Subscribers
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire import client_hearing
from nearcast.wire.actions import Confirmed, PublicationRefused
from nearcast.wire.terms import Terms
from server.site_making import QUICK, Identity, RandomSite
from server.test_order import late_of, start
from server.test_plan_switch import switch
from server.test_resume import hunt, missing

SHADES = 4


class FilteredSite(RandomSite):
    """Publications have shades by turns; two of three subscriptions want some shades only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shades: dict[tuple[str, str], set[int]] = {}
        everything = set(range(SHADES))
        for topic, names in self.subscribers.items():
            for name in names:
                some = set(self.rng.sample(range(SHADES), self.rng.randint(1, 2)))
                self.shades[name, topic] = some if self.rng.random() < 2 / 3 else everything

    def where(self, client: str, topic: str) -> str:
        wanted = self.shades[client, topic]
        return "" if len(wanted) == SHADES else " or ".join(f"shade = {one}" for one in wanted)

    def attributes(self, number: int) -> dict[str, int]:
        return {"shade": number % SHADES}

    def expected(self, published: list[Identity] | None = None) -> dict[str, Counter[Identity]]:
        shade = {identity: number % SHADES for number, identity in enumerate(self.published)}
        return {
            name: Counter({one: 1 for one in wanted if shade[one] in self.shades[name, one[0]]})
            for name, wanted in super().expected(published).items()
        }


@pytest.mark.parametrize("seed", range(4))
def test_over_crashes_and_absences_what_matches_is_heard_once(seed: int) -> None:
    assert missing(hunt(seed, kind=FilteredSite)) == {}


@pytest.mark.parametrize("seed", range(100, 103))
def test_over_crashes_absences_and_plan_switches_too(seed: int) -> None:
    assert missing(hunt(seed, kind=FilteredSite, switches=True)) == {}


@pytest.mark.parametrize("seed", range(3))
def test_what_matches_comes_in_order_over_plan_switches(seed: int) -> None:
    network = Network(jitter_s=0.01)
    made = FilteredSite(seed, spool=1_000, network=network, wire=QUICK, takeover_s=1e6)
    start(made)
    for revision in range(2, 6):
        switch(made, revision)
        made.publish_some(40, pause_s=0.0125)
    made.site.run(30.0)
    assert made.heard() == made.expected()
    assert late_of(made) == 0


@pytest.mark.parametrize("seed", range(3))
def test_nothing_waits_for_what_does_not_match(seed: int) -> None:
    made = FilteredSite(seed, spool=1_000, network=Network(jitter_s=0.01))
    start(made)
    made.publish_some(80, pause_s=0.0125)
    made.site.run(0.4)  # less than a client waits for one that is missing
    assert made.heard() == made.expected()
    assert late_of(made) == 0


def two_edges() -> tuple[SimulatedSite, SimulatedClient, SimulatedClient]:
    """Return a site with a publisher at e1 and a subscriber at e2."""
    site = SimulatedSite(1)
    for name in ("e1", "e2"):
        site.add_server(name)
    car, sign = site.add_client("car", "e1"), site.add_client("sign", "e2")
    homes = (ClientOrder("car", "e1"), ClientOrder("sign", "e2"))
    site.obey(Orders(1, 0, "", site.server_orders(), (), homes))
    site.connect([car, sign])
    site.run(3.0)
    return site, car, sign


def payloads(client: SimulatedClient) -> list[str]:
    return [one.payload.decode() for one in client.notified]


def test_a_home_hears_nothing_of_what_its_clients_do_not_want(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site, car, sign = two_edges()
    sign.subscribe("offers", 'kind = "fuel" and price < 1.80')
    site.run(3.0)
    sent: list[Notices] = []
    send = Peers.send

    def spy(self: Peers, server: str, message: object) -> None:
        if isinstance(message, Notices):
            sent.append(message)
        send(self, server, message)  # type: ignore[arg-type]

    monkeypatch.setattr(Peers, "send", spy)
    for price in (1.7, 1.8, 1.9, 1.6):
        car.publish("offers", str(price).encode(), attributes={"kind": "fuel", "price": price})
    car.publish("offers", b"food", attributes={"kind": "food", "price": 1.0})
    car.publish("offers", b"nothing said")
    site.run(3.0)
    assert payloads(sign) == ["1.7", "1.6"]
    assert dict(sign.notified[0].attributes) == {"kind": "fuel", "price": 1.7}
    assert sum(len(one.notices) for one in sent) == 2


def test_the_last_filter_counts_from_its_confirmation_on() -> None:
    site, car, sign = two_edges()
    for where in ("shade = 0", "shade = 1", ""):
        sign.subscribe("t", where)
        site.run(3.0)
        for shade in range(2):
            car.publish("t", f"{where}: {shade}".encode(), attributes={"shade": shade})
        site.run(3.0)
    assert payloads(sign) == ["shade = 0: 0", "shade = 1: 1", ": 0", ": 1"]


def test_who_subscribes_twice_hears_what_either_wants_once() -> None:
    site, car, sign = two_edges()
    sign.subscribe("city/#", "shade > 1")
    sign.subscribe("city/north", "shade < 3")
    site.run(3.0)
    for topic in ("city/north", "city/south"):
        for shade in range(4):
            car.publish(topic, f"{topic} {shade}".encode(), attributes={"shade": shade})
    site.run(3.0)
    north = [f"city/north {shade}" for shade in range(4)]
    assert sorted(payloads(sign)) == [*north, "city/south 2", "city/south 3"]


def test_a_filter_with_a_mistake_is_refused_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site, car, sign = two_edges()
    sign.subscribe("t", "shade = 1")
    site.run(3.0)
    with pytest.raises(WireError, match=r"^t: filter, character 9: a value is wanted"):
        sign.subscribe("t", "shade = blue")
    # a client that does not look before it asks
    monkeypatch.setattr(client_hearing, "check_terms", lambda _: None)
    sign.subscribe("t", "shade = blue")
    site.run(3.0)
    refused = [one for _, one in sign.events if isinstance(one, Confirmed) and not one.accepted]
    assert [one.reason for one in refused] == [
        "filter, character 9: a value is wanted (a \"text\", a number, true or false), not 'blue'"
    ]
    car.publish("t", b"1", attributes={"shade": 1})
    car.publish("t", b"2", attributes={"shade": 2})
    site.run(3.0)
    assert payloads(sign) == ["1"]


@pytest.mark.parametrize(
    "envelope", [b"\xff", b"\x90\x90", b"\x91\x81\xa1a\xcb\x7f\xf8" + bytes(6)]
)
def test_attributes_that_are_none_are_refused_to_their_publisher(envelope: bytes) -> None:
    site, car, sign = two_edges()
    sign.subscribe("t")
    site.run(3.0)
    car.session.publish("t", b"bad", car.clock.read(), envelope=envelope)
    car.go_on()
    site.run(1.0)
    car.publish("t", b"good")
    site.run(3.0)
    (refused,) = [one for _, one in car.events if isinstance(one, PublicationRefused)]
    assert refused.reason.name == "BAD_ENVELOPE"
    assert payloads(sign) == ["good"]


def test_a_server_that_passes_on_a_bad_filter_is_not_believed() -> None:
    directory = SubscriberDirectory()
    with pytest.raises(WireError, match="filter, character 1"):
        directory.on_subscribers(
            "e2", Subscribers("t", (("a", 0.0, 0.0),), False, terms={"a": Terms(")")})
        )
    assert not directory.table.subscribers("t")
