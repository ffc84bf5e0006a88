"""Scenes with liars at a small size: a fifth of them raises nothing, and the honest are heard."""

from __future__ import annotations

from cli.conftest import Run, run  # noqa: F401
from nearcast.experiments import lying_reporters


def test_a_fifth_of_liars_raises_no_alert_and_every_collision_is_alerted() -> None:
    weighed, counted = lying_reporters.run([0.2], 15, 3, lambda _: None)
    assert (weighed.rule, counted.rule) == lying_reporters.RULES
    assert (weighed.false, weighed.precision, weighed.recall) == (0, 1.0, 1.0)
    assert weighed.flagged > 0
    # the same liars against three reporters alone: the scenes are not harmless
    assert counted.precision < 0.7


def test_the_verb_prints_rows_and_refuses_bad_shares(run: Run) -> None:  # noqa: F811
    answer = run("bench", "liars", "--scenes", 2, "--shares", "0,0.3", "--json")
    assert answer.code == 0, answer.err
    rows = answer.json["rows"]
    assert [(row["rule"], row["liars"]) for row in rows] == [
        ("witnesses", 0.0),
        ("count", 0.0),
        ("witnesses", 0.3),
        ("count", 0.3),
    ]
    assert rows[0]["precision"] == rows[0]["recall"] == 1.0
    refused = run("bench", "liars", "--shares", "0.2,2")
    assert refused.code == 2
    assert "--shares" in refused.err
