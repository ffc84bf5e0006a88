"""Subscribers hear each publisher's messages of a topic in order, whatever moves meanwhile."""

from __future__ import annotations

import pytest

from nearcast.testing.simulated_network import Network
from server.site_making import QUICK, RandomSite
from server.test_plan_switch import switch

LOSS = 0.05


def late_of(made: RandomSite) -> int:
    """Return how many notifications came late: each of them says so, and no other does."""
    late = 0
    for client in made.people.values():
        last: dict[tuple[str, str], int] = {}
        for one in client.notified:
            stream = (one.topic, one.publisher)
            is_late = one.sequence < last.get(stream, 0)
            assert one.is_late == is_late, f"{client.name}: {one}"
            if not is_late:
                last[stream] = one.sequence
            late += is_late
    return late


def start(made: RandomSite) -> None:
    """Begin, and let everybody hear each stream once: a client waits for none that it never heard."""
    made.start()
    for topic, publisher in made.targets:
        made.publish(topic, publisher)
    made.site.run(5.0)


@pytest.mark.parametrize("loss", [0.0, LOSS])
@pytest.mark.parametrize("seed", range(6))
def test_order_over_changes_of_addresses(seed: int, loss: float) -> None:
    made = RandomSite(seed, spool=1_000, network=Network(loss=loss, jitter_s=0.002))
    start(made)
    for _ in range(10):
        made.publish_some(20, pause_s=0.01)
        client = made.people[made.rng.choice(list(made.people))]
        client.port += 1  # and nobody tells it: its old address is dead
    made.site.run(60.0)
    assert made.heard() == made.expected()
    assert late_of(made) <= 0.02 * sum(len(one.notified) for one in made.people.values())


@pytest.mark.parametrize("seed", range(6))
def test_order_over_plan_switches_without_losses(seed: int) -> None:
    made = RandomSite(seed, spool=1_000, network=Network(jitter_s=0.01), wire=QUICK, takeover_s=1e6)
    start(made)
    for revision in range(2, 8):
        switch(made, revision)
        made.publish_some(40, pause_s=0.0125)
    made.site.run(30.0)
    assert made.heard() == made.expected()
    assert late_of(made) == 0


@pytest.mark.parametrize("loss", [0.0, LOSS])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_broker_tells_after_a_takeover_is_marked_late(seed: int, loss: float) -> None:
    made = RandomSite(seed, spool=1_000, network=Network(loss=loss, jitter_s=0.002), wire=QUICK)
    start(made)
    for _ in range(3):
        made.publish_some(20)
        away = made.rng.choice(list(made.site.servers))
        made.network.cuts |= {frozenset((away, one)) for one in made.site.servers if one != away}
        made.publish_some(40, pause_s=0.05)
        made.site.run(5.0)
        made.publish_some(20)
        made.network.cuts.clear()
        made.publish_some(20)
        made.site.run(3.0)
    made.site.run(60.0)
    assert made.heard() == made.expected()
    late_of(made)
