"""The shipped processors against plain recomputation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import cos, hypot, radians, sin
from random import Random
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.making import message
from nearcast.broker.notifications import AllSubscribers, NamedClients, Notification
from nearcast.broker.payloads import Motion, read_motion, read_number, read_object
from nearcast.broker.processor import Processor, StatefulProcessor
from nearcast.broker.processors.forward import Forward
from nearcast.broker.processors.proximity import Proximity, closest_approach
from nearcast.broker.processors.speeding import Speeding
from nearcast.broker.processors.threshold import RecentValues, Threshold
from nearcast.broker.topic_spool import TopicSpool
from nearcast.errors import ConfigError
from nearcast.wire.publication import Origin, Publication

GARBAGE = [
    b"",
    b"{",
    b"[1]",
    b"null",
    b"\xff\xfe",
    b'{"value": NaN, "speed": NaN, "direction": 1}',
    b'{"value": 1e999, "speed": 1e999, "direction": 1}',
    b'{"value": "1", "speed": true, "direction": 0}',
    b'{"value": 1' + b"0" * 400 + b', "speed": 1' + b"0" * 400 + b', "direction": 0}',
    b'{"position": [1], "direction": 0, "speed": null, "value": {}}',
    b'{"position": [1e300, 0], "direction": 0, "speed": "x", "value": []}',
    b"[" * 100_000,
]


def run(
    processor: Processor, batches: Sequence[Sequence[Publication]], spool: TopicSpool | None = None
) -> list[Notification]:
    """Spool the batches and process what is direct of them."""
    spool = TopicSpool(1000) if spool is None else spool
    notifications: list[Notification] = []
    for batch in batches:
        for one in batch:
            spool.append(one)
        if batch and batch[0].origin is Origin.DIRECT:
            notifications += processor.process(batch, spool.view())
    return notifications


def in_batches(rng: Random, messages: Sequence[Publication]) -> list[list[Publication]]:
    """Cut into batches of one origin, as brokers do."""
    batches: list[list[Publication]] = []
    for one in messages:
        if batches and batches[-1][0].origin is one.origin and rng.random() < 0.6:
            batches[-1].append(one)
        else:
            batches.append([one])
    return batches


@pytest.mark.parametrize(
    "processor",
    [Forward(), Speeding(50), Threshold(limit=1), Threshold(deviations=2), Proximity()],
    ids=["forward", "speeding", "limit", "deviations", "proximity"],
)
def test_no_payload_makes_a_processor_raise(processor: Processor) -> None:
    batch = [
        Publication("t", f"car-{number}", 1, 1, 0, 0, 0.0, 0.0, payload)
        for number, payload in enumerate(GARBAGE)
    ]
    notifications = run(processor, [batch])
    if isinstance(processor, Forward):
        assert [one.payload for one in notifications] == GARBAGE
    else:
        assert notifications == []
        assert processor.malformed == len(GARBAGE)  # type: ignore[attr-defined]


@given(st.binary(max_size=40) | st.recursive(st.none() | st.floats(), st.lists).map(repr))
def test_reading_any_payload_gives_numbers_or_none(payload: bytes | str) -> None:
    data = payload if isinstance(payload, bytes) else payload.encode()
    found = read_object(data)
    assert found is None or isinstance(found, dict)
    assert read_motion(Publication("t", "p", 1, 1, 0, 0, 0.0, 0.0, data)) is None
    assert read_number(found) is None


def test_forward_tells_everybody_else() -> None:
    batch = [message("a", 1, value=1), message("b", 1, value=2)]
    told = run(Forward(), [batch])
    assert [(one.payload, one.audience, one.cause) for one in told] == [
        (one.payload, AllSubscribers(), one) for one in batch
    ]


@pytest.mark.parametrize("seed", range(5))
def test_speeding_is_told_once_until_the_driver_slows_down(seed: int) -> None:
    rng = Random(seed)
    messages = [
        message(f"car-{rng.randint(1, 3)}", number, speed=rng.choice([30, 50, 51, 80]))
        for number in range(200)
    ]
    expected: list[tuple[Publication, float]] = []
    fast: set[str] = set()
    for one in messages:
        speed = json.loads(one.payload)["speed"]
        if speed > 50 and one.publisher not in fast:
            expected.append((one, speed))
        (fast.add if speed > 50 else fast.discard)(one.publisher)
    told = run(Speeding(50, tell="driver"), in_batches(rng, messages))
    assert [(one.cause, json.loads(one.payload)["speed"]) for one in told] == expected
    assert [one.audience for one in told] == [NamedClients((one.publisher,)) for one, _ in expected]


def test_after_a_restart_a_speeding_driver_is_not_told_again() -> None:
    spool = TopicSpool(100)
    assert len(run(Speeding(50), [[message("a", 1, speed=90)]], spool)) == 1
    assert run(Speeding(50), [[message("a", 2, speed=95)]], spool) == []


@pytest.mark.parametrize("seed", range(6))
def test_threshold_alerts_what_plain_recomputation_calls_unusual(seed: int) -> None:
    rng = Random(seed)
    offset = (0.0, 1e6, -1e9)[seed % 3]
    messages, values = [], []
    for number in range(600):
        value = offset + rng.gauss(0, 1) * (20 if rng.random() < 0.03 else 1)
        origin = Origin.COPY if rng.random() < 0.3 else Origin.DIRECT
        if rng.random() < 0.05:
            messages.append(message("s", number, origin=origin, nothing=1))
            continue
        messages.append(message("s", number, origin=origin, value=value))
        values.append((messages[-1], value))
    expected = []
    for index, (one, value) in enumerate(values):
        before = [other for _, other in values[max(0, index - 50) : index]]
        unusual = len(before) >= 10 and abs(value - fmean(before)) > 3 * pstdev(before)
        if one.origin is Origin.DIRECT and (unusual or value > offset + 15):
            expected.append(one)
    processor = Threshold(limit=offset + 15, deviations=3, recent=50, least=10)
    told = run(processor, in_batches(rng, messages))
    assert [one.cause for one in told] == expected
    assert 3 < len(expected) < 60
    assert processor.malformed == len(messages) - len(values)


def test_sums_stay_exact_when_an_outlier_passes_through() -> None:
    rng, recent, values = Random(1), RecentValues(20), []
    for number in range(500):
        value = rng.gauss(5, 1) if number % 37 else 10.0 ** rng.randint(3, 30)
        values.append(value)
        recent.add(value)
        mean, deviation = recent.mean_and_deviation()
        window = values[-20:]
        assert mean == pytest.approx(fmean(window), rel=1e-6)
        assert deviation == pytest.approx(pstdev(window), rel=1e-3, abs=1e-9)


def test_after_a_restart_threshold_reads_the_spool_and_alerts_nothing_again() -> None:
    spool = TopicSpool(100)
    messages = [message("s", number, value=number % 5) for number in range(60)]
    run(Threshold(deviations=3), [messages], spool)
    fresh = Threshold(deviations=3)
    told = run(fresh, [[message("s", 60, value=2)], [message("s", 61, value=99)]], spool)
    assert [json.loads(one.payload)["value"] for one in told] == [99]


def _random_motion(rng: Random, at_s: float = 0.0) -> Motion:
    heading, speed = rng.uniform(0, 360), rng.uniform(0, 120)
    return Motion(
        at_s,
        rng.uniform(0, 0.5),
        rng.uniform(0, 0.5),
        speed / 3600 * sin(radians(heading)),
        speed / 3600 * cos(radians(heading)),
    )


def _closest_by_sampling(one: Motion, other: Motion, now_s: float, horizon_s: float) -> float:
    """The smallest distance at 2,000 moments of the horizon."""
    smallest = float("inf")
    for step in range(2001):
        time_s = now_s + horizon_s * step / 2000
        x, y = one.position_at(time_s)
        other_x, other_y = other.position_at(time_s)
        smallest = min(smallest, hypot(x - other_x, y - other_y))
    return smallest


def test_the_closest_approach_is_what_sampling_finds() -> None:
    rng = Random(1)
    for _ in range(60):
        one, other = _random_motion(rng), _random_motion(rng, rng.uniform(-2, 2))
        in_s, distance_km = closest_approach(one, other, 0.0, 6.0)
        assert 0 <= in_s <= 6
        sampled = _closest_by_sampling(one, other, 0.0, 6.0)
        assert distance_km <= sampled + 1e-9
        assert distance_km == pytest.approx(sampled, abs=3e-4)


def _movers(rng: Random, movers: int, rounds: int) -> list[Publication]:
    """Reports of movers that turn at random, in random order, some from other brokers."""
    places = {f"m{number}": [rng.uniform(0, 0.8), rng.uniform(0, 0.8)] for number in range(movers)}
    messages = []
    for turn in range(rounds):
        for mover in rng.sample(sorted(places), movers):
            at_s = turn + rng.random() * 0.5
            direction, speed = rng.uniform(0, 360), rng.uniform(0, 120)
            place = places[mover]
            place[0] += rng.uniform(-0.02, 0.02)
            place[1] += rng.uniform(-0.02, 0.02)
            messages.append(
                message(
                    mover,
                    turn + 1,
                    at_s=at_s,
                    origin=Origin.COPY if rng.random() < 0.3 else Origin.DIRECT,
                    position=place.copy(),
                    direction=direction,
                    speed=speed,
                )
            )
    return sorted(messages, key=lambda one: one.published_at_s)


def _expected_encounters(messages: Sequence[Publication]) -> list[tuple[Publication, set[str]]]:
    """Brute force: every report against the last one of everybody else."""
    last: dict[str, Motion] = {}
    told: dict[frozenset[str], float] = {}
    expected = []
    for one in messages:
        motion = read_motion(one)
        assert motion is not None
        last[one.publisher] = motion
        if one.origin is Origin.COPY:
            continue
        for other, theirs in last.items():
            if other == one.publisher or abs(theirs.at_s - motion.at_s) > 1.6:
                continue
            _, distance_km = closest_approach(motion, theirs, motion.at_s, 4.0)
            pair = frozenset((one.publisher, other))
            known = pair in told and motion.at_s - told[pair] <= 1.6
            if distance_km <= (0.03 if known else 0.015):
                told[pair] = motion.at_s
                if not known:
                    expected.append((one, set(pair)))
            else:
                told.pop(pair, None)
    return expected


@pytest.mark.parametrize("seed", range(4))
def test_proximity_alerts_what_brute_force_finds(seed: int) -> None:
    rng = Random(seed)
    messages = _movers(rng, 40, 4)
    processor = Proximity(distance_km=0.015, horizon_s=4.0, stale_s=1.6, fastest_kmh=120.1)
    told = run(processor, in_batches(rng, messages))
    found = {(id(one.cause), frozenset(json.loads(one.payload)["clients"])) for one in told}
    expected = {(id(one), frozenset(pair)) for one, pair in _expected_encounters(messages)}
    assert found == expected
    assert len(told) == len(expected) > 4
    for one in told:
        assert isinstance(one.audience, NamedClients)
        assert set(one.audience.clients) == set(json.loads(one.payload)["clients"])


def _head_on(at_s: float, distance_km: float = 0.1) -> list[Publication]:
    """Two that drive towards each other."""
    number = int(at_s * 10) + 1
    return [
        message("east", number, at_s=at_s, position=[0, 0], direction=90, speed=50),
        message("west", number, at_s=at_s, position=[distance_km, 0], direction=270, speed=50),
    ]


def test_an_encounter_is_told_once_also_after_a_restart() -> None:
    spool, first = TopicSpool(100), Proximity()
    assert len(run(first, [_head_on(0.0), _head_on(0.5), _head_on(1.0)], spool)) == 1
    again = Proximity()
    again.restore(first.state())
    assert isinstance(again, StatefulProcessor)
    assert run(again, [_head_on(1.5)], spool) == []


def test_an_encounter_that_is_over_can_come_again() -> None:
    apart = [message("east", 50, at_s=1.0, position=[0, 0], direction=0, speed=50)]
    told = run(Proximity(), [_head_on(0.0), apart, _head_on(2.0)])
    assert len(told) == 2


def test_what_fell_silent_is_forgotten() -> None:
    processor, spool = Proximity(stale_s=3.0), TopicSpool(1000)
    crowd = [
        message(f"m{number}", 1, position=[number / 1e6, 0], direction=0, speed=1)
        for number in range(50)
    ]
    assert len(run(processor, [crowd], spool)) == 50 * 49 // 2
    assert len(json.loads(processor.state())) == 50 * 49 // 2
    run(processor, [[message("late", 1, at_s=10, position=[9, 9], direction=0, speed=1)]], spool)
    assert json.loads(processor.state()) == []
    assert len(processor._motions) == len(processor._cells) == 1


def test_a_clock_that_runs_ahead_changes_nothing_for_others() -> None:
    processor, spool = Proximity(), TopicSpool(100)
    liar = Publication("t", "liar", 1, 1, 10**15, 0, 5.0, 5.0, b'{"direction": 0, "speed": 1}')
    assert len(run(processor, [_head_on(0.0)[:1], [liar], _head_on(0.0)[1:]], spool)) == 1


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (Speeding, {"limit_kmh": 0}),
        (Speeding, {"limit_kmh": 50, "tell": "police"}),
        (Threshold, {}),
        (Threshold, {"deviations": -1}),
        (Threshold, {"limit": 1, "least": 200}),
        (Proximity, {"distance_km": 0}),
    ],
)
def test_options_that_make_no_sense_are_refused(
    make: type[Processor], options: dict[str, object]
) -> None:
    with pytest.raises(ConfigError):
        make(**options)
