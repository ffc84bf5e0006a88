"""Acknowledgements of level 2: what is acknowledged is durable on two servers, or refused."""

from __future__ import annotations

import pytest

from nearcast.broker.notices import decode_entry
from nearcast.testing.simulated_network import Network
from nearcast.wire.actions import Acknowledged, PublicationRefused
from nearcast.wire.messages import RefuseReason
from server.site_making import QUICK, Identity, RandomSite
from server.test_plan_switch import switch


def acknowledged(made: RandomSite) -> dict[Identity, int]:
    """The level of each acknowledged publication."""
    found: dict[Identity, int] = {}
    for topic, publisher, sequence in made.published:
        for _, event in made.people[publisher].events:
            if isinstance(event, Acknowledged) and event.topic == topic and event.up_to >= sequence:
                found.setdefault((topic, publisher, sequence), event.level)
    return found


def copies_on_disks(made: RandomSite, wanted: Identity) -> int:
    """On how many servers' disks a publication is."""
    topic, publisher, sequence = wanted
    found = 0
    for server in made.site.servers.values():
        live = server.stored.topics.get(topic)
        records = [decode_entry(topic, one) for one in live.records] if live else []
        found += any((one.publisher, one.sequence) == (publisher, sequence) for one in records)
    return found


def two(seed: int, **more: object) -> RandomSite:
    return RandomSite(seed, spool=1_000, wire=QUICK, acknowledge="two", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_acknowledged_is_on_two_servers(seed: int) -> None:
    made = two(seed, network=Network(loss=0.05, jitter_s=0.01))
    made.start()
    made.publish_some(60, pause_s=0.02)
    made.site.run(20.0)
    assert made.unacknowledged == 0
    levels = acknowledged(made)
    assert set(levels.values()) == {2}
    for one in made.published:
        assert one in levels
        assert copies_on_disks(made, one) >= 2
    assert made.heard() == made.expected()


@pytest.mark.parametrize("seed", range(6))
def test_restarts_and_plan_switches_leave_nothing_unacknowledged(seed: int) -> None:
    made = two(seed, takeover_s=30.0)
    made.start()
    for revision in range(2, 6):
        switch(made, revision)
        made.publish_some(20)
        server = made.rng.choice(list(made.site.servers.values()))
        server.kill()
        made.publish_some(5)
        server.restart()
    made.site.obey(made.orders(5))  # as a manager repeats them: one may have been down
    made.site.run(40.0)
    assert made.unacknowledged == 0
    assert set(acknowledged(made).values()) == {2}
    for one in made.published:
        assert copies_on_disks(made, one) >= 2


@pytest.mark.parametrize("seed", range(4))
def test_without_a_second_server_publishers_hear_a_refusal_and_no_acknowledgement(
    seed: int,
) -> None:
    made = two(seed, delegated=0.0)
    made.start()
    made.publish_some(10)
    made.site.run(5.0)
    before = len(made.published)
    names = list(made.site.servers)
    made.network.cuts.update(frozenset((a, b)) for a in names for b in names if a < b)
    made.publish_some(10)
    made.site.run(15.0)
    refused = {
        (event.topic, name, event.sequence): event.reason
        for name, client in made.people.items()
        for _, event in client.events
        if isinstance(event, PublicationRefused)
    }
    assert set(refused) == set(made.published[before:])
    assert set(refused.values()) == {RefuseReason.NO_SECOND_SERVER}
    levels = acknowledged(made)
    assert not [one for one in made.published[before:] if one in levels]
    made.network.cuts.clear()
    made.site.run(10.0)
    before = len(made.published)
    made.publish_some(10)
    made.site.run(10.0)
    assert made.unacknowledged == 0
    assert {acknowledged(made)[one] for one in made.published[before:]} == {2}
