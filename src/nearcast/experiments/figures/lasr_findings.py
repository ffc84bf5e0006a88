"""The findings of the LASR paper against trials of its experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nearcast.experiments.figures.figure import FindingKind, Verdict, judge
from nearcast.experiments.figures.summary import interval_of
from nearcast.experiments.figures.thresholds import (
    BY_FAR_FEW,
    COMMAND_SHARE_POINTS,
    EDGE_MS,
    QUERY_MS,
    RECONFIGURED_MS,
    SAME_COUNT,
    SHARE_POINTS,
)
from nearcast.experiments.lasr.testbed import REPLICA
from nearcast.experiments.lasr.trial import Arrival, SystemKind, Trial

__all__ = ["Trials", "delay_verdicts", "error_verdicts", "in_edge", "lost_note", "numbers"]

Trials = Mapping[SystemKind, Mapping[int, Sequence[Trial]]]
"""By system and by how many times the devices of the other net."""

_LASR, _MASTER = SystemKind.LASR, SystemKind.MASTER_SLAVE
_SETTLED_S = 0.2
"""After the command; from then on a split is over."""


def in_edge(trials: Sequence[Trial]) -> list[Arrival]:
    """Return what the replica got, the warm-up left out."""
    return [one for one in _arrivals(trials) if one.receiver == REPLICA and not one.is_warm_up]


def numbers(trials: Trials) -> dict[str, float]:
    """Return the numbers behind all verdicts, by name."""
    found: dict[str, float] = {}
    for kind, by_factor in trials.items():
        name = kind.value.lower().replace("-", "_")
        first = by_factor[1]
        edge_ms = [one.delay_ms for one in in_edge(first)]
        cloud_ms = [
            one.delay_ms
            for one in _arrivals(first)
            if one.receiver != REPLICA and not one.is_warm_up
        ]
        warm_ms = [one.delay_ms for one in _arrivals(first) if one.is_warm_up]
        for place, delays_ms in (("edge", edge_ms), ("cloud", cloud_ms), ("warm_up", warm_ms)):
            for which, share in (("min", 0), ("median", 50), ("p95", 95), ("max", 100)):
                value = float(np.percentile(delays_ms, share)) if delays_ms else float("nan")
                found[f"{name}_{place}_{which}_ms"] = value
        found[f"{name}_share_of_run"] = _share(first, 0.0)
        found[f"{name}_share_after_command"] = _share(first, first[0].command_s + _SETTLED_S)
        found[f"{name}_sent_after_command"] = _sent(first, first[0].command_s + _SETTLED_S)
        found[f"{name}_share_before_command"] = _share_before(first)
        found[f"{name}_reconfiguration_ms"] = _reconfiguration_ms(first)
        settled_s = first[0].command_s + _SETTLED_S
        outside = [one for one in in_edge(first) if one.left_net]
        found[f"{name}_left_net"] = sum(one.sent_s >= settled_s for one in outside)
        found[f"{name}_left_net_in_split"] = sum(one.sent_s < settled_s for one in outside)
        noises_ms = [one.machine_p99_ms for one in first if one.machine_p99_ms is not None]
        if noises_ms:
            found[f"{name}_machine_p99_ms"] = max(noises_ms)
        for factor, some in by_factor.items():
            found[f"{name}_misdelivered_x{factor}"] = _mean([len(t.misdelivered()) for t in some])
            found[f"{name}_received_late_x{factor}"] = _mean(
                [len(t.late_at_original()) for t in some]
            )
            found[f"{name}_lost_x{factor}"] = sum(t.published - t.delivered for t in some)
            found[f"{name}_trials_x{factor}"] = len(some)
            found[f"{name}_edge_median_ms_x{factor}"] = float(
                np.median([one.delay_ms for one in in_edge(some)])
            )
    return found


def delay_verdicts(found: Mapping[str, float], is_live: bool = False) -> list[Verdict]:
    """Return the findings about delay (figure 6).

    Parameters
    ----------
    is_live : whether they are of real processes, whose routes are not recorded.
    """
    shares = [
        (found[f"{name}_share_before_command"], found[f"{name}_share_after_command"],
         found[f"{name}_share_of_run"])
        for name in ("lasr", "master_slave")
    ]  # fmt: skip
    fewest = min(found[f"{name}_sent_after_command"] for name in ("lasr", "master_slave"))
    # Three standard deviations of so many choices between two.
    by_chance = 150.0 / max(fewest, 1) ** 0.5
    after_points = max(COMMAND_SHARE_POINTS, by_chance)
    run_points = max(SHARE_POINTS, by_chance / 2)
    right = all(
        before == 0
        and abs(after - 0.5) <= after_points / 100
        and abs(run - 0.25) <= run_points / 100
        for before, after, run in shares
    )
    judged = f"judged as 50 +- {after_points:.1f} % after it and 25 +- {run_points:.1f} % in all"
    return [
        judge(
            "About a quarter of s1's messages arrive clearly faster: none before the command, "
            "half of them after it",
            right,
            "; ".join(
                f"{kind.value}: {100 * before:.0f} % at d1' before, {100 * after:.1f} % after, "
                f"{100 * run:.1f} % of the run"
                for kind, (before, after, run) in zip((_LASR, _MASTER), shares, strict=True)
            ),
            kind=FindingKind.BY_CONSTRUCTION,
            if_so=judged,
            if_not=judged,
        ),
        judge(
            "LASR delivers within the edge net mostly within 5 ms",
            found["lasr_edge_p95_ms"] <= EDGE_MS and found["lasr_left_net"] == 0,
            f"95 % within {found['lasr_edge_p95_ms']:.2f} ms, at most "
            f"{found['lasr_edge_max_ms']:.2f} ms; {found['lasr_left_net']:.0f} messages had a hop "
            f"outside the net, besides {found['lasr_left_net_in_split']:.0f} sent while the split was "
            "under way",
            if_so="a way through the cloud takes 14.1 ms at least, by the distances of the links"
            if is_live
            else "the routes were recorded: each lies in the net's part of the topic",
            if_not=_machine_reason(found),
        ),
        judge(
            "Master-slave needs at least 10 ms even within the edge net: about a round trip to "
            "the master (14.1 ms)",
            found["master_slave_edge_min_ms"] >= QUERY_MS,
            f"at least {found['master_slave_edge_min_ms']:.2f} ms, median "
            f"{found['master_slave_edge_median_ms']:.2f} ms",
            kind=FindingKind.BY_CONSTRUCTION,
            if_so="each message waits for an answer of the master, and the way to it is the paper's",
        ),
    ]


def error_verdicts(found: Mapping[str, float], first_frames: Mapping[str, int]) -> list[Verdict]:
    """Return the findings about misdeliveries (figure 7).

    Parameters
    ----------
    first_frames : the first frame with a misdelivery by system, and the command's as `command`.
    """
    lasr, master = found["lasr_misdelivered_x1"], found["master_slave_misdelivered_x1"]
    wide = [found[f"{name}_received_late_x1"] for name in ("lasr", "master_slave")]
    factors = sorted(
        int(name.rpartition("x")[2]) for name in found if name.startswith("lasr_misdelivered_x")
    )
    most = factors[-1]
    rows = {
        name: [found[f"{name}_misdelivered_x{factor}"] for factor in factors]
        for name in ("lasr", "master_slave")
    }
    late = [found[f"master_slave_received_late_x{factor}"] for factor in factors]
    return [
        judge(
            "All misdeliveries are of frames from the command (frame 50) on",
            all(
                frame >= first_frames["command"]
                for name, frame in first_frames.items()
                if name != "command"
            ),
            ", ".join(f"{name}: frame {frame}" for name, frame in first_frames.items()),
            kind=FindingKind.BY_CONSTRUCTION,
            if_so="the first misdelivered frame of each system that has any",
        ),
        judge(
            "LASR reconfigures in under 100 ms, with a few misdeliveries",
            found["lasr_reconfiguration_ms"] < RECONFIGURED_MS and lasr <= BY_FAR_FEW,
            f"the last one {found['lasr_reconfiguration_ms']:.1f} ms after the command, in the "
            f"slowest trial; {lasr:.1f} misdelivered a trial",
            if_so=f"few: judged as {BY_FAR_FEW:.0f} or less of the 50 that are sent in a second",
            if_not=_machine_reason(found),
        ),
        judge(
            "Master-slave misdelivers more than twice as many as LASR",
            master > 2 * lasr,
            f"{master:.1f} and {lasr:.1f} a trial, of those sent after the command; with those "
            f"on their way at it: {wide[1]:.1f} and {wide[0]:.1f}",
            if_not="the command reaches the master within its data centre, before any question "
            "that was asked after it; only what had its answer already goes to d1. The paper "
            "names query load and the way to the cloud, but neither is in front of the command. "
            "How its prototype applied it is not told",
        ),
        judge(
            "More devices in the other net: LASR's misdeliveries stay, master-slave's grow",
            abs(rows["lasr"][-1] - rows["lasr"][0]) <= SAME_COUNT
            and rows["master_slave"][-1] > rows["master_slave"][0] + SAME_COUNT,
            "; ".join(
                f"{kind.value}: "
                + ", ".join(f"{value:.1f} (x{f})" for f, value in zip(factors, row, strict=True))
                for kind, row in zip((_LASR, _MASTER), rows.values(), strict=True)
            )
            + "; master-slave with those on their way: "
            + ", ".join(f"{value:.1f}" for value in late),
            if_so=f"judged by more than {SAME_COUNT:g} a trial",
            if_not=f"judged by more than {SAME_COUNT:g} a trial. LASR's stay, but so do master-slave's: "
            "a busy master answers later (within the edge net "
            f"{found['master_slave_edge_median_ms_x1']:.1f} ms at x1 and "
            f"{found[f'master_slave_edge_median_ms_x{most}']:.1f} ms at x{most}, median), but the "
            "command is in the same queue, before every question asked after it. The paper "
            "expects time-outs and repetitions, which did not happen here",
        ),
    ]


def _machine_reason(found: Mapping[str, float]) -> str:
    """Return what the machine itself did to messages meanwhile, where that was measured."""
    noise_ms = found.get("lasr_machine_p99_ms")
    if noise_ms is None:
        return ""
    return f"meanwhile a round trip over bare sockets took {noise_ms:.1f} ms here, p99 of the worst trial"


def lost_note(found: Mapping[str, float]) -> str:
    """Return what was lost; the paper does not count that."""
    lost = {name: value for name, value in found.items() if "_lost_x" in name}
    trials = sum(value for name, value in found.items() if "_trials_x" in name)
    return f"{sum(lost.values()):.0f} messages were lost in {trials:.0f} trials."


def _arrivals(trials: Sequence[Trial]) -> list[Arrival]:
    return [one for trial in trials for one in trial.arrivals]


def _share(trials: Sequence[Trial], from_s: float) -> float:
    some = [one for one in _arrivals(trials) if one.sent_s >= from_s]
    return sum(one.receiver == REPLICA for one in some) / max(1, len(some))


def _sent(trials: Sequence[Trial], from_s: float) -> int:
    return sum(one.sent_s >= from_s for one in _arrivals(trials))


def _share_before(trials: Sequence[Trial]) -> float:
    some = [one for trial in trials for one in trial.arrivals if one.received_s < trial.command_s]
    return sum(one.receiver == REPLICA for one in some) / max(1, len(some))


def _reconfiguration_ms(trials: Sequence[Trial]) -> float:
    return max(trial.reconfiguration_ms() for trial in trials)


def _mean(values: Sequence[int]) -> float:
    return interval_of(values).mean
