"""Figures 6 and 7 of the LASR paper (2017): delay and misdeliveries around an offload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from nearcast.experiments.figures.figure import (
    CsvRow,
    Effort,
    FigureResult,
    PaperFigure,
    SweepRows,
    Verdict,
    beside,
)
from nearcast.experiments.figures.lasr_busy_master import busy_masters, told_beside
from nearcast.experiments.figures.lasr_findings import (
    BUSIER,
    Trials,
    delay_verdicts,
    error_verdicts,
    lost_note,
    numbers,
)
from nearcast.experiments.lasr.live import LIVE, LIVE_SMALL, live_trials
from nearcast.experiments.lasr.testbed import REPLICA, JoseTestbed
from nearcast.experiments.lasr.trial import SystemKind, Trial, run_trial
from nearcast.pictures.sweep_panels import Line, Panel, draw_sweep_panels

__all__ = ["FIGURES_LASR"]

_LOOKS = {SystemKind.LASR: ("#0072B2", "o"), SystemKind.MASTER_SLAVE: ("#D55E00", "s")}
_FACTORS = (1, 2, 4, 6)
_LIVE_FACTORS = (1, 2, 4)
_SMALL = JoseTestbed(brokers=3, devices=4, other_devices=4, frames=30, query_s=0.0016)
"""The master is as busy as with all devices: at x6 more is asked than it can answer."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Trials of the experiment, in virtual time or with real processes."""

    name: str
    testbed: JoseTestbed
    trials: Trials
    notes: tuple[str, ...]

    @property
    def is_live(self) -> bool:
        return self.name == _LIVE


_VIRTUAL, _LIVE = "virtual time", "real processes"


def _runs(effort: Effort, factors: tuple[int, ...]) -> list[_Run]:
    virtual = _testbed(effort)
    trials: Trials = {
        kind: {
            factor: [
                _trial(kind, _with_factor(virtual, factor), seed)
                for seed in range(effort.trials_lasr)
            ]
            for factor in factors
        }
        for kind in SystemKind
    }
    found = [_Run(_VIRTUAL, virtual, trials, _notes(virtual, effort.trials_lasr))]
    if effort.trials_live:
        live = LIVE_SMALL if effort.few_points else LIVE
        by_factor = {
            factor: live_trials(_with_factor(live, factor), effort.trials_live)
            for factor in factors
            if factor in _LIVE_FACTORS
        }
        trials = {
            kind: {factor: one[kind] for factor, one in by_factor.items()} for kind in SystemKind
        }
        found.append(_Run(_LIVE, live, trials, _live_notes(live, effort.trials_live)))
    return found


def _testbed(effort: Effort) -> JoseTestbed:
    return _SMALL if effort.few_points else JoseTestbed()


def _with_factor(testbed: JoseTestbed, factor: int) -> JoseTestbed:
    return replace(testbed, other_devices=factor * testbed.other_devices)


@lru_cache(maxsize=256)
def _trial(kind: SystemKind, testbed: JoseTestbed, seed: int) -> Trial:
    # Both figures, and the report, look at the same trials.
    return run_trial(kind, testbed, seed)


def _notes(testbed: JoseTestbed, trials: int) -> tuple[str, ...]:
    return (
        f"Virtual time; trials: {trials}, with {2 * testbed.brokers} brokers and components, "
        f"{_load_text(testbed)}. The routers and the Suzaku overlay are the real ones. "
        f"Ours: {1000 * testbed.edge_rtt_s:g} ms round trip within a net, "
        f"{1000 * testbed.cloud_rtt_s:g} ms between any two nets, "
        f"{testbed.bits_per_s / 1e9:g} Gb/s, {1000 * testbed.handling_s:g} ms of work a message "
        f"and hop, {1000 * testbed.query_s:g} ms of the master a question "
        "or command, in the order in which they come.",
        "d1 has the lowest indexes: keys of components in the cloud with lower ones would lie "
        "between a publisher and d1', and messages might pass them.",
    )


def _live_notes(testbed: JoseTestbed, trials: int) -> tuple[str, ...]:
    return (
        f"Real processes; trials: {trials}, scaled to one machine: one broker a net and one "
        f"component, {_load_text(testbed)}. LASR is a site of servers with their disks: the cloud "
        "server, two edge servers in s1's net and one in the other, on which a flow runs; links "
        f"have the distances ({1000 * testbed.cloud_rtt_s:g} ms to the cloud and between nets, "
        f"{1000 * testbed.edge_rtt_s:g} ms within one, round trip). At half time an operator has "
        "the lower half of d1's indexes moved to the second server of s1's net, for that net; "
        "nobody searches for room, which would take a lookup on the ring. Frames are stored by "
        "their broker before they go on. Master-slave is one process for the master and each "
        "broker and component, over the same links, and stores nothing.",
        "A frame that d1 no longer has is not processed there: d1 says who has it. Those that may "
        "have taken this way count as having left the net: all to d1' that were sent before the "
        "first one that was there quicker than any way through the cloud.",
    )


def _load_text(testbed: JoseTestbed) -> str:
    return (
        f"{testbed.devices} devices a broker, {testbed.size_bytes / 1000:g} KB every "
        f"{1000 * testbed.period_s:g} ms for {testbed.frames * testbed.period_s:g} s"
    )


def _delay_result(effort: Effort, _rows: SweepRows) -> FigureResult:
    result = [_delays_of(run) for run in _runs(effort, (1,))]
    return _joined(result)


def _joined(results: Sequence[FigureResult]) -> FigureResult:
    first, *others = results
    for one in others:
        first = replace(
            first,
            rows=[*first.rows, *one.rows],
            verdicts=[*first.verdicts, *one.verdicts],
            pictures={**first.pictures, **one.pictures},
            notes=[*first.notes, *one.notes],
            numbers={**first.numbers, **one.numbers},
        )
    return first


def _told(run: _Run, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return verdicts that say which run they are about."""
    if not run.is_live:
        return list(verdicts)
    return [replace(one, finding=f"With real processes: {one.finding}") for one in verdicts]


def _listed(factors: Sequence[int]) -> str:
    return f"{', '.join(map(str, factors[:-1]))} and {factors[-1]}"


def _named(run: _Run, found: dict[str, float]) -> dict[str, float]:
    return {f"live_{name}": value for name, value in found.items()} if run.is_live else found


def _delays_of(run: _Run) -> FigureResult:
    found = numbers(run.trials)
    lines, rows = [], []
    for kind, by_factor in run.trials.items():
        arrivals = [one for trial in by_factor[1] for one in trial.arrivals]
        rows += [_csv_row(run, kind, seed, trial) for seed, trial in enumerate(by_factor[1])]
        delays_ms = np.sort([one.delay_ms for one in arrivals if not one.is_warm_up])
        share = 100 * np.arange(1, len(delays_ms) + 1) / len(delays_ms)
        nothing = np.full(len(delays_ms), np.nan)
        colour, _ = _LOOKS[kind]
        dashes = None if kind is SystemKind.LASR else (0.0, (4.0, 2.0))
        lines.append(
            Line(kind.value, delays_ms, share, nothing, nothing, colour=colour, dashes=dashes)
        )
    count = len(run.trials[SystemKind.LASR][1])
    picture = draw_sweep_panels(
        [Panel("messages of s1 delivered within a delay", "share of messages [%]", lines)],
        title=f"LASR, figure 6: distribution of delivery delay from s1 ({run.name})",
        x_label="delay [ms]",
        note=f"Trials: {count}, without the first second. The lower quarter are "
        "messages to the replica in the edge net.",
    )
    warm = [f"{name}: {found[f'{key}_warm_up_max_ms']:.0f} ms" for name, key in _KEYS.items()]
    return FigureResult(
        rows=[row for some in rows for row in some],
        verdicts=_told(run, delay_verdicts(found, run.is_live)),
        pictures={"live" if run.is_live else "": picture},
        alternative="Share of s1's messages delivered within a delay, for LASR and master-slave.",
        notes=[
            *run.notes,
            lost_note(found),
            "The first second is reported apart: publishers and nets get their keys. Slowest "
            f"message in it: {', '.join(warm)}. The paper's 80 ms at the start are its JIT "
            "compiler's and are not imitated.",
        ],
        numbers=_named(run, found),
    )


def _csv_row(run: _Run, kind: SystemKind, seed: int, trial: Trial) -> list[CsvRow]:
    return [
        {
            "run": run.name,
            "system": kind.value,
            "trial": seed,
            "frame": one.frame,
            "sent_s": one.sent_s,
            "delay_ms": one.delay_ms,
            "receiver": "d1'" if one.receiver == REPLICA else one.receiver,
            "hops": None if run.is_live else one.hops,
            "left_net": int(one.left_net),
            "warm_up": int(one.is_warm_up),
        }
        for one in trial.arrivals
    ]


def _error_result(effort: Effort, _rows: SweepRows) -> FigureResult:
    virtual, *live = [_errors_of(run) for run in _runs(effort, _FACTORS)]
    return _joined([_beside_busy_masters(virtual, effort), *live])


def _beside_busy_masters(result: FigureResult, effort: Effort) -> FigureResult:
    """Add what comes out if the master takes longer for a question, which the paper does not tell."""
    masters = busy_masters(_testbed(effort), effort.trials_lasr)
    verdicts = [
        replace(one, elsewhere=told_beside(masters, result.numbers["lasr_misdelivered_x1"]))
        if one.finding == BUSIER
        else one
        for one in result.verdicts
    ]
    counts = {f"master_slave_misdelivered_busy_{m.share:g}": m.misdelivered for m in masters}
    return replace(result, verdicts=verdicts, numbers={**result.numbers, **counts})


def _errors_of(run: _Run) -> FigureResult:
    found = numbers(run.trials)
    rows: list[CsvRow] = []
    panels = []
    command = run.testbed.frames // 2
    earliest = min(
        (
            one.frame
            for by_factor in run.trials.values()
            for trials in by_factor.values()
            for trial in trials
            for one in trial.misdelivered()
        ),
        default=command,
    )
    frames = np.arange(min(earliest, command - 3), command + 6)
    factors = sorted(run.trials[SystemKind.LASR])
    first_frames = {factor: {"command": command} for factor in factors}
    for factor in factors:
        lines = []
        for kind, by_factor in run.trials.items():
            counts = Counter(
                one.frame for trial in by_factor[factor] for one in trial.misdelivered()
            )
            if counts:
                first_frames[factor][kind.value] = min(counts)
            mean = np.array([counts[frame] / len(by_factor[factor]) for frame in frames.tolist()])
            rows += [
                {
                    "run": run.name,
                    "other_net": f"x{factor}",
                    "system": kind.value,
                    "frame": int(frame),
                    "misdelivered": float(value),
                }
                for frame, value in zip(frames, mean, strict=True)
            ]
            colour, marker = _LOOKS[kind]
            nothing = np.full(len(frames), np.nan)
            lines.append(
                Line(kind.value, frames.astype(np.float64), mean, nothing, nothing, colour, marker)
            )
        panels.append(Panel(f"other net x{factor}", "misdelivered a trial", lines))
    picture = draw_sweep_panels(
        panels,
        title=f"LASR, figure 7: misdelivered messages of s1 by frame ({run.name})",
        x_label="frame",
        note=f"Trials: {len(run.trials[SystemKind.LASR][1])}; means. Frame {command} is the first "
        f"after the command. Panels: {_listed(factors)} times the devices in the other net.",
    )
    first, *others = error_verdicts(found, first_frames[1])
    for factor in factors[1:]:
        there = error_verdicts(found, first_frames[factor])[:1]
        (first,) = beside([first], there, f"x{factor}")
    return FigureResult(
        rows=rows,
        verdicts=_told(run, [first, *others]),
        pictures={"live" if run.is_live else "": picture},
        alternative=f"Misdelivered messages by frame around the command, for {_listed(factors)} "
        "times the devices in the other net.",
        notes=[*run.notes, lost_note(found)],
        numbers=_named(run, found),
    )


_KEYS = {kind.value: kind.value.lower().replace("-", "_") for kind in SystemKind}

FIGURES_LASR = (
    PaperFigure(
        "lasr-fig6",
        "Distribution of delivery delay around an offload",
        lambda _: [],
        _delay_result,
    ),
    PaperFigure(
        "lasr-fig7", "Misdelivered messages around an offload", lambda _: [], _error_result
    ),
)
