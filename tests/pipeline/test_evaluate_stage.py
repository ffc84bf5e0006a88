from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nearcast.delay.delay_histogram import RELATIVE_PRECISION
from nearcast.delay.pair_delays import choose_pairs, pair_delays_ms
from nearcast.domain.plan import Model, Objective, Plan
from nearcast.domain.scenario import Scenario
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages import evaluate, topic_blocks
from nearcast.pipeline.stages.evaluate import Evaluation, evaluate_plan
from nearcast.pipeline.workspace import Workspace
from nearcast.planning.assessment import assess
from pipeline.random_scenarios import random_plan, random_scenario


@pytest.fixture
def many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small scenarios too."""
    monkeypatch.setattr(topic_blocks, "_FEWEST_ROWS", 30)


def all_delays(scenario: Scenario, plan: Plan, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return the delays of all pairs, ascending, and their weights."""
    pairs = choose_pairs(scenario, model, np.random.default_rng(0), most=10**9)
    delay = pair_delays_ms(scenario, plan, model, pairs)
    order = np.argsort(delay)
    return delay[order], pairs.weight[order]


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("model", list(Model))
def test_blocks_of_topics_give_the_value_of_the_whole(
    workspace: Workspace, model: Model, measured: bool
) -> None:
    scenario = random_scenario(3, measured=measured)
    plan = random_plan(scenario, 4)
    record = StageRecord("evaluate")
    found = evaluate_plan(workspace, scenario, plan, model, Objective.D3, record)
    expected = assess(scenario, plan, model, Objective.D3)
    value = found.assessment
    assert value.metrics == pytest.approx(expected.metrics, rel=1e-9)
    assert value.cost == pytest.approx(expected.cost, rel=1e-9)
    for name in ("storage_used", "compute_used", "local_share", "clients"):
        np.testing.assert_allclose(getattr(value, name), getattr(expected, name), rtol=1e-9)
    assert value.warnings == expected.warnings
    _check_percentiles(found, *all_delays(scenario, plan, model))
    _check_tables(workspace, scenario, found, record)
    mean = np.average(found.topics.mean_ms, weights=found.topics.weight)
    whole = expected.metrics["mean_ms"] if model is Model.PLACEMENT else expected.metrics["Y"]
    assert mean == pytest.approx(whole, rel=1e-9)
    if model is Model.RATIO:
        legs = np.average(found.topics.legs_ms, weights=found.topics.weight)
        assert legs == pytest.approx(expected.metrics["Y1"], rel=1e-9)


def _check_percentiles(found: Evaluation, delay: np.ndarray, weight: np.ndarray) -> None:
    upto = np.cumsum(weight)
    assert found.pairs == len(delay) > 300
    for share, value in found.percentiles_ms.items():
        exact = delay[min(int(np.searchsorted(upto, share - 1e-9)), len(delay) - 1)]
        assert value == pytest.approx(exact, rel=RELATIVE_PRECISION)
    assert found.percentiles_ms[1.0] == pytest.approx(delay[-1], rel=1e-12)


def _check_tables(
    workspace: Workspace, scenario: Scenario, found: Evaluation, record: StageRecord
) -> None:
    topics = (
        workspace.load("topic_delays").toArrow().to_pandas().set_index("topic_index").sort_index()
    )
    servers = (
        workspace.load("server_use").toArrow().to_pandas().set_index("server_index").sort_index()
    )
    bins = workspace.load("delay_histogram").toArrow().to_pandas()
    percentiles = workspace.load("delay_percentiles").toArrow().to_pandas()
    assert topics.topic_id.tolist() == scenario.topics.ids.to_pylist()
    assert servers.server_id.tolist() == scenario.servers.ids.to_pylist()
    assert topics.members.sum() == len(scenario.members) == record.rows_in
    assert topics.pairs.sum() == found.pairs
    assert servers.deliveries.sum() == topics.deliveries.sum()
    assert servers.clients.sum() == len(scenario.clients)
    parts = topics.legs_ms + topics.more_ms + topics.between_ms
    np.testing.assert_allclose(topics.mean_ms, parts)
    assert topics.max_ms.max() == percentiles.delay_ms.max() == found.percentiles_ms[1.0]
    assert bins.share.sum() == pytest.approx(1.0)
    assert (bins.high_ms > bins.low_ms).all()
    assert record.tables == {
        "topic_delays": len(topics),
        "server_use": len(servers),
        "delay_percentiles": len(evaluate.SHARES),
        "delay_histogram": len(bins),
    }


@pytest.mark.usefixtures("many_blocks")
def test_too_many_pairs_are_drawn_and_said_so(workspace: Workspace) -> None:
    scenario = random_scenario(5, topics=6, largest=60)
    plan = random_plan(scenario, 6)
    record = StageRecord("evaluate")
    given = workspace, scenario, plan, Model.PLACEMENT, Objective.D1
    whole = evaluate_plan(*given, StageRecord("evaluate"))
    found = evaluate_plan(*given, record, most_pairs=1200, seed=1)
    again = evaluate_plan(*given, StageRecord("evaluate"), most_pairs=1200, seed=1)
    assert found.percentiles_ms == again.percentiles_ms
    assert found.pairs == whole.pairs > 1200 >= record.notes["pairs_looked_at"]
    assert record.notes["topics_with_drawn_pairs"] >= 1
    assert found.assessment.cost == whole.assessment.cost
    delay, _ = all_delays(scenario, plan, Model.PLACEMENT)
    # A thousand draws: the share below is right to five standard errors.
    below = np.searchsorted(delay, found.percentiles_ms[0.5]) / len(delay)
    assert abs(below - 0.5) < 5 * 0.5 / np.sqrt(1000)


def test_nobody_hears_anybody(workspace: Workspace) -> None:
    scenario = random_scenario(1)
    members = dataclasses.replace(
        scenario.members, subscribes=np.zeros(len(scenario.members), dtype=np.bool_)
    )
    silent = dataclasses.replace(scenario, members=members)
    plan = random_plan(silent, 0)
    record = StageRecord("evaluate")
    found = evaluate_plan(workspace, silent, plan, Model.RATIO, Objective.D1, record)
    assert found.pairs == 0
    assert found.assessment.cost == 0
    assert np.isnan(list(found.percentiles_ms.values())).all()
    assert record.tables["delay_histogram"] == 0
