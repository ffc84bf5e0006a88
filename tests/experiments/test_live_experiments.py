from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest

from cli.conftest import Run, run  # noqa: F401
from nearcast.domain.generators import reloc2021
from nearcast.experiments import echo_rate
from nearcast.experiments.live_delays import LivePoint, delivery_means, summary
from nearcast.experiments.machine_noise import Noise
from nearcast.experiments.percentiles import percentile
from nearcast.sdk import Notification
from nearcast.site.swarm import Arrival


def arrival(client: str, publisher: str, sequence: int, total_ms: float) -> Arrival:
    return Arrival(
        client,
        Notification(
            "t",
            publisher,
            1,
            sequence,
            True,
            0,
            b"",
            published_us=1_000,
            received_us=2_000,
            processing_us=500,
            notified_us=1_000 + round(1_000 * total_ms) - 2_000,
            arrived_us=1_000 + round(1_000 * total_ms),
        ),
    )


def test_a_publication_counts_once_however_many_hear_of_it() -> None:
    arrivals = [
        arrival("b", "a", 1, 10.0),
        arrival("c", "a", 1, 20.0),
        arrival("d", "a", 1, 30.0),
        arrival("a", "b", 1, 100.0),
    ]
    means = delivery_means(arrivals)
    assert means["total_ms"] == pytest.approx((20.0 + 100.0) / 2)
    assert means["publish_leg_ms"] == pytest.approx(1.0)
    assert means["between_ms"] == pytest.approx((16.5 + 96.5) / 2)
    assert delivery_means(arrivals, by_pair=True)["total_ms"] == pytest.approx(160.0 / 4)


POINT = LivePoint("reloc", 100.0, 9, 9, 27, 0, 0.6, 0.9, 1.5, 0.6, 0.9, 0.5, 1.6, 1.07)


def test_the_summary_says_who_agrees_and_compares_with_reloc() -> None:
    slow = replace(POINT, method="nearest", measured_ms=3.2, predicted_ms=3.0, ratio=1.2)
    quick = replace(POINT, method="optimised", measured_ms=0.8, predicted_ms=0.9, ratio=0.89)
    rows = {row["plan"]: row for row in summary([slow, POINT, quick])}
    assert {name: row["within 10 %"] for name, row in rows.items()} == {
        "nearest": "no",
        "reloc": "yes",
        "optimised": "no",
    }
    assert rows["optimised"]["of RELOC's, measured"] == pytest.approx(0.5)
    assert rows["nearest"]["of RELOC's, predicted"] == pytest.approx(2.0)


@pytest.mark.slow
def test_a_small_site_delivers_everything_that_the_plan_says(
    run: Run,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 4 edge servers: the 16 of the paper take half a minute to start
    few = partial(reloc2021.Reloc2021, servers_per_side=2)
    monkeypatch.setattr(reloc2021, "Reloc2021", few)
    answer = run(
        *("bench", "live", "--methods", "nearest,optimised", "--topics", "3", "--sigma", "3"),
        *("--objectives", "d1", "--delay-factor", "20", "--rate", "40", "--json"),
    )
    assert answer.code == 0, answer.err
    for point in answer.json["points"]:
        assert point["missing"] == 0
        assert point["published"] > 20
        # no wall-clock limit, but nothing is quicker than the emulated distance
        assert point["measured_legs_ms"] > 0.99 * point["predicted_y1_ms"]


@pytest.mark.slow
def test_echoes_come_back_and_are_durable() -> None:
    (point,) = echo_rate.run([40], seconds=1.0, find_knee=False)
    assert (point.sent, point.returned, point.acknowledged) == (40, 40, 40)
    assert 0 < point.median_ms <= point.p99_ms <= point.largest_ms
    assert 0 < point.raw_median_ms <= point.raw_p99_ms
    assert point.stolen_percent is None or 0 <= point.stolen_percent <= 100
    assert 0 <= point.quiet_percent <= 100
    assert point.quiet_percent == 0 or point.quiet_p99_ms <= point.largest_ms
    (row,) = echo_rate.summary([point])
    assert (row["messages/s"], row["lost"], row["knee"]) == (40, 0, "")


def test_what_was_stolen_spoils_what_is_near_it() -> None:
    noise = Noise(0.1, 0.3, 2.0, (10.0, 20.0))
    spans = {(10.06, 19.94): True, (19.96, 20.1): False, (9.0, 9.96): False, (20.1, 21.0): True}
    assert {span: noise.is_quiet(*span) for span in spans} == spans
    assert not noise.is_quiet(9.0, 21.0)
    assert Noise(0.1, 0.3, None).is_quiet(0.0, 99.0)


def test_percentiles_are_measured_values() -> None:
    values = [float(one) for one in range(200, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.99, 0.999, 1.0)] == [100, 198, 200, 200]
    assert percentile([7.0], 0.01) == 7.0
    assert math.isnan(percentile([], 0.5))


def test_rates_that_are_none_are_refused(run: Run) -> None:  # noqa: F811
    answer = run("bench", "echo", "--rates", "1,many")
    assert answer.code == 2
    assert "--rates" in answer.err
