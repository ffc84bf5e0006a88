"""A processor's state moves with its topic: nothing that was counted is lost or counted twice."""

from __future__ import annotations

from collections import Counter

import pytest

from nearcast.broker.notifications import Notification
from nearcast.broker.requests import ProcessRequest, ProcessResult
from nearcast.server.broker_messages import StateTaken
from nearcast.testing.counting_processor import COUNTING, read_effects
from nearcast.testing.simulated_network import Network
from server.site_making import QUICK, RandomSite
from server.test_plan_switch import switch


def counted(made: RandomSite, topic: str) -> Counter[str]:
    """What the processors of a topic have counted, on all servers together."""
    effects: Counter[str] = Counter()
    for server in made.site.servers.values():
        assert server.node is not None
        managed = server.node.broker.topics.get(topic)
        if managed is not None:
            effects += read_effects(managed.processing.state)
    return effects


def check_counts(made: RandomSite) -> None:
    assert made.unacknowledged == 0
    for topic in made.topic_names:
        payloads = [
            f"{topic} {publisher} {number}"
            for number, (where, publisher, _) in enumerate(made.published)
            if where == topic
        ]
        assert counted(made, topic) == Counter(payloads)
    for server in made.site.servers.values():
        assert server.node is not None
        assert server.node.counts["states_not_merged"] == 0


def counting_site(seed: int, loss: float = 0.0) -> RandomSite:
    return RandomSite(
        seed,
        spool=1_000,
        processor=COUNTING,
        network=Network(loss=loss, jitter_s=0.01),
        wire=QUICK,
        takeover_s=1e6,
    )


@pytest.mark.parametrize("seed", range(8))
def test_states_follow_their_topics_through_plan_switches(seed: int) -> None:
    made = counting_site(seed, 0.05)
    made.start()
    for revision in range(2, 10):
        switch(made, revision)
        made.publish_some(30, pause_s=0.02)
    made.site.run(30.0)
    check_counts(made)


@pytest.mark.parametrize("seed", range(16))
def test_states_follow_though_servers_die_meanwhile(seed: int) -> None:
    made = counting_site(seed)
    made.start()
    for revision in range(2, 10):
        switch(made, revision)
        for _ in range(3):
            made.publish_some(10, pause_s=0.02)
            made.kill_or_restart_some()
    made.restart_all()
    made.site.obey(made.orders(20))
    made.site.run(60.0)
    check_counts(made)


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("after_ms", range(0, 80, 4))
def test_a_state_offered_to_a_server_that_is_cut_off_is_neither_lost_nor_counted_twice(
    after_ms: int, crashes: bool
) -> None:
    made = RandomSite(1, topics=1, spool=1_000, processor=COUNTING, wire=QUICK, takeover_s=0.3)
    made.publishers["t0"], made.subscribers["t0"] = ["c0"], ["c1"]
    made.homes = dict.fromkeys(made.homes, "e2")
    made.targets = {("t0", "c0"): "e0"}
    made.start()
    for _ in range(5):
        made.publish("t0", "c0")
    made.site.run(1.0)
    made.targets["t0", "c0"] = "e1"
    made.site.obey(made.orders(2))
    made.publish("t0", "c0")
    made.site.run(after_ms / 1000)
    made.site.network.cuts |= {frozenset(("e1", one)) for one in ("e0", "e2", "cloud")}
    made.site.run(1.0)
    made.targets["t0", "c0"] = "e0"
    made.site.obey(made.orders(3))
    for _ in range(3):
        made.site.run(1.0)
        made.publish("t0", "c0")
    if crashes:
        made.site.servers["e0"].kill()
        made.site.servers["e0"].restart()
        made.site.servers["e0"].obey(made.orders(3))
    made.site.network.heal()
    made.site.run(30.0)
    assert made.unacknowledged == 0
    found = counted(made, "t0")
    in_doubt = "t0 c0 5"  # was on its way when its server was cut off
    assert found.pop(in_doubt) <= 2
    assert found == Counter(f"t0 c0 {number}" for number in range(9) if number != 5)


def test_a_server_whose_state_was_taken_asks_until_it_knows() -> None:
    made = RandomSite(1, topics=1, spool=1_000, processor=COUNTING, wire=QUICK, takeover_s=0.3)
    made.publishers["t0"], made.subscribers["t0"] = ["c0"], ["c1"]
    made.targets = {("t0", "c0"): "e0"}
    made.start()
    made.publish("t0", "c0")
    made.site.run(1.0)
    giver = made.site.servers["e0"].node
    assert giver is not None
    handlers = giver._peers._handlers
    hear, lost = handlers[StateTaken], list[StateTaken]()
    giver._peers.on(StateTaken, lambda _server, message, _now: lost.append(message))
    made.targets["t0", "c0"] = "e1"
    made.site.obey(made.orders(2))
    made.publish("t0", "c0")
    while not lost:  # its sender might crash before it is sent again
        made.site.run(0.01)
    handlers[StateTaken] = hear
    made.site.run(5.0)
    check_counts(made)


def test_a_counter_goes_on_where_it_was_on_each_next_server() -> None:
    made = RandomSite(1, topics=1, spool=100)

    def count(_server: str, request: ProcessRequest) -> ProcessResult:
        reached = int(request.state or 0)
        numbers = range(reached + 1, reached + 1 + len(request.batch))
        notifications = [
            Notification(str(number).encode(), cause=one)
            for number, one in zip(numbers, request.batch, strict=True)
        ]
        state = str(reached + len(request.batch)).encode()
        return ProcessResult(request.topic, request.request, notifications, state)

    made.site.process = count
    made.publishers["t0"], made.subscribers["t0"] = ["c0"], ["c1"]
    made.targets = {("t0", "c0"): "e0"}
    made.start()
    for revision, target in enumerate(("e0", "e1", "e0", "cloud", "e2", "e0"), start=2):
        made.targets["t0", "c0"] = target
        made.site.obey(made.orders(revision))
        made.publish("t0", "c0")
        made.site.run(5.0)
    told = [one.payload for one in made.people["c1"].notified]
    assert told == [b"1", b"2", b"3", b"4", b"5", b"6"]
