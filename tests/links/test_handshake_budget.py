"""Limits on handshakes."""

from __future__ import annotations

from nearcast.links.handshake_budget import HandshakeBudget


def test_places_are_limited_and_come_back() -> None:
    budget = HandshakeBudget(open_limit=2, per_s=100.0, burst=100.0)
    assert [budget.begin(0.0) for _ in range(3)] == [True, True, False]
    budget.end()
    assert [budget.begin(0.0) for _ in range(2)] == [True, False]


def test_the_rate_is_limited_after_a_burst() -> None:
    budget = HandshakeBudget(open_limit=1_000, per_s=10.0, burst=5.0)
    assert sum(budget.begin(0.0) for _ in range(50)) == 5
    assert sum(budget.begin(0.3) for _ in range(50)) == 3
    assert sum(budget.begin(100.0) for _ in range(50)) == 5
