"""The verb that runs all parts of the proof says what outside checks read."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from nearcast.cli.bench import bench


@pytest.mark.slow
def test_bench_survive_prints_counts_and_violations() -> None:
    done = CliRunner().invoke(bench, ["survive", "--minutes", "0.1", "--seed", "4", "--json"])
    found = json.loads(done.stdout)
    names = "schedules faults kills pauses cuts switches acknowledged attacks bad_inputs mutants"
    assert {*names.split(), "mutants_caught"} <= set(found["counts"])
    assert found["counts"]["mutants_caught"] == found["counts"]["mutants"] >= 20
    assert found["counts"]["switch_pause_p99_s"] > 0
    assert found["measured"]["amplification"] <= 1.0
    assert (done.exit_code == 0) is (found["violations"] == [])
