"""A client that is given a lower epoch than before is heard all the same."""

from __future__ import annotations

import pytest

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
