"""Figure 15 of RELOC 2021: the metrics against the size of spools."""

from __future__ import annotations

from nearcast.experiments.figures.curves2021 import (
    BAND_NOTE,
    METHODS,
    PUBLISHED,
    READINGS_NOTE,
    TOGETHER,
    least_lines,
    left_on_the_table,
    limit_lines,
    method_look,
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
    paper_name,
)
from nearcast.experiments.figures.settings import COMPUTE_2021, STORAGE_2021, cells_2021
from nearcast.experiments.figures.summary import Curves, Point, summarise
from nearcast.experiments.figures.thresholds import LITTLE
from nearcast.pictures.style import counted
from nearcast.pictures.sweep_panels import draw_sweep_panels
from nearcast.pipeline.sweep.cell import SweepCell

__all__ = ["FIGURE_15", "verdicts"]

_SPOOLS_PER_MEMBER = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
_SIGMA_KM, _TOPICS = 5.0, 64
_ELSEWHERE_P = (2.0, 3.0)
"""The paper does not say which p it tried: here servers are in use, but not all of them full."""
_METHODS = (*METHODS, "relation")
"""RELO is RELOC before its cooperation step, of which the paper speaks here."""


def _points(effort: Effort) -> list[Point]:
    spools = (2.0, 3.0, 6.0) if effort.few_points else _SPOOLS_PER_MEMBER
    return [
        Point(spool, method, cells_2021(effort, _SIGMA_KM, spool, 4, method))
        for method in _METHODS
        for spool in spools
    ]


def _cells(effort: Effort) -> list[SweepCell]:
    return [cell for point in _points(effort) for cell in point.cells]


def _result(effort: Effort, rows: SweepRows) -> FigureResult:
    curves = summarise(_points(effort), rows)
    members = curves.mean("reloc", curves.xs("reloc")[0], "members") / _TOPICS
    panels = six_panels(curves, _METHODS, _label, method_look, limit_lines(curves))
    picture = draw_sweep_panels(
        panels,
        title="2021, figure 15: metrics against the average size of spools (sigma = 5 km, K = 4)",
        x_label="average spool [messages], and p",
        note=f"{BAND_NOTE} {counted(effort.seeds_2021, 'seed')}. Y on a logarithmic axis.",
        x_ticks={p: f"{p * members:.0f}\np={p:g}" for p in curves.xs("reloc")},
    )
    csv_rows = curves.csv_rows("spool_per_member", "method")
    return FigureResult(
        rows=csv_rows,
        verdicts=_with_other_settings(curves),
        pictures={"": picture},
        alternative="Six panels against the average spool: storage, load, distance to the home, "
        "Y, Y1 and Y2 of each method, with the limits.",
        notes=[
            left_on_the_table(curves),
            READINGS_NOTE,
            "RELO is drawn to show RELOC before its cooperation step; the paper's figure has only "
            "RA, NS, OTOS and RELOC.",
        ],
    )


def _label(method: str) -> str:
    return "RELO (RELOC without cooperation)" if method == "relation" else paper_name(method)


def _with_other_settings(curves: Curves) -> list[Verdict]:
    """Return the verdicts beside those of other spools, and of the other cooperation."""
    before, at = _ELSEWHERE_P
    other = curves.instead("reloc", "reloc-together")
    found = verdicts(curves)
    for some, words in ((curves, ""), (other, f", {TOGETHER}")):
        here = [*verdicts(some.at([at]))[:1], _rise_verdict(some, before, at)]
        found = beside(found, here, f"at p = {at:g}{words}")
    return beside(found, verdicts(other), TOGETHER)


def verdicts(curves: Curves) -> list[Verdict]:
    """Return the paper's findings against the curves."""
    spools = curves.xs("reloc")
    best = least_lines(curves, "Y", spools, PUBLISHED)
    fits = [p for p in spools if curves.mean("reloc", p, "compute_used") <= COMPUTE_2021]
    return [
        judge(
            "RELOC has the smallest delay Y whatever the average spool",
            all(name == "reloc" for name in best.values()),
            "smallest Y among RA, NS, OTOS, RELOC: "
            + ", ".join(f"{paper_name(name)} at p = {p:g}" for p, name in best.items()),
            if_so="it saves spools without leaving the region",
            if_not="small spools fit everywhere, and NS is best as at a small sigma; beyond p = "
            f"{max(fits, default=0):g} the load of all servers together is more than they can do, "
            "and OTOS, which doubles no spool, delegates least. The paper does not say which p it "
            "tried",
        ),
        _rise_verdict(curves),
    ]


def _rise_verdict(curves: Curves, start: float | None = None, end: float | None = None) -> Verdict:
    """Judge the rise from one p to another; None: across the limits of the relation step."""
    spools = curves.xs("reloc")
    over = [
        p
        for p in spools
        if curves.mean("relation", p, "storage_used") > STORAGE_2021
        or curves.mean("relation", p, "compute_used") > COMPUTE_2021
    ]
    # Against the largest spool that the relation step still gets along with.
    start = start or max((p for p in spools if p not in over), default=spools[0])
    end = end or (over[0] if over else spools[-1])
    before, after = curves.mean("reloc", start, "Y"), curves.mean("reloc", end, "Y")
    saved = curves.mean("relation", end, "Y") - after
    load = curves.mean("reloc", end, "compute_used") / COMPUTE_2021
    return judge(
        "Even when storage and load are over the limits after the relation step, Y rises little "
        "by virtue of the cooperation step",
        after / before - 1 < LITTLE and saved >= 0,
        (f"over a limit from p = {over[0]:g} on: " if over else "never over a limit: ")
        + f"Y of RELOC from {before:.2f} ms at p = {start:g} to {after:.2f} ms at p = {end:g}, "
        f"{abs(saved):.3f} ms {'less' if saved >= 0 else 'more'} than without cooperation",
        if_so=f"judged as rising by less than {100 * LITTLE:.0f} %",
        if_not=f"judged as rising by {100 * LITTLE:.0f} % or more. At p = {end:g} the load of all "
        f"servers together is {100 * load:.0f} % of what they can do: there is no server to move "
        "clients to, and moving them one by one doubles spools",
    )


FIGURE_15 = PaperFigure(
    "2021-15", "Metrics against the average size of spools (sigma = 5 km, K = 4)", _cells, _result
)
