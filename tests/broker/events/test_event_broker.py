"""The event broker: bins, periods, alerts with their areas, and who is believed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.broker.events.bins import Bin, Bins
from nearcast.broker.events.congestion import CongestionParams, SlowTraffic
from nearcast.broker.events.event_broker import EventBroker, EventParams
from nearcast.broker.events.kinds import EventKind, at_least, configured_kinds, mercury_kinds
from nearcast.broker.events.plausibility import Plausibility, PlausibilityParams
from nearcast.broker.events.report import EventReport, PositionReport
from nearcast.broker.events.reputation import Reputation, ReputationParams
from nearcast.broker.events.sightings import Sightings
from nearcast.errors import ConfigError
from nearcast.geo.bounds import Bounds
from nearcast.geo.shapes import Circle

FIELD = Bounds(0.0, 0.0, 10.0, 10.0)
KINDS = mercury_kinds()


def broker(kinds: dict[str, EventKind] | None = None, **given_params: Any) -> EventBroker:
    plausibility = Plausibility(PlausibilityParams(FIELD))
    params = EventParams(**given_params)
    return EventBroker(
        kinds or KINDS, plausibility, now_s=0.0, params=params, slow_traffic=SlowTraffic()
    )


def at(
    name: str, x_km: float, y_km: float, time_s: float = 0.0, mps: float = 0.0
) -> PositionReport:
    return PositionReport(name, x_km, y_km, time_s, mps)


def tell(
    events: EventBroker, kind: str, name: str, x_km: float, y_km: float, time_s: float = 0.0
) -> list[Any]:
    assert events.position(at(name, x_km, y_km, time_s), time_s)
    return events.report(EventReport(kind, name, x_km, y_km, time_s), time_s)


def test_a_collision_sensed_by_enough_vehicles_alerts_all_inside_the_area_and_nobody_else() -> None:
    events = broker()
    for number, (dx, dy) in enumerate([(0.1, 0), (-0.1, 0), (0, 0.1), (0, -0.1)]):
        assert tell(events, "collision", f"v{number}", 5 + dx, 2 + dy) == []
    assert events.tick(0.9) == []
    (alert,) = events.tick(1.0)
    assert (round(alert.situation.x_km, 9), round(alert.situation.y_km, 9)) == (5, 2)
    assert alert.situation.count == alert.situation.reporters == 4
    assert alert.is_new
    radius_km = alert.situation.radius_km + KINDS["collision"].margin_km
    assert alert.area.selects(5, 2, None, 1.0)
    assert alert.area.selects(5 + 0.59, 2, None, 30.0)
    assert not alert.area.selects(5 + 1.01 * radius_km, 2, None, 1.0)
    assert not alert.area.selects(5, 2, None, 31.0)
    assert events.tick(2.0) == []


def test_an_emergency_is_alerted_at_once() -> None:
    events = broker()
    (alert,) = tell(events, "emergency", "a", 5, 2)
    assert alert.is_new
    (again,) = tell(events, "emergency", "b", 5, 2.01, 1.0)
    assert not again.is_new


def test_one_reporter_however_loud_is_one_reporter() -> None:
    events = broker()
    for _ in range(30):
        tell(events, "collision", "a", 5, 2)
    assert events.tick(1.0) == []
    assert events.counts["no_room"] == 30 - EventParams().most_reports


def test_a_kind_of_ones_own_is_a_few_lines() -> None:
    ice = EventKind("ice", lambda one: one.count >= 2 and len(one.reporters) >= 2, period_s=5.0)
    events = broker({"ice": ice})
    tell(events, "ice", "a", 1, 1)
    tell(events, "ice", "b", 1.1, 1)
    assert [alert.situation.kind for alert in events.tick(5.0)] == ["ice"]


def test_kinds_run_by_their_own_periods() -> None:
    events = broker()
    tell(events, "lane_change", "a", 1, 1)
    for name in "xyz":
        tell(events, "blocked", name, 4, 4)
    assert [alert.situation.kind for alert in events.tick(0.1)] == ["lane_change"]
    assert [alert.situation.kind for alert in events.tick(5.0)] == ["blocked"]
    assert events.tick(1e9) == []  # a clock that jumps ahead brings one tick, not many


def test_what_is_going_on_in_an_area_is_answered_from_the_bins() -> None:
    events = broker()
    tell(events, "obstacle", "a", 2, 2)
    for name in "xyz":
        tell(events, "blocked", name, 8, 8)
    events.tick(5.0)
    tell(events, "obstacle", "b", 2, 2, 5.0)
    here = events.going_on(Circle(2, 2, 0.5), 5.0)
    assert [(one.kind, one.is_alerted) for one in here] == [("obstacle", False)]
    there = events.going_on(Circle(8, 8, 0.5), 5.0)
    assert [(one.kind, one.is_alerted) for one in there] == [("blocked", True)]
    assert len(events.going_on(Circle(5, 5, 9), 5.0)) == 2
    assert events.going_on(Circle(5, 1, 0.5), 5.0) == []
    assert events.going_on(Circle(8, 8, 0.5), 301.0) == []  # no longer held


def test_slow_traffic_becomes_congestion_before_anyone_reports_it() -> None:
    events = broker()
    alerts = []
    for second in range(21):
        for number in range(6):
            mps = 15.0 if second < 2 else 1.0
            x = 3 + 0.02 * number + 0.015 * min(second, 2) + 0.001 * max(second - 2, 0)
            assert events.position(at(f"v{number}", x, 3, second, mps), second)
            assert events.position(at(f"parked{number}", 7, 7 + number / 100, second), second)
        alerts += events.tick(float(second))
    assert {alert.situation.kind for alert in alerts} == {"congestion"}
    assert all(abs(alert.situation.y_km - 3) < 0.1 for alert in alerts)


def test_slow_traffic_that_finds_no_bin_is_counted() -> None:
    events = broker(most_bins=0)
    for second in range(8):
        events.position(
            at("v", 3 + 0.005 * min(second, 1), 3, second, 1.0 if second else 9.0), second
        )
    assert events.counts["no_room"] > 0


def test_who_was_near_and_silent_speaks_against_a_report() -> None:
    events = broker()
    for number in range(8):
        events.position(at(f"silent{number}", 5 + number / 100, 5), 0.0)
    for name in "abcd":
        tell(events, "collision", name, 5, 5)
    assert events.tick(1.0) == []
    many = broker()
    many.position(at("silent", 5, 5), 0.0)
    for name in "abcd":
        tell(many, "collision", name, 5, 5)
    assert len(many.tick(1.0)) == 1


def test_liars_lose_their_weight_and_honest_reporters_keep_theirs() -> None:
    reputation = Reputation()
    events = EventBroker(
        KINDS, Plausibility(PlausibilityParams(FIELD)), now_s=0.0, reputation=reputation
    )
    for second in range(4):
        for number in range(9):
            events.position(at(f"honest{number}", 5, 5, second), second)
        for number in range(3):
            tell_all = at(f"liar{number}", 5, 5, second)
            events.position(tell_all, second)
            events.report(EventReport("collision", f"liar{number}", 5, 5, second), second)
        assert events.tick(second + 1.0) == []
    assert reputation.weight("liar0") < 0.2 < 0.7 < reputation.weight("honest0")
    assert events.counts["not_believed"] > 0


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (EventReport("nonsense", "a", 5, 5, 0), "unknown_kind"),
        (EventReport("collision", "a", math.nan, 5, 0), "not_finite"),
        (EventReport("collision", "stranger", 5, 5, 0), "no_position"),
        (EventReport("collision", "a", 7, 5, 0), "too_far"),
        (EventReport("collision", "a", 5, 5, -100), "wrong_time"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_true_is_counted_and_raises_nothing(
    report: EventReport, reason: str
) -> None:
    events = broker()
    events.position(at("a", 5, 5), 0.0)
    assert events.report(report, 0.0) == []
    assert events.counts == {reason: 1}
    assert events.going_on(Circle(5, 5, 5), 0.0) == []


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (at("a", 5.01, 5, 1.0, 10), None),
        (at("a", math.inf, 5, 1.0), "not_finite"),
        (at("a", 11, 5, 1.0), "out_of_field"),
        (at("a", 5, 5, 4.0), "wrong_time"),
        (at("a", 5, 5, -40.0), "wrong_time"),
        (at("a", 5, 5, -1.0), "out_of_order"),
        (at("a", 5, 5, 1.0, 80), "too_fast"),
        (at("a", 5, 5, 1.0, -1), "too_fast"),
        (at("a", 6, 5, 1.0, 20), "jump"),
        (at("a", 5.1, 5, 1.0, 1), "speed_mismatch"),
        (at("b", 9, 9, 1.0), None),
    ],
    ids=range(11),
)
def test_positions_are_checked_against_the_last_one(
    report: PositionReport, reason: str | None
) -> None:
    checks = Plausibility(PlausibilityParams(FIELD))
    assert checks.flag(at("a", 5, 5), 0.0) is None
    assert checks.flag(report, 1.0) == reason
    assert checks.flag(at("a", 5.01, 5, 1.5, 10), 1.5) is None  # what was flagged is forgotten


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 80), st.integers(0, 80)),
        min_size=1,
        max_size=60,
    )
)
@settings(deadline=None)
def test_a_bin_has_the_mean_of_its_reports_and_all_are_within_its_radius(
    told: list[tuple[int, int, int]],
) -> None:
    bins = Bins(0.5, most_bins=1000, most_reports=100)
    members: dict[int, list[EventReport]] = {}
    kept: dict[int, Bin] = {}
    for name, x, y in told:
        report = EventReport("k", f"v{name}", x / 40, y / 40, 0.0)
        taken = bins.add(report)
        assert taken is not None
        kept[id(taken)] = taken
        members.setdefault(id(taken), []).append(report)
    assert len(bins) == len(kept) == len(list(bins))
    for key, one in kept.items():
        reports = members[key]
        assert one.count == len(reports)
        assert len(one.reporters) == len({report.reporter for report in reports})
        assert one.x_km == pytest.approx(sum(report.x_km for report in reports) / one.count)
        assert all(
            math.hypot(report.x_km - one.x_km, report.y_km - one.y_km) <= one.radius_km + 1e-9
            for report in reports
        )
    assert len(bins.emptied()) == len(kept)
    assert len(bins) == 0


def test_every_table_has_a_limit() -> None:
    bins = Bins(0.5, most_bins=2, most_reports=5)
    added = [bins.add(EventReport("k", f"v{n}", 3.0 * n, 0, 0)) for n in range(4)]
    assert [one is None for one in added] == [False, False, True, True]
    checks = Plausibility(replace(PlausibilityParams(FIELD), most_reporters=3))
    reputation = Reputation(ReputationParams(most_reporters=3))
    sightings = Sightings(most_reporters=3)
    traffic = SlowTraffic(CongestionParams(most_reporters=3))
    for number in range(9):
        checks.flag(at(f"v{number}", 1, 1), 0.0)
        reputation.refute(f"v{number}")
        sightings.add(at(f"v{number}", 1, 1))
        traffic.add(at(f"v{number}", 1, 1, 0.0, 20))
    assert len(checks) == len(reputation) == len(sightings) == len(traffic) == 3
    events = broker(most_held=2)
    for number in range(5):
        tell(events, "emergency", f"v{number}", number, 1)
    assert len(events.going_on(Circle(5, 5, 9), 0.0)) == 2 + 5  # held ones, and all bins


def test_kinds_are_configured() -> None:
    kinds = configured_kinds(
        {"collision": {"reporters": 5, "period_s": 2}, "ice": {"reporters": 2, "period_s": 10}}
    )
    assert kinds["collision"].period_s == 2
    assert kinds["collision"].sensed_km == KINDS["collision"].sensed_km
    one = Bin(0, 0, reporters=dict.fromkeys("abcd"))
    assert not kinds["collision"].predicate(one)
    assert kinds["ice"].predicate(one)
    kinds = configured_kinds({"congestion": {"message_class": "consumer"}})
    assert kinds["congestion"].message_class == "consumer"
    assert kinds["collision"].message_class == "emergency"


@pytest.mark.parametrize(
    ("tables", "error"),
    [
        ({"ice": {"period_s": 1}}, "'ice' is new and needs period_s and reporters"),
        ({"collision": {"color": 1}}, "unknown setting 'color'; known: period_s"),
        ({"collision": {"period_s": "1"}}, "period_s is '1', not a number"),
        ({"collision": {"period_s": -1}}, "period_s of event 'collision' is not 0 or above"),
        ({"collision": {"hold_s": math.nan}}, "hold_s of event 'collision' is not above 0"),
        ({"collision": {"reporters": 0}}, "reporters is 0"),
        ({"": {"reporters": 1, "period_s": 1}}, "has no name"),
        ({"collision": {"message_class": 3}}, "message_class of event 'collision'"),
        ({"collision": {"message_class": "No Class"}}, "is no message class"),
    ],
    ids=range(9),
)
def test_bad_kinds_are_refused(tables: Any, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        configured_kinds(tables)


def test_a_predicate_of_reporters_counts_different_ones() -> None:
    one = Bin(0, 0)
    for name in ("a", "a", "b"):
        one.add(EventReport("k", name, 0, 0, 0))
    assert at_least(2)(one)
    assert not at_least(3)(one)
