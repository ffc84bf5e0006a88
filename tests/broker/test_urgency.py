"""Urgent messages of a topic come first, and no publisher's messages change their order."""

from __future__ import annotations

from collections import deque
from random import Random

from nearcast.broker.urgency import put_urgent_first
from nearcast.spool.changes import Position
from nearcast.wire.publication import Publication


def message(publisher: str, sequence: int, urgency: int = 0) -> Publication:
    return Publication("t", publisher, 1, sequence, 1, 2, 0.0, 0.0, b"", urgency=urgency)


def names(steps: deque[Publication | Position]) -> list[tuple[str, int]]:
    return [(one.publisher, one.sequence) for one in steps]


def test_an_urgent_message_overtakes_those_of_others_and_takes_its_own_along() -> None:
    steps: deque[Publication | Position] = deque(
        [message("a", 1), message("b", 1), message("c", 1), message("b", 2, 3), message("b", 3)]
    )
    put_urgent_first(steps)
    assert names(steps) == [("b", 1), ("b", 2), ("a", 1), ("c", 1), ("b", 3)]


def test_random_queues_keep_each_publishers_order_and_no_urgent_message_waits_for_others() -> None:
    rng = Random(1)
    for _ in range(200):
        counts = dict.fromkeys("abcd", 0)
        steps: deque[Publication | Position] = deque()
        for _ in range(rng.randrange(20)):
            publisher = rng.choice("abcd")
            counts[publisher] += 1
            if rng.random() < 0.1:
                steps.append(Position(publisher, 1, counts[publisher]))
            else:
                steps.append(message(publisher, counts[publisher], rng.choice([0, 0, 0, 1, 2, 3])))
        before = list(steps)
        put_urgent_first(steps)
        after = list(steps)
        assert sorted(map(id, after)) == sorted(map(id, before))
        for publisher in counts:
            own = [one.sequence for one in after if one.publisher == publisher]
            assert own == sorted(own)
        for at, one in enumerate(after):
            if not isinstance(one, Publication):
                continue
            for earlier in after[:at]:  # each is as urgent, or needed by one that is
                needs = [
                    later.urgency
                    for later in after
                    if isinstance(later, Publication)
                    and later.publisher == earlier.publisher
                    and later.sequence >= earlier.sequence
                ]
                assert max(needs, default=0) >= one.urgency
