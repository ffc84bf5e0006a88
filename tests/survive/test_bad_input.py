"""A million bad inputs, by count: each is refused or read, none raises anything else."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from nearcast.experiments.survive.bad_input import (
    READERS,
    BadInputReport,
    feed,
    run_bad_input,
)
from nearcast.experiments.survive.hostile_members import run_hostile_members

INPUTS = 1_000_000
SEED = 11


@pytest.mark.slow
def test_a_million_bad_inputs_are_refused_and_nothing_else() -> None:
    report = run_bad_input(INPUTS, SEED)
    print(f"seed {SEED}: {report.inputs.total()} bad inputs, refused {dict(report.refused)}")
    assert not report.violations, report.violations[:5]
    assert report.inputs.total() >= INPUTS
    tolerant = {"frames between servers", "spool segments"}  # they say it otherwise
    for name in READERS.keys() - tolerant:
        assert report.refused[name] > report.inputs[name] // 10


@pytest.mark.parametrize(("slow_reads", "violations"), [(1, 0), (1_000, 5)])
def test_only_what_is_slow_each_time_counts(
    slow_reads: int, violations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause of this program, to collect garbage, say, comes once."""
    clock_s, reads = 0.0, 0

    def read(_data: bytes) -> None:
        nonlocal clock_s, reads
        reads += 1
        clock_s += 1.0 if reads <= slow_reads else 0.001

    name = "frames at the server"
    monkeypatch.setitem(READERS, name, replace(READERS[name], read=read))
    monkeypatch.setattr(time, "thread_time", lambda: clock_s)
    report = BadInputReport()
    feed(name, 5, SEED, report)
    assert len(report.violations) == violations


@pytest.mark.parametrize("seed", range(3))
def test_members_that_send_anything_break_nothing(seed: int) -> None:
    report = run_hostile_members(2_000, seed)
    assert not report.violations
    assert report.inputs >= 2_000
