"""Attacks, by count: none has an effect, none is answered with more than it sent."""

from __future__ import annotations

import pytest

from nearcast.experiments.survive.attacked_site import AttackedSite
from nearcast.experiments.survive.attacks import ATTACKS, run_attacks
from nearcast.experiments.survive.lies import LIES

EACH, SEED = 4_000, 5


@pytest.mark.slow
def test_60000_attacks_have_no_effect() -> None:
    report = run_attacks(EACH, SEED)
    print(
        f"seed {SEED}: {report.attacks.total()} attacks, amplification {report.amplification:.3f}"
    )
    assert not report.violations, report.violations[:5]
    assert report.attacks.total() >= 60_000
    assert report.amplification <= 1.0


@pytest.mark.parametrize("kind", sorted({**ATTACKS, **LIES}))
def test_an_attack_has_no_effect(kind: str) -> None:
    attacked = AttackedSite(2)
    before = attacked.snapshot()
    {**ATTACKS, **LIES}[kind](attacked, 100)
    attacked.check(kind, before, 100)
    assert not attacked.report.violations
    assert attacked.report.amplification <= 1.0
