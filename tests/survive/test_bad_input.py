"""A million bad inputs, by count: each is refused or read, none raises anything else."""

from __future__ import annotations

import pytest

from nearcast.experiments.survive.bad_input import READERS, run_bad_input
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


@pytest.mark.parametrize("seed", range(3))
def test_members_that_send_anything_break_nothing(seed: int) -> None:
    report = run_hostile_members(2_000, seed)
    assert not report.violations
    assert report.inputs >= 2_000
