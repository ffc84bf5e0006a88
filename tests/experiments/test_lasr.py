"""The LASR experiment in small, and what its verdicts say about made-up numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nearcast.experiments.figures.lasr_busy_master import busy_masters, told_beside
from nearcast.experiments.figures.lasr_findings import delay_verdicts, error_verdicts, numbers
from nearcast.experiments.lasr.testbed import REPLICA, TARGET, JoseTestbed
from nearcast.experiments.lasr.trial import SystemKind, Trial, run_trial

SMALL = JoseTestbed(brokers=3, devices=4, other_devices=4, frames=30)


@pytest.fixture(scope="module", params=list(SystemKind))
def trial(request: pytest.FixtureRequest) -> tuple[SystemKind, Trial]:
    return request.param, run_trial(request.param, SMALL, 1)


def test_everything_arrives_once_and_half_goes_to_the_replica_after_the_command(
    trial: tuple[SystemKind, Trial],
) -> None:
    _, found = trial
    assert found.published == found.delivered == 24 * 30
    assert found.rejected == 0
    assert len(found.arrivals) == 4 * 30
    assert len({(one.frame, one.sent_s) for one in found.arrivals}) == 4 * 30
    early = [one for one in found.arrivals if one.received_s < found.command_s]
    assert {one.receiver for one in early} == {TARGET}
    settled = [one for one in found.arrivals if one.sent_s > found.command_s + 0.2]
    for one in settled:
        assert one.receiver == (REPLICA if one.index < found.split_at else TARGET)
    assert {one.receiver for one in settled} == {REPLICA, TARGET}


def test_within_the_net_lasr_needs_no_way_to_the_cloud_and_master_slave_does(
    trial: tuple[SystemKind, Trial],
) -> None:
    kind, found = trial
    edge = [
        one
        for one in found.arrivals
        if one.receiver == REPLICA and one.sent_s > found.command_s + 0.2
    ]
    if kind is SystemKind.LASR:
        assert max(one.delay_ms for one in edge) < 5
        assert not any(one.left_net for one in edge)
        assert all(1 <= one.hops <= 4 for one in edge)
    else:
        assert min(one.delay_ms for one in edge) > 1000 * SMALL.cloud_rtt_s


def test_the_same_seed_gives_the_same_trial(trial: tuple[SystemKind, Trial]) -> None:
    kind, found = trial
    assert run_trial(kind, SMALL, 1) == found
    assert run_trial(kind, SMALL, 2) != found


def test_a_busy_master_answers_late() -> None:
    slow = replace(SMALL, query_s=0.01)
    delays_ms = {
        testbed.query_s: max(
            one.delay_ms for one in run_trial(SystemKind.MASTER_SLAVE, testbed, 1).arrivals
        )
        for testbed in (SMALL, slow)
    }
    assert delays_ms[0.01] > delays_ms[SMALL.query_s] + 50


def test_the_command_waits_in_the_masters_queue_as_questions_do() -> None:
    calm = run_trial(SystemKind.MASTER_SLAVE, SMALL, 1)
    asked_per_s = (SMALL.devices + SMALL.other_devices) * SMALL.brokers / SMALL.period_s
    full = replace(SMALL, query_s=1.3 / asked_per_s)
    found = run_trial(SystemKind.MASTER_SLAVE, full, 1)
    assert len(found.misdelivered()) > len(calm.misdelivered()) + 3
    assert all(one.sent_s < found.command_s <= one.received_s for one in found.misdelivered())
    assert found.misdelivered_later() == []


@pytest.fixture(scope="module")
def good() -> dict[str, float]:
    """Numbers with which the paper's findings all agree."""
    trials = {
        kind: {factor: [run_trial(kind, SMALL, 1)] for factor in (1, 4)} for kind in SystemKind
    }
    found = numbers(trials)
    for name in ("lasr", "master_slave"):
        found[f"{name}_share_before_command"] = 0.0
        found[f"{name}_share_after_command"], found[f"{name}_share_of_run"] = 0.5, 0.25
        found[f"{name}_sent_after_command"] = 5_000
    found["lasr_misdelivered_x1"] = found["lasr_misdelivered_x4"] = 3.0
    found["master_slave_misdelivered_x1"], found["master_slave_misdelivered_x4"] = 8.0, 12.0
    return found


def _answers(found: dict[str, float], **changed: float) -> list[bool]:
    assert set(changed) <= set(found)
    merged = {**found, **changed}
    frames = {"command": 50, "LASR": 50, "master-slave": 51}
    return [one.agrees for one in (*delay_verdicts(merged), *error_verdicts(merged, frames))]


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, []),
        ({"lasr_share_after_command": 0.6}, [0]),
        ({"lasr_share_after_command": 0.6, "lasr_sent_after_command": 225}, []),
        ({"lasr_share_after_command": 0.61, "lasr_sent_after_command": 225}, [0]),
        ({"lasr_share_of_run": 0.29, "lasr_sent_after_command": 225}, []),
        ({"master_slave_share_before_command": 0.01}, [0]),
        ({"lasr_edge_p95_ms": 5.1}, [1]),
        ({"lasr_left_net": 1.0}, [1]),
        ({"master_slave_edge_min_ms": 9.9}, [2]),
        ({"lasr_reconfiguration_ms": 100.0}, [4]),
        ({"master_slave_misdelivered_x1": 6.0}, [5]),
        ({"lasr_misdelivered_x4": 4.5}, [6]),
        ({"master_slave_misdelivered_x4": 8.5}, [6]),
    ],
)
def test_a_finding_agrees_only_if_the_numbers_say_so(
    good: dict[str, float], changed: dict[str, float], wrong: list[int]
) -> None:
    answers = _answers(good, **changed)
    assert [number for number, agrees in enumerate(answers) if not agrees] == wrong


def test_what_the_machine_did_is_told_beside_a_finding_that_does_not_agree(
    good: dict[str, float],
) -> None:
    slow = {**good, "lasr_edge_p95_ms": 9.0, "lasr_reconfiguration_ms": 300.0}
    frames = {"command": 50}
    late = [delay_verdicts(slow)[1], error_verdicts(slow, frames)[1]]
    assert [one.why for one in late] == ["", ""]  # nobody measured it in virtual time
    noisy = {**slow, "lasr_machine_p99_ms": 12.3}
    late = [delay_verdicts(noisy, is_live=True)[1], error_verdicts(noisy, frames)[1]]
    assert all("12.3 ms" in one.why and not one.agrees for one in late)


def test_a_misdelivery_before_the_command_is_told(good: dict[str, float]) -> None:
    assert error_verdicts(good, {"command": 50, "LASR": 49})[0].agrees  # was under way
    assert not error_verdicts(good, {"command": 50, "LASR": 48})[0].agrees


def test_a_master_that_cannot_answer_all_misdelivers_more_than_twice_as_many_as_lasr() -> None:
    masters = busy_masters(replace(SMALL, frames=100), trials=1)
    shares = [one.share for one in masters]
    assert shares == sorted(shares)
    assert masters[0].misdelivered + 2 < masters[-1].misdelivered
    assert masters[0].slowest_ms < 80 < masters[-1].slowest_ms
    lasr = masters[-1].misdelivered / 2 - 0.1
    assert [": agrees" in told for told in told_beside(masters, lasr)] == [
        *(False for _ in masters[:-1]), True,
    ]  # fmt: skip
