"""What one pass costs, in calls of Python functions: a measure that no other program disturbs.

Each call takes 50 to 100 ns. Raising a limit slows down every message: it needs a reason.
"""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from nearcast.server.server import Server
from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.actions import SendDatagram
from nearcast.wire.settings import Address

SUBSCRIBERS = 10
TOPICS = 20


def site_with_subscribers() -> tuple[SimulatedSite, SimulatedClient]:
    """Return a site of one server, and a publisher; all others subscribe to all topics."""
    site = SimulatedSite(1)
    site.add_server("e1")
    publisher = site.add_client("publisher", "e1")
    subscribers = [site.add_client(f"s{number}", "e1") for number in range(SUBSCRIBERS)]
    site.obey(
        Orders(
            revision=1,
            plan_version=0,
            cloud="",
            servers=site.server_orders(),
            topics=(),
            clients=tuple(ClientOrder(one.name, "e1") for one in (publisher, *subscribers)),
        )
    )
    site.connect([publisher, *subscribers])
    site.run(3.0)
    for one in subscribers:
        for number in range(TOPICS):
            one.subscribe(f"t{number}")
    site.run(3.0)
    for number in range(TOPICS):  # from now on all streams are known
        publisher.publish(f"t{number}", bytes(220))
    site.run(1.0)
    return site, publisher


def server_of(site: SimulatedSite) -> tuple[Server, Address]:
    """Return the server, and where it knows the publisher to be."""
    node = site.servers["e1"].node
    assert node is not None
    assert node.sessions is not None
    address = node.sessions.address_of("publisher")
    assert address is not None
    return node, address


@pytest.mark.parametrize(("batch", "most_calls"), [(1, 163), (60, 60)])
def test_a_message_to_ten_subscribers_takes_few_calls(batch: int, most_calls: int) -> None:
    site, publisher = site_with_subscribers()
    node, address = server_of(site)
    for number in range(batch):
        publisher.session.publish(f"t{number % TOPICS}", bytes(220), site.now)
    datagrams = [
        (one.data, address)
        for one in publisher.session.poll(site.now)
        if isinstance(one, SendDatagram)
    ]
    node.on_timer(site.now)  # reports that are due again are not part of the measure
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        node.on_datagrams(datagrams, site.now)
        out = node.finish(site.now)
    finally:
        sys.setprofile(None)
    assert len(out.notifications) == batch
    assert calls / batch <= most_calls


def test_subscribers_are_told_before_anything_that_they_need_not_wait_for() -> None:
    site, publisher = site_with_subscribers()
    node, address = server_of(site)
    publisher.session.publish("t0", bytes(220), site.now)
    sent = [(one.data, address) for one in publisher.session.send_publications(site.now)]
    first = node.on_datagrams(sent, site.now)
    assert len(first.datagrams) == SUBSCRIBERS
    assert not first.to_store
    rest = node.finish(site.now)
    assert not rest.datagrams
    assert [len(group.changes) for group in rest.to_store] == [1]
    assert len(rest.notifications) == 1


def test_what_a_pass_began_and_could_not_end_is_stored_with_the_next_one() -> None:
    site, publisher = site_with_subscribers()
    node, address = server_of(site)
    told = 0
    for _ in range(2):  # a bug has kept `finish` from its work after the first one
        publisher.session.publish("t0", bytes(220), site.now)
        sent = [(one.data, address) for one in publisher.session.send_publications(site.now)]
        told += len(node.on_datagrams(sent, site.now).datagrams)
    rest = node.finish(site.now)
    assert told + len(rest.datagrams) == 2 * SUBSCRIBERS
    (group,) = rest.to_store
    (change,) = group.changes
    assert len(change.records) == 2
