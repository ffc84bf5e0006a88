"""The findings of the LASR paper against trials of its experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nearcast.experiments.figures.figure import FindingKind, Verdict, judge
from nearcast.experiments.figures.summary import interval_of
from nearcast.experiments.figures.thresholds import (
    BY_FAR_FEW,
    CHANCE_DEVIATIONS,
    COMMAND_SHARE_POINTS,
    EDGE_MS,
    QUERY_MS,
    RECONFIGURED_MS,
    SAME_COUNT,
    SETTLED_S,
    SHARE_POINTS,
    TWICE,
)
from nearcast.experiments.lasr.testbed import REPLICA
from nearcast.experiments.lasr.trial import Arrival, SystemKind, Trial

__all__ = [
    "BUSIER",
    "Trials",
    "delay_verdicts",
    "error_verdicts",
    "in_edge",
    "lost_note",
    "numbers",
]

Trials = Mapping[SystemKind, Mapping[int, Sequence[Trial]]]
"""By system and by how many times the devices of the other net."""

BUSIER = "Master-slave misdelivers more than twice as many as LASR"

_LASR, _MASTER = SystemKind.LASR, SystemKind.MASTER_SLAVE


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
        found[f"{name}_share_after_command"] = _share(first, first[0].command_s + SETTLED_S)
        found[f"{name}_sent_after_command"] = _sent(first, first[0].command_s + SETTLED_S)
        found[f"{name}_share_before_command"] = _share_before(first)
        found[f"{name}_reconfiguration_ms"] = _reconfiguration_ms(first)
        settled_s = first[0].command_s + SETTLED_S
        outside = [one for one in in_edge(first) if one.left_net]
        found[f"{name}_left_net"] = sum(one.sent_s >= settled_s for one in outside)
        found[f"{name}_left_net_in_split"] = sum(one.sent_s < settled_s for one in outside)
        noises_ms = [one.machine_p99_ms for one in first if one.machine_p99_ms is not None]
        if noises_ms:
            found[f"{name}_machine_p99_ms"] = max(noises_ms)
        for factor, some in by_factor.items():
            found[f"{name}_misdelivered_x{factor}"] = _mean([len(t.misdelivered()) for t in some])
            found[f"{name}_misdelivered_later_x{factor}"] = _mean(
                [len(t.misdelivered_later()) for t in some]
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
    # Of so many choices between two, in points.
    by_chance = CHANCE_DEVIATIONS * 50.0 / max(fewest, 1) ** 0.5
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
    later = [found[f"{name}_misdelivered_later_x1"] for name in ("master_slave", "lasr")]
    factors = sorted(
        int(name.rpartition("x")[2]) for name in found if name.startswith("lasr_misdelivered_x")
    )
    rows = {
        name: [found[f"{name}_misdelivered_x{factor}"] for factor in factors]
        for name in ("lasr", "master_slave")
    }
    return [
        judge(
            "All misdeliveries are of frames from the command (frame 50) on",
            # Each device has a moment of its own for a frame: the one before may be under way.
            all(
                frame >= first_frames["command"] - 1
                for name, frame in first_frames.items()
                if name != "command"
            ),
            ", ".join(f"{name}: frame {frame}" for name, frame in first_frames.items()),
            kind=FindingKind.BY_CONSTRUCTION,
            if_so="the first misdelivered frame of each system that has any; the one before the "
            "command's may be under way at the command",
        ),
        judge(
            "LASR reconfigures in under 100 ms, with a few misdeliveries",
            found["lasr_reconfiguration_ms"] < RECONFIGURED_MS and lasr <= BY_FAR_FEW,
            f"the last one arrived {found['lasr_reconfiguration_ms']:.1f} ms after the command, in "
            f"the slowest trial; {lasr:.1f} misdelivered a trial",
            if_so=f"few: judged as {BY_FAR_FEW:.0f} or less of the 50 that are sent in a second",
            if_not=_machine_reason(found),
        ),
        judge(
            BUSIER,
            master > TWICE * lasr,
            f"{master:.1f} and {lasr:.1f} a trial reached d1 after the command; "
            f"{later[0]:.1f} and {later[1]:.1f} of them were also sent after it",
            if_not="the command waits in the master's queue behind the questions before it, and d1 "
            "gets what these were about; that queue is short until the master saturates, and a "
            "question takes longer to the master than the command, which comes from its own data "
            "centre. How the paper's prototype applied the command is not told",
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
            + "; master-slave lost "
            + ", ".join(f"{found[f'master_slave_lost_x{factor}']:.0f}" for factor in factors)
            + " messages",
            if_so=f"judged by more than {SAME_COUNT:g} a trial, between the least and the most devices. "
            "What grows is the queue in front of the command, where the master is asked more than "
            "it can answer; it also loses messages then",
            if_not=f"judged by more than {SAME_COUNT:g} a trial, between the least and the most devices. "
            "Master-slave's grow by the questions that are in front of the command in the master's "
            "queue, so only where it saturates",
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
    lost = {name: value for name, value in found.items() if "_lost_x" in name and value}
    trials = sum(value for name, value in found.items() if "_trials_x" in name)
    if not lost:
        return f"No message was lost in {trials:.0f} trials."
    where = ", ".join(
        f"{value:.0f} of {name.replace('_lost_', ', other net ').replace('_', '-')}"
        for name, value in lost.items()
    )
    return (
        f"Lost in {trials:.0f} trials: {where}. These were refused by a broker because too many "
        "waited for the master, or had no answer 3 s after the last frame."
    )


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
