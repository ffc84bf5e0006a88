"""A writer of random groups that knows what must be alive after each of them."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from nearcast.spool.changes import Group, LiveState, Position, TopicChange

TOPICS = ("crossings", "weather", "ünïcode")

Alive = dict[str, tuple[list[bytes], dict[str, tuple[int, int]], bytes | None]]
"""By topic: records, (epoch, sequence) of publishers, state."""


def alive(state: LiveState) -> Alive:
    """Return a state as plain values."""
    return {
        name: (
            list(topic.records),
            {one.publisher: (one.epoch, one.sequence) for one in topic.positions.values()},
            topic.state,
        )
        for name, topic in state.topics.items()
    }


class Workload:
    """Random groups and, kept by plain lists, what is alive after each of them."""

    def __init__(self, seed: int, *, spool: int = 20, largest: int = 120) -> None:
        self.rng = Random(seed)
        self.spool, self.largest = spool, largest
        self.after: list[Alive] = [{}]
        """What is alive after 0, 1, 2, ... groups; a group's ticket is its index here."""

    def rewind(self, groups: int) -> None:
        """Forget the groups after the first ones: they did not survive."""
        del self.after[groups + 1 :]

    def group(self) -> Group:
        """Return one more group."""
        now = deepcopy(self.after[-1])
        changes = []
        for topic in self.rng.sample(TOPICS, self.rng.randint(1, len(TOPICS))):
            if topic in now and self.rng.random() < 0.02:
                changes.append(TopicChange(topic, ended=True))
                del now[topic]
                continue
            records, positions, state = now.setdefault(topic, ([], {}, None))
            new = []
            touched = set()
            for _ in range(self.rng.randint(0, 6)):
                publisher = f"car-{self.rng.randint(1, 5)}"
                epoch, sequence = positions.get(publisher, (1, 0))
                positions[publisher] = (epoch, sequence + 1)
                touched.add(publisher)
                name = f"{topic}/{publisher}/{epoch}/{sequence + 1}/".encode()
                new.append(name + self.rng.randbytes(self.rng.randint(0, self.largest)))
            records.extend(new)
            del records[: max(0, len(records) - self.spool)]
            if self.rng.random() < 0.5:
                state = self.rng.randbytes(10)
            now[topic] = (records, positions, state)
            changes.append(
                TopicChange(
                    topic,
                    tuple(new),
                    len(records),
                    tuple(Position(one, *positions[one]) for one in sorted(touched)),
                    state,
                )
            )
        self.after.append(now)
        return Group(len(self.after) - 1, tuple(changes))
