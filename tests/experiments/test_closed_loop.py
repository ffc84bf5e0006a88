"""The bench of the plan loop: who moves, what is lost or doubled, what is as good as full knowledge."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nearcast.domain.generators.city import City, generate_city
from nearcast.experiments.closed_loop.moving import mirrored
from nearcast.experiments.closed_loop.rounds import (
    FULL_KNOWLEDGE,
    LoopRun,
    Phase,
    processed_twice,
)
from nearcast.experiments.closed_loop.run import judge
from nearcast.experiments.closed_loop.steady_load import LoadCounts, SteadyLoad, run_steady_load
from nearcast.runtime.event_log import EventLog
from nearcast.runtime.event_log_frames import EventLogSettings
from nearcast.sdk import Notification
from nearcast.server.log_rows import NotificationRow
from nearcast.site.replan_rounds import ReplanRound
from nearcast.site.swarm import Membership, Swarm

MEMBERS = [Membership("t", name, publishes=name == "a", subscribes=True) for name in "abc"]


class FakeClient:
    """Takes publications; each is heard at once by all others, unless it is to go wrong."""

    def __init__(self, swarm: FakeSwarm) -> None:
        self._swarm = swarm

    async def publish(self, topic: str, payload: str) -> asyncio.Future[None]:
        number = int(payload)
        for name in "bc":
            told = Notification(topic, "a", 1, number, True, 0, payload.encode(), 1_000)
            heard = [told] * self._swarm.times.get((number, name), 1)
            if (number, name) in self._swarm.copies:
                heard.append(msgspec.structs.replace(told, is_copy=True, arrived_us=9_000_000))
            self._swarm.hear(name, heard)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class FakeSwarm(Swarm):
    """Clients without servers."""

    def __init__(self) -> None:
        super().__init__({})
        self.times: dict[tuple[int, str], int] = {}
        self.copies: set[tuple[int, str]] = set()

    def hear(self, name: str, told: list[Notification]) -> None:
        for one in told:
            self._note(name)(one)

    def client(self, name: str) -> FakeClient:  # type: ignore[override]
        return FakeClient(self)


async def load_of(swarm: FakeSwarm, messages: int) -> tuple[SteadyLoad, LoadCounts]:
    load = SteadyLoad(swarm, MEMBERS, rate_hz=1e6, seed=1)
    async with run_steady_load(load):
        async with asyncio.timeout(10):
            while len(swarm.arrivals) < 2 * messages:  # noqa: ASYNC110 - counts, not events
                await asyncio.sleep(0)
    return load, await load.settle()


def test_what_is_lost_or_heard_twice_is_counted_and_a_copy_is_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearcast.experiments.closed_loop.steady_load._SETTLE_S", 0.05)
    swarm = FakeSwarm()
    swarm.times = {(1, "b"): 0, (2, "c"): 3}
    swarm.copies = {(0, "b")}
    load, counts = asyncio.run(load_of(swarm, 10))
    assert (counts.lost, counts.doubled) == (1, 2)
    assert counts.acknowledged == counts.published > 5
    assert counts.expected == 2 * counts.published
    # a copy that came later does not count as the delay of its message
    assert all(ms == 0.0 for _, ms in load.by_second())


def test_communities_move_together_across_the_centre() -> None:
    city = generate_city(City(clients=60, servers=4, topics=8), 1)
    after = mirrored(city, 0.5, np.random.default_rng(1))
    moved = after.clients.x_km != city.clients.x_km
    assert 30 <= np.count_nonzero(moved) < 60
    assert after.clients.x_km[moved] == pytest.approx(
        city.settings.width_km - city.clients.x_km[moved]
    )
    whole = [
        moved[city.members.client[city.members.topic == topic]].all()
        for topic in range(len(city.topics))
    ]
    # who moved belongs to a topic that moved as a whole
    chosen = np.isin(city.members.topic, np.flatnonzero(whole))
    assert set(np.flatnonzero(moved)) == set(city.members.client[chosen].tolist())


def test_a_message_that_two_brokers_stamped_was_processed_twice(tmp_path: Path) -> None:
    def row(sequence: int, home: str, processed_us: int) -> NotificationRow:
        return NotificationRow(
            *("t", "p", 1, sequence, 0, ("c",), home, 1_000, 2_000, 10, processed_us, 3_000, 5)
        )

    rows = [row(1, "e1", 7), row(1, "e2", 7), row(2, "e1", 8), row(2, "e1", 9), row(3, "e1", 8)]
    rows.append(row(3, "e2", 0))  # told again

    async def write() -> None:
        log = EventLog(EventLogSettings(str(tmp_path), "e1"))
        log.start()
        log.add([], rows)
        await log.close()

    asyncio.run(write())
    assert processed_twice(tmp_path) == 1


@pytest.mark.parametrize(
    ("lost", "moved_ms", "last_ms", "full_ms", "holds"),
    [
        (0, 90.0, 54.0, 50.0, True),
        (1, 90.0, 54.0, 50.0, False),
        (0, 90.0, 56.0, 50.0, False),
        (0, 90.0, 56.0, 150.0, False),  # a reference that something disturbed helps nobody
        (0, 53.0, 54.0, 50.0, False),  # as near to full knowledge, but nothing was gained
    ],
)
def test_the_loop_holds_when_nothing_is_lost_and_the_last_round_is_near_full_knowledge(
    lost: int, moved_ms: float, last_ms: float, full_ms: float, holds: bool
) -> None:
    done = ReplanRound(0.0, 2, 0.8, 0.4, 0.39, 3, switched=True, learn_s=2.0, plan_s=1.0)
    seen = LoopRun(
        [
            Phase("before", 0, 1, 50.0),
            Phase("moved", 1, 2, moved_ms),
            Phase("round 1", 2, 3, 70.0, done),
            Phase("round 2", 3, 4, last_ms, replace(done, switched=False)),
            Phase(FULL_KNOWLEDGE, 4, 5, full_ms),
        ],
        counts=LoadCounts(10, 10, 20, lost, 0),
    )
    costs = {"before": 0.4, "moved": 0.8, FULL_KNOWLEDGE: 0.4}
    points, verdict = judge(seen, costs, 100.0, 0)
    assert [point.predicted_ms for point in points] == pytest.approx([40, 80, 40, 80, 40])
    assert points[2].of_full_knowledge == pytest.approx(1.4)
    assert points[2].round_s == pytest.approx(3.0)
    assert verdict.of_full_knowledge == pytest.approx(last_ms / 50)
    assert verdict.holds is holds
