"""Seeded schedules of faults over a simulated site: what was acknowledged stays true."""

from __future__ import annotations

from collections import Counter

import pytest

from nearcast.experiments.survive.faults import FAULTS
from nearcast.experiments.survive.schedule import LOSSLESS, run_schedule

GROUPS, PER_GROUP = 8, 250


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_2000_schedules_with_10000_faults_lose_double_and_miss_nothing(group: int) -> None:
    kinds = list(FAULTS)
    faults: Counter[str] = Counter()
    acknowledged = 0
    for seed in range(group * PER_GROUP, (group + 1) * PER_GROUP):
        schedule = run_schedule(seed, kinds)
        assert not schedule.findings.violations, f"seed {seed}"
        faults += schedule.faults
        acknowledged += schedule.findings.acknowledged
    print(f"group {group}: {PER_GROUP} schedules, {faults.total()} faults, {acknowledged} acked")
    assert faults.total() * GROUPS >= 10_000
    assert set(faults) == set(kinds)
    assert acknowledged > 40 * PER_GROUP


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_each_fault_by_itself_loses_and_doubles_nothing(kind: str) -> None:
    for seed in range(5):
        assert not run_schedule(seed, [kind]).findings.violations, f"seed {seed}"


@pytest.mark.parametrize("kind", sorted(LOSSLESS))
def test_without_losses_subscribers_hear_everything_once_and_in_order(kind: str) -> None:
    for seed in range(20):
        assert not run_schedule(seed, [kind]).findings.violations


def test_without_takeovers_nothing_is_processed_twice_and_nothing_waits_for_ever() -> None:
    kinds = ["switch_plan", "switch_plan", "kill", "kill_manager", "cut", "cut_one_way", "pause"]
    for seed in range(100, 140):
        found = run_schedule(seed, [*kinds, "cut_power"], takeover_s=1e6).findings.violations
        assert not [one for one in found if one.kind != "missed"], f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_hasty_takeovers_lose_and_double_nothing_but_messages_in_doubt(first: int) -> None:
    kinds = ["switch_plan", "switch_plan", "cut", "cut", "cut_one_way", "flap", "pause", "kill"]
    for seed in range(first, first + 50):
        assert not run_schedule(seed, kinds, takeover_s=0.3).findings.violations, f"seed {seed}"


def test_a_seed_gives_the_same_schedule_again() -> None:
    first, again = (run_schedule(7) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("seed", [75, 287])
def test_a_server_that_stood_in_asks_the_others_when_orders_no_longer_name_them(seed: int) -> None:
    kinds = [*FAULTS, *(["switch_plan"] * 3 if seed == 287 else [])]
    assert not run_schedule(seed, kinds, takeover_s=0.3).findings.violations


def test_an_answer_that_was_overtaken_says_nothing_of_what_overtook_it() -> None:
    """A home that was paused answers old reports first; its answers come after what it sends then."""
    assert not run_schedule(5339).findings.violations
