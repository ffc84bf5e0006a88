"""The benchmark of the pipeline: what it tells of its runs, which are too long to repeat here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from nearcast.errors import PipelineError
from nearcast.experiments import pipeline_scale
from nearcast.experiments.pipeline_scale import LogCase
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.raw_logs import LogShape, write_publication_log


def case(clients: int) -> LogCase:
    shape = LogShape(clients, clients, 2 * clients, dirty=0.2)
    return LogCase("even", shape, "log.csv", servers_per_side=2, limit_s=1.0)


def pretend(monkeypatch: pytest.MonkeyPatch, quarantined: dict[int, int]) -> None:
    """Let stages take three seconds a row that is put aside, and the process five more."""
    seconds = [0.0]

    class Watch:
        def __init__(self) -> None:
            self.began = seconds[0]

        def seconds(self) -> float:
            return seconds[0] - self.began

    def answer(asked: LogCase, folder: Path, _seed: int, _method: str) -> dict[str, Any]:
        assert (folder / asked.file).stat().st_size > 0
        aside = quarantined[asked.shape.clients]
        seconds[0] += 3 * aside + 5
        stages = [
            StageRecord("ingest", quarantined=aside, seconds=aside, peak_memory_mb=5.0),
            StageRecord("plan", seconds=2.0 * aside, largest_object="homes", largest_object_mb=7.0),
        ]
        return {"stages": [asdict(one) for one in stages], "plan": {"cost": 2.0, "bound": 1.0}}

    monkeypatch.setattr(pipeline_scale, "_pipeline", answer)
    monkeypatch.setattr(pipeline_scale, "Stopwatch", Watch)


def test_growth_and_the_largest_object_of_the_driver_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cases = [case(20), case(200)]
    dirty = {
        one.shape.clients: write_publication_log(tmp_path / "l.csv", one.shape, 1) for one in cases
    }
    pretend(monkeypatch, dirty)
    small, large = pipeline_scale.summary(list(pipeline_scale.run(cases)))
    assert small["growth"] is None
    assert small["seconds"] == pytest.approx(3 * dirty[20] + 5)
    assert large["growth"] == pytest.approx((3 * dirty[200] + 5) / (3 * dirty[20] + 5))
    assert large["start and end, s"] == pytest.approx(5)
    assert large["driver object"] == "homes (plan)"
    assert large["driver object, MB"] == 7.0


def test_a_run_that_puts_other_rows_aside_is_no_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, {20: 10**6})
    with pytest.raises(PipelineError, match="1000000 rows were put aside, not"):
        list(pipeline_scale.run([case(20)]))
