"""Figure 16 of RELOC 2021: RELOC against the number of regions K."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.experiments.figures.curves2021 import (
    BAND_NOTE,
    READINGS_NOTE,
    TOGETHER,
    six_panels,
)
from nearcast.experiments.figures.figure import (
    Effort,
    FigureResult,
    PaperFigure,
    SweepRows,
    Verdict,
    beside,
    judge,
)
from nearcast.experiments.figures.settings import cells_2021
from nearcast.experiments.figures.sigma_sweep import SIGMAS_KM, sigmas_km
from nearcast.experiments.figures.summary import Curves, Point, summarise
from nearcast.experiments.figures.thresholds import INCREASED_K, LITTLE, LOCAL_KM, PAPER_K
from nearcast.pictures.style import counted
from nearcast.pictures.sweep_panels import Line, draw_sweep_panels
from nearcast.pipeline.sweep.cell import SweepCell

__all__ = ["FIGURE_16", "verdicts"]

_REGIONS = (1, 2, 4, 6, 8, 10, 12, 14, 16)
# Dark to light, told apart in grey as well.
_COLOURS = dict(
    zip(SIGMAS_KM, ("#000000", "#3B4A8F", "#21918C", "#5EB445", "#E3B505"), strict=True)
)
_MARKERS = dict(zip(SIGMAS_KM, "osD^v", strict=True))


def _points(effort: Effort, method: str = "reloc") -> list[Point]:
    regions = (1, 4, 16) if effort.few_points else _REGIONS
    return [
        Point(float(count), _line(sigma_km), cells_2021(effort, sigma_km, 2.0, count, method))
        for sigma_km in sigmas_km(effort)
        for count in regions
    ]


def _optimised(effort: Effort) -> list[Point]:
    """Return the same settings without regions: the cells that figure 14 has, too."""
    return [
        Point(PAPER_K, _line(sigma_km), cells_2021(effort, sigma_km, 2.0, 4, "optimised"))
        for sigma_km in sigmas_km(effort)
    ]


def _cells(effort: Effort) -> list[SweepCell]:
    points = (*_points(effort), *_points(effort, "reloc-together"), *_optimised(effort))
    return [cell for point in points for cell in point.cells]


def _line(sigma_km: float) -> str:
    return f"sigma {sigma_km:g} km"


def _look(line: str) -> dict[str, Any]:
    sigma_km = float(line.split()[1])
    return {"colour": _COLOURS[sigma_km], "marker": _MARKERS[sigma_km]}


def _result(effort: Effort, rows: SweepRows) -> FigureResult:
    curves, best = summarise(_points(effort), rows), summarise(_optimised(effort), rows)
    together = summarise(_points(effort, "reloc-together"), rows)
    few = [count for count in curves.xs(curves.lines[0]) if count <= PAPER_K]
    told = beside(verdicts(curves), verdicts(curves.at(few)), f"K up to {PAPER_K}")
    floors = [
        Line(
            "optimised (colours as RELOC)",
            x=np.array([curves.xs(line)[0], curves.xs(line)[-1]]),
            mean=np.full(2, best.mean(line, PAPER_K, "Y")),
            low=np.full(2, np.nan),
            high=np.full(2, np.nan),
            colour=_look(line)["colour"],
            dashes=(0, (2, 2)),
        )
        for line in curves.lines
    ]
    regions = curves.xs(curves.lines[0])
    picture = draw_sweep_panels(
        six_panels(curves, curves.lines, lambda line: f"RELOC, {line}", _look, floors, log_y=False),
        title="2021, figure 16: RELOC against the number of regions K (p = 2)",
        x_label="regions K",
        note=f"{BAND_NOTE} {counted(effort.seeds_2021, 'seed')}. Dashed: `optimised`, which knows no regions.",
        x_ticks={count: f"{count:g}" for count in regions},
    )
    csv_rows = curves.csv_rows("regions", "setting")
    for row in csv_rows:
        setting = str(row["setting"])
        row["optimised_Y"] = best.mean(setting, PAPER_K, "Y")
        row["together_Y"] = together.mean(setting, float(str(row["regions"])), "Y")
    return FigureResult(
        rows=csv_rows,
        verdicts=beside(told, verdicts(together), TOGETHER),
        pictures={"": picture},
        alternative="Six panels against K: storage, load, distance to the home, Y, Y1 and Y2 of "
        "RELOC for each spread sigma.",
        notes=[_best_note(curves, best), READINGS_NOTE],
    )


def _best_note(curves: Curves, best: Curves) -> str:
    parts = []
    for line in curves.lines:
        least = min(curves.means(line, "Y"))
        parts.append(f"{line}: {100 * (least / best.mean(line, PAPER_K, 'Y') - 1):.0f} %")
    return "RELOC with its best K is still above `optimised`, which needs no K: " + ", ".join(parts)


def verdicts(curves: Curves) -> list[Verdict]:
    """Return the paper's findings against the curves."""
    spread = {line: float(line.split()[1]) for line in curves.lines}
    wide = [line for line, sigma_km in spread.items() if sigma_km > LOCAL_KM]
    local = [line for line, sigma_km in spread.items() if sigma_km <= LOCAL_KM]
    varies = {
        line: max(curves.means(line, "Y")) / min(curves.means(line, "Y")) - 1
        for line in curves.lines
    }
    best = {
        line: min(curves.xs(line), key=lambda count: curves.mean(line, count, "Y"))
        for line in curves.lines
    }
    many = INCREASED_K * max(curves.xs(curves.lines[0]))
    return [
        judge(
            "When sigma is 10, 15 or 20 the delay fluctuates with K but does not vary so much",
            all(varies[line] < LITTLE for line in wide),
            "largest over smallest Y: "
            + ", ".join(f"+{100 * varies[line]:.0f} % ({line})" for line in wide),
            if_so=f"judged as varying by less than {100 * LITTLE:.0f} %",
            if_not=f"judged as varying by {100 * LITTLE:.0f} % or more. The more regions, the "
            "more servers keep a wide topic: storage overflows and the cloud is paid, until with "
            "one server a region RELOC is NS. The paper does not say up to which K it went",
        ),
        *(
            judge(
                f"When locality is strong ({line}) the delay is minimised by increasing K",
                best[line] > many,
                f"best K: {best[line]:g}; Y from {curves.means(line, 'Y')[0]:.2f} ms at K = 1 to "
                f"{curves.mean(line, best[line], 'Y'):.2f} ms there and "
                f"{curves.means(line, 'Y')[-1]:.2f} ms at K = {curves.xs(line)[-1]:g}",
                if_so=f"judged as more than {many:g}; near members fit into a small region, and "
                "homes are nearer there",
                if_not=f"judged as more than {many:g}. It falls until K = {best[line]:g}; beyond that topics reach over several "
                "regions, and doubled spools cost more than nearer homes save",
            )
            for line in local
        ),
    ]


FIGURE_16 = PaperFigure("2021-16", "RELOC against the number of regions K (p = 2)", _cells, _result)
