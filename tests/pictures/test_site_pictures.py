"""What a site measured is reduced as the model reduces it, and drawn beside the prediction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from nearcast.domain.generators.city import City, generate_city
from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.errors import ScenarioError
from nearcast.pictures.site_delays import STAGES, SiteDelays, measure_site, predict_site
from nearcast.pictures.site_pictures import (
    draw_site_distribution,
    draw_site_stages,
    draw_site_topics,
)
from nearcast.pictures.site_report import SiteRun, write_site_report
from nearcast.planning.request import PlanRequest
from nearcast.planning.solve import PlanOutcome, make_plan

METHODS = ("nearest", "reloc")


@pytest.fixture(scope="module")
def city() -> Scenario:
    """60 clients and 8 topics on 6 servers, some of them overloaded."""
    return generate_city(City(clients=60, servers=6, topics=8), seed=3)


@pytest.fixture(scope="module")
def outcomes(city: Scenario) -> list[PlanOutcome]:
    return [make_plan(city, PlanRequest(Model.RATIO, method, seed=1)) for method in METHODS]


def simulated(
    city: Scenario, outcomes: list[PlanOutcome], processing_ms: float = 0.0, messages: int = 1
) -> pa.Table:
    """Return what clients would measure where the model is right: plain loops over all pairs."""
    settings, members = city.settings, city.members
    topic_ids, client_ids = city.topics.ids.to_pylist(), city.clients.ids.to_pylist()
    rows = []
    for outcome in outcomes:
        homes = outcome.plan.homes

        def leg_ms(client: int, home: int) -> float:
            x_km = city.clients.x_km[client] - city.servers.x_km[home]
            y_km = city.clients.y_km[client] - city.servers.y_km[home]
            return float(settings.ms_per_km * np.hypot(x_km, y_km))

        for sender in np.flatnonzero(members.publishes).tolist():
            for receiver in np.flatnonzero(members.subscribes).tolist():
                if members.topic[sender] != members.topic[receiver] or sender == receiver:
                    continue
                topic = topic_ids[members.topic[sender]]
                publisher, client = members.client[sender], members.client[receiver]
                source, target = homes[publisher], homes[client]
                share = outcome.assessment.local_share[source]
                way_ms = settings.ms_per_km * np.hypot(
                    city.servers.x_km[source] - city.servers.x_km[target],
                    city.servers.y_km[source] - city.servers.y_km[target],
                )
                stages = {
                    "publish_leg_ms": leg_ms(publisher, source),
                    "notify_leg_ms": leg_ms(client, target),
                    "between_ms": 2 * settings.cloud_ms * (1 - share) + share * way_ms,
                    "processing_ms": processing_ms,
                }
                row = {
                    "method": outcome.report.method,
                    "topic": str(topic),
                    "publisher": str(client_ids[publisher]),
                    "client": str(client_ids[client]),
                    **stages,
                    "total_ms": sum(stages.values()),
                }
                # A busy publisher counts no more than others.
                rows += [row] * (messages if publisher % 2 else 1)
    return pa.Table.from_pylist(rows)


def predictions(city: Scenario, outcomes: list[PlanOutcome]) -> dict[str, SiteDelays]:
    return {
        one.report.method: predict_site(city, one.plan, Model.RATIO, one.assessment.detail)
        for one in outcomes
    }


def test_a_site_that_obeys_the_model_measures_what_it_predicts(
    city: Scenario, outcomes: list[PlanOutcome]
) -> None:
    measured = measure_site(simulated(city, outcomes, messages=3))
    predicted = predictions(city, outcomes)
    assert list(measured) == list(METHODS)
    for one in outcomes:
        method, metrics = one.report.method, one.report.metrics
        assert predicted[method].total_ms == pytest.approx(one.report.cost)
        assert predicted[method].legs_ms == pytest.approx(metrics["Y1"])
        assert predicted[method].stage_ms["between servers"] == pytest.approx(metrics["Y2"])
        assert measured[method].stage_ms == pytest.approx(predicted[method].stage_ms)
        assert measured[method].topic_ms == pytest.approx(predicted[method].topic_ms)
        assert np.all(np.diff(measured[method].each_ms) >= 0)


def test_a_factor_stretches_all_that_is_predicted(
    city: Scenario, outcomes: list[PlanOutcome]
) -> None:
    first = outcomes[0]
    once = predict_site(city, first.plan, Model.RATIO, first.assessment.detail)
    ten_times = predict_site(city, first.plan, Model.RATIO, first.assessment.detail, 10.0)
    assert ten_times.total_ms == pytest.approx(10 * once.total_ms)
    assert ten_times.topic_ms == pytest.approx({k: 10 * v for k, v in once.topic_ms.items()})


def test_a_notification_without_all_times_does_not_count() -> None:
    row = {"method": "a", "topic": "t", "publisher": "p", "client": "c"}
    times = dict.fromkeys([*STAGES.values()], 1.0) | {"total_ms": 4.0}
    table = pa.Table.from_pylist(
        [row | times, row | times | {"notify_leg_ms": None, "total_ms": 99.0}]
    )
    assert measure_site(table)["a"].each_ms.tolist() == [4.0]
    with pytest.raises(ScenarioError, match="column 'total_ms': the measured notifications have"):
        measure_site(table.drop_columns("total_ms"))


def test_bars_show_stages_and_say_how_far_off_the_prediction_is() -> None:
    stages = dict(zip(STAGES, (1.0, 2.0, 3.0, 0.0), strict=True))
    slower = dict(zip(STAGES, (1.1, 2.2, 3.6, 0.3), strict=True))
    predicted = {"reloc": SiteDelays(stages, {}, np.empty(0))}
    measured = {"reloc": SiteDelays(slower, {}, np.array([7.2]))}
    (axes,) = draw_site_stages(predicted, measured).axes
    widths = [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx([1.0, 2.0, 3.0, 0.0, 1.1, 2.2, 3.6, 0.3])
    assert [text.get_text() for text in axes.texts] == [
        "6.00 ms",
        "7.20 ms, \N{MULTIPLICATION SIGN}1.20 (legs \N{MULTIPLICATION SIGN}1.10, "
        "between \N{MULTIPLICATION SIGN}1.20)",
    ]


def test_no_label_leaves_the_bars_picture(city: Scenario, outcomes: list[PlanOutcome]) -> None:
    measured = measure_site(simulated(city, outcomes, processing_ms=0.2))
    figure = draw_site_stages(predictions(city, outcomes), measured)
    assert_inside(figure)


def assert_inside(figure: Figure) -> None:
    figure.draw_without_rendering()
    (axes,) = figure.axes
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for text in (*axes.texts, *axes.get_yticklabels(), axes.title):
        box = text.get_window_extent(renderer)
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width


def test_curves_and_points_are_those_of_the_measurements(
    city: Scenario, outcomes: list[PlanOutcome]
) -> None:
    measured = measure_site(simulated(city, outcomes, processing_ms=1.0))
    predicted = predictions(city, outcomes)
    (axes,) = draw_site_distribution(predicted, measured).axes
    curve, mark = axes.get_lines()[:2]
    assert np.max(curve.get_xdata()) == measured["nearest"].each_ms[-1]
    assert np.asarray(mark.get_xdata()).item() == predicted["nearest"].total_ms
    (axes,) = draw_site_topics(predicted, measured).axes
    points = np.asarray(axes.collections[0].get_offsets())
    # Processing takes a millisecond more than the model knows of.
    np.testing.assert_allclose(points[:, 1], points[:, 0] + 1.0)
    assert len(points) == len(measured["nearest"].topic_ms)


def test_the_report_has_the_table_all_pictures_and_a_map_a_method(
    city: Scenario, outcomes: list[PlanOutcome], tmp_path: Path
) -> None:
    runs = [SiteRun(one.report.method, one.plan, one.assessment.detail) for one in outcomes]
    table = simulated(city, outcomes)
    page = write_site_report(tmp_path, city, Model.RATIO, runs, table)
    text = page.read_text()
    assert "60 clients, 8 topics and 6 edge servers" in text
    assert text.count("<img") == 3 + len(METHODS)
    assert {file.name for file in tmp_path.glob("*.png")} == {
        "site-stages.png",
        "site-delays.png",
        "site-topics.png",
        "site-map-nearest.png",
        "site-map-reloc.png",
    }
    missing = SiteRun("otos", runs[0].plan, runs[0].cost)
    with pytest.raises(ScenarioError, match="no notification was measured under the plan of otos"):
        write_site_report(tmp_path, city, Model.RATIO, [missing], table)
