"""Figures 6 and 7 of the LASR paper (2017): delay and misdeliveries around an offload."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache

import numpy as np

from nearcast.experiments.figures.figure import (
    CsvRow,
    Effort,
    FigureResult,
    PaperFigure,
    SweepRows,
)
from nearcast.experiments.figures.lasr_findings import (
    Trials,
    delay_verdicts,
    error_verdicts,
    numbers,
)
from nearcast.experiments.lasr.testbed import REPLICA, JoseTestbed
from nearcast.experiments.lasr.trial import SystemKind, Trial, run_trial
from nearcast.pictures.sweep_panels import Line, Panel, draw_sweep_panels

__all__ = ["FIGURES_LASR"]

_LOOKS = {SystemKind.LASR: ("#0072B2", "o"), SystemKind.MASTER_SLAVE: ("#D55E00", "s")}
_FACTORS = (1, 2, 4)
_SMALL = JoseTestbed(brokers=3, devices=4, other_devices=4, frames=30)


def _testbed(effort: Effort, factor: int) -> JoseTestbed:
    testbed = _SMALL if effort.few_points else JoseTestbed()
    return replace(testbed, other_devices=factor * testbed.other_devices)


@lru_cache(maxsize=256)
def _trial(kind: SystemKind, testbed: JoseTestbed, seed: int) -> Trial:
    # Both figures, and the report, look at the same trials.
    return run_trial(kind, testbed, seed)


def _trials(effort: Effort, factors: tuple[int, ...]) -> Trials:
    return {
        kind: {
            factor: [
                _trial(kind, _testbed(effort, factor), seed) for seed in range(effort.trials_lasr)
            ]
            for factor in factors
        }
        for kind in SystemKind
    }


def _notes(effort: Effort) -> list[str]:
    testbed = _testbed(effort, 1)
    return [
        f"Virtual time; trials: {effort.trials_lasr}, with {2 * testbed.brokers} brokers and components, "
        f"{testbed.devices} devices a broker, {testbed.size_bytes / 1000:g} KB every "
        f"{1000 * testbed.period_s:g} ms. The routers and the Suzaku overlay are the real ones. "
        f"Ours: {1000 * testbed.edge_rtt_s:g} ms round trip within a net, "
        f"{1000 * testbed.cloud_rtt_s:g} ms between any two nets, "
        f"{testbed.bits_per_s / 1e9:g} Gb/s, {1000 * testbed.handling_s:g} ms of work a message "
        f"and hop, {1000 * testbed.query_s:g} ms of the master a question.",
        "d1 has the lowest indexes: keys of components in the cloud with lower ones would lie "
        "between a publisher and d1', and messages might pass them.",
    ]


def _delay_result(effort: Effort, _rows: SweepRows) -> FigureResult:
    trials = _trials(effort, (1,))
    found = numbers(trials)
    lines, rows = [], []
    for kind, by_factor in trials.items():
        arrivals = [one for trial in by_factor[1] for one in trial.arrivals]
        rows += [_csv_row(kind, seed, trial) for seed, trial in enumerate(by_factor[1])]
        delays_ms = np.sort([one.delay_ms for one in arrivals if not one.is_warm_up])
        share = 100 * np.arange(1, len(delays_ms) + 1) / len(delays_ms)
        nothing = np.full(len(delays_ms), np.nan)
        colour, _ = _LOOKS[kind]
        dashes = None if kind is SystemKind.LASR else (0.0, (4.0, 2.0))
        lines.append(
            Line(kind.value, delays_ms, share, nothing, nothing, colour=colour, dashes=dashes)
        )
    picture = draw_sweep_panels(
        [Panel("messages of s1 delivered within a delay", "share of messages [%]", lines)],
        title="LASR, figure 6: distribution of delivery delay from s1",
        x_label="delay [ms]",
        note=f"Trials: {effort.trials_lasr}, without the first second. The lower quarter are "
        "messages to the replica in the edge net.",
    )
    warm = [f"{name}: {found[f'{key}_warm_up_max_ms']:.0f} ms" for name, key in _KEYS.items()]
    return FigureResult(
        rows=[row for some in rows for row in some],
        verdicts=delay_verdicts(found),
        pictures={"": picture},
        alternative="Share of s1's messages delivered within a delay, for LASR and master-slave.",
        notes=[
            *_notes(effort),
            "The first second is reported apart: publishers and nets get their keys. Slowest "
            f"message in it: {', '.join(warm)}. The paper's 80 ms at the start are its JIT "
            "compiler's and are not imitated.",
        ],
        numbers=found,
    )


def _csv_row(kind: SystemKind, seed: int, trial: Trial) -> list[CsvRow]:
    return [
        {
            "system": kind.value,
            "trial": seed,
            "frame": one.frame,
            "sent_s": one.sent_s,
            "delay_ms": one.delay_ms,
            "receiver": "d1'" if one.receiver == REPLICA else one.receiver,
            "hops": one.hops,
            "warm_up": int(one.is_warm_up),
        }
        for one in trial.arrivals
    ]


def _error_result(effort: Effort, _rows: SweepRows) -> FigureResult:
    trials = _trials(effort, _FACTORS)
    found = numbers(trials)
    rows: list[CsvRow] = []
    panels = []
    command = _testbed(effort, 1).frames // 2
    frames = np.arange(command - 3, command + 6)
    first_frames = {"command": command}
    for factor in _FACTORS:
        lines = []
        for kind, by_factor in trials.items():
            counts = Counter(
                one.frame for trial in by_factor[factor] for one in trial.misdelivered()
            )
            if counts and factor == 1:
                first_frames[kind.value] = min(counts)
            mean = np.array([counts[frame] / len(by_factor[factor]) for frame in frames.tolist()])
            rows += [
                {
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
        title="LASR, figure 7: misdelivered messages of s1 by frame",
        x_label="frame",
        note=f"Trials: {effort.trials_lasr}; means. Frame {command} is the first after the command. "
        "Panels: one, two and four times the devices in the other net.",
    )
    return FigureResult(
        rows=rows,
        verdicts=error_verdicts(found, first_frames),
        pictures={"": picture},
        alternative="Misdelivered messages by frame around the command, for one, two and four "
        "times the devices in the other net.",
        notes=_notes(effort),
        numbers=found,
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
