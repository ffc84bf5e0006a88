"""Each seeded bug is noticed by the part of the proof that is there for it."""

from __future__ import annotations

from functools import partial

import pytest

from nearcast.experiments.survive import catching
from nearcast.experiments.survive.mutants import MUTANTS, run_mutants


def test_there_are_at_least_twenty_bugs() -> None:
    assert len(MUTANTS) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_is_noticed(name: str) -> None:
    assert run_mutants([name]).caught == [name]


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_without_the_bug_nothing_is_noticed(name: str) -> None:
    check = MUTANTS[name].caught_by
    if isinstance(check, partial) and check.func is catching.schedules:
        check = partial(catching.schedules, *check.args, seeds=range(5))
    assert not check()
