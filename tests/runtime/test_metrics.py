"""The metrics, read back with Prometheus' own parser."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from random import Random

from prometheus_client.parser import text_string_to_metric_families

import nearcast
from nearcast.broker.guard import GuardEvent
from nearcast.broker.sequence_gate import Verdict
from nearcast.runtime.manager_http import manager_metrics
from nearcast.runtime.metric_names import COUNTERS, GAUGES, LOSSES
from nearcast.runtime.metrics import STAGES, Gauges, ServerMetrics
from nearcast.server.flow_watch import COUNTED
from nearcast.wire.messages import CloseReason

SOURCE = Path(nearcast.__file__).parent
NAMED_BY_REASON = {
    "flow_": set(COUNTED),
    "processor_": {one.value for one in GuardEvent} - {GuardEvent.REFUSED.value},
    "refused_": {"not_managed"}
    | {one.name.lower() for one in Verdict}
    - {Verdict.TAKEN.name.lower(), Verdict.DUPLICATE.name.lower(), Verdict.HELD.name.lower()},
    # a client leaves a server that is not trusted: that one sees a session that is done
    "sessions_closed_": {one.name.lower() for one in CloseReason if one.name != "UNTRUSTED"},
}
"""What follows in names of counters that are put together."""


def names_in(key: ast.expr) -> set[str]:
    """Return the names that the key of a counter may be."""
    match key:
        case ast.Constant(str(name)):
            return {name}
        case ast.IfExp(body=body, orelse=orelse):
            return names_in(body) | names_in(orelse)
        case ast.JoinedStr(values=[ast.Constant(str(prefix)), ast.FormattedValue()]):
            return {prefix + rest for rest in NAMED_BY_REASON[prefix]}
        case _:
            return set()


def counted() -> set[str]:
    """Return the names of all counters that the parts of a server share."""
    return {
        name
        for folder in ("server", "wire", "runtime")
        for path in sorted((SOURCE / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Subscript)
        and (
            (isinstance(node.value, ast.Name) and node.value.id == "counts")
            or (isinstance(node.value, ast.Attribute) and node.value.attr in ("counts", "_counts"))
        )
        for name in names_in(node.slice)
    }


def samples(metrics: ServerMetrics) -> dict[tuple[str, str], float]:
    """Return values by name and the labels beside the server's."""
    found = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("server") == 'e"1'
            beside = [labels[name] for name in ("stage", "reason", "topic", "le") if name in labels]
            found[sample.name, ",".join(beside)] = sample.value
    return found


def test_counts_and_drops_are_those_of_the_state_machines() -> None:
    metrics = ServerMetrics('e"1')
    counts = Counter(publications=3, sessions_closed_timeout=2)
    metrics.counts, metrics.drops = counts, Counter({"bad_seal": 4})
    counts["publications"] += 1
    found = samples(metrics)
    assert found["nearcast_publications_total", ""] == 4
    assert found["nearcast_sessions_closed_timeout_total", ""] == 2
    assert found["nearcast_busy_total", ""] == 0
    assert found["nearcast_drops_total", "bad_seal"] == 4


def test_losses_are_shown_from_the_start_with_their_meaning_and_in_the_docs() -> None:
    metrics = ServerMetrics('e"1')
    metrics.counts["processor_malformed"] += 3
    metrics.read_losses = lambda: {"send_drops": {"EPERM": 2}, "kernel_drops": None}
    found = samples(metrics)
    assert found["nearcast_processor_malformed_total", ""] == 3
    assert found["nearcast_send_drops_total", "EPERM"] == 2
    assert found["nearcast_event_log_rows_dropped_total", ""] == 0
    assert ("nearcast_kernel_drops_total", "") not in found
    assert metrics.losses()["send_drops"] == {"EPERM": 2}
    text, docs = metrics.text().decode(), Path("docs/site.md").read_text()
    for name, meaning in LOSSES.items():
        if name != "kernel_drops":
            assert f"# HELP nearcast_{name}_total {meaning}\n" in text
        assert f"| `nearcast_{name}_total" in docs
        assert f" | {meaning} |" in docs
    for name in (*COUNTERS, *GAUGES):
        assert f"`nearcast_{name}" in docs


def test_every_counter_of_a_server_has_a_meaning() -> None:
    found = counted() - {"servers_up", "servers", "clients_enrolled", "revocations"}
    found -= {"refused_messages"}  # of the manager's status, as those
    assert len(found) > 60
    assert found <= {*COUNTERS, *LOSSES}


def test_every_metric_of_the_manager_is_in_the_docs() -> None:
    one_of_each = {"servers": 1, "servers_up": 1, "clients_enrolled": 1, "revocations": 1}
    text = manager_metrics(
        {
            "revision": 1,
            "plan_version": 1,
            "counts": one_of_each | {"refused_messages": 3},
            "servers": [{"id": "e1", "credential_days_left": 5.0}],
            "refused_requests": {"operation_invalid": 2},
        }
    ).decode()
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert "nearcast_manager_refused_messages_total 3\n" in text
    docs = Path("docs/site.md").read_text()
    for name in names:
        assert f"| `{name}" in docs, name


def test_gauges_are_asked_for_at_each_scrape_and_limits_shown_where_there_are_some() -> None:
    metrics = ServerMetrics('e"1')
    sessions = [7]
    metrics.read_gauges = lambda: Gauges(sessions=sessions[0], storage_limit=100.0)
    assert samples(metrics)["nearcast_sessions", ""] == 7
    sessions[0] = 8
    metrics.queue_age_s = 0.25
    found = samples(metrics)
    assert found["nearcast_sessions", ""] == 8
    assert found["nearcast_queue_age_seconds", ""] == 0.25
    assert found["nearcast_storage_limit", ""] == 100
    assert ("nearcast_compute_limit", "") not in found


def test_of_many_topics_only_the_largest_are_shown() -> None:
    metrics = ServerMetrics('e"1')
    sizes = {f"topic {number}": number for number in range(1_000)}
    metrics.read_gauges = lambda: Gauges(spool_messages=sizes)
    shown = {key: v for (name, key), v in samples(metrics).items() if "spool_messages" in name}
    assert shown == {f"topic {number}": number for number in range(900, 1_000)}


def test_histograms_count_what_a_plain_loop_counts() -> None:
    metrics = ServerMetrics('e"1')
    rng = Random(3)

    def one(rng: Random) -> int:
        return int(10 ** rng.uniform(1, 7.3))

    delays_us = [
        *((one(rng), one(rng), one(rng)) for _ in range(500)),
        (1_000, 10_000, 10_000_000),
        (-500_000, 0, 0),
    ]
    metrics.observe_delays(delays_us)
    delays = [tuple(one / 1e6 for one in some) for some in delays_us]
    metrics.observe("sync", [0.002, 3.0])
    metrics.observe_lag(0.004)
    metrics.observe("switch_pause", [0.25])
    found = samples(metrics)
    expected = {
        "publish_leg": [max(0.0, some[0]) for some in delays],
        "processing": [some[1] for some in delays],
        "between": [some[2] for some in delays],
        "total_to_home": [max(0.0, sum(one)) for one in delays],
        "sync": [0.002, 3.0],
        "loop_lag": [0.004],
        "switch_pause": [0.25],
    }
    assert set(expected) == set(STAGES)
    bounds = set()
    for (name, labels), value in found.items():
        if name == "nearcast_stage_seconds_bucket":
            stage, bound = labels.split(",")
            bounds.add(float(bound))
            assert value == sum(one <= float(bound) for one in expected[stage])
    assert len(bounds) == 17
    assert {1e-4, 10.0, float("inf")} <= bounds
    for stage, values in expected.items():
        assert found["nearcast_stage_seconds_count", stage] == len(values)
        assert abs(found["nearcast_stage_seconds_sum", stage] - sum(values)) < 1e-6
