"""Figure 14 of RELOC 2021: the metrics against the locality of clients.

What the paper leaves open of OTOS was calibrated on this figure; figure 15 tests the choice.
"""

from __future__ import annotations

from itertools import pairwise

from nearcast.experiments.figures.curves2021 import (
    BAND_NOTE,
    METHODS,
    PUBLISHED,
    READINGS_NOTE,
    TOGETHER,
    least_lines,
    left_on_the_table,
    limit_lines,
    listed,
    method_look,
    six_panels,
)
from nearcast.experiments.figures.figure import (
    Effort,
    FigureResult,
    FindingKind,
    PaperFigure,
    SweepRows,
    Verdict,
    beside,
    judge,
    paper_name,
)
from nearcast.experiments.figures.settings import STORAGE_2021, cells_2021
from nearcast.experiments.figures.summary import Curves, Point, summarise
from nearcast.experiments.figures.thresholds import WIDE_KM
from nearcast.pictures.style import counted
from nearcast.pictures.sweep_panels import draw_sweep_panels
from nearcast.pipeline.sweep.cell import SweepCell

__all__ = ["FIGURE_14", "SIGMAS_KM", "sigmas_km", "verdicts"]

SIGMAS_KM = (1.0, 5.0, 10.0, 15.0, 20.0)
_CALIBRATED = (
    "the paper does not say how OTOS chooses a topic's server; `otos`, the least used one whatever "
    "its place, was chosen because with it this figure agrees"
)


def sigmas_km(effort: Effort) -> tuple[float, ...]:
    """Return the spreads to try."""
    return (1.0, 10.0) if effort.few_points else SIGMAS_KM


def _points(effort: Effort) -> list[Point]:
    return [
        Point(sigma_km, method, cells_2021(effort, sigma_km, 2.0, 4, method))
        for method in METHODS
        for sigma_km in sigmas_km(effort)
    ]


def _cells(effort: Effort) -> list[SweepCell]:
    return [cell for point in _points(effort) for cell in point.cells]


def _result(effort: Effort, rows: SweepRows) -> FigureResult:
    curves = summarise(_points(effort), rows)
    over = [
        share > STORAGE_2021
        for point in _points(effort)
        if point.line == "reloc"
        for cell in point.cells
        for share in rows[cell]["storage_used"]
    ]
    panels = six_panels(curves, METHODS, paper_name, method_look, limit_lines(curves))
    picture = draw_sweep_panels(
        panels,
        title="2021, figure 14: metrics against the locality of clients (p = 2, K = 4)",
        x_label="spread of a topic's members, sigma [km]",
        note=f"{BAND_NOTE} {counted(effort.seeds_2021, 'seed')}. Y on a logarithmic axis.",
        x_ticks={sigma: f"{sigma:g}" for sigma in sigmas_km(effort)},
    )
    return FigureResult(
        rows=curves.csv_rows("sigma_km", "method"),
        verdicts=_with_other_choices(curves, sum(over) / len(over)),
        pictures={"": picture},
        alternative="Six panels against sigma: storage, load, distance to the home, Y, Y1 and Y2 "
        "of each method, with the limits.",
        notes=[
            left_on_the_table(curves),
            _centre_note(curves),
            READINGS_NOTE,
            "The load of all servers together depends on the topics alone, so that its mean is "
            "the same for every method; the band shows how unevenly servers carry it.",
        ],
    )


def _with_other_choices(curves: Curves, storage_over: float) -> list[Verdict]:
    """Return the verdicts beside those with the other OTOS, and with the other cooperation."""
    mine = verdicts(curves, storage_over)
    centre = verdicts(curves.instead("otos", "otos-centre"), storage_over)
    together = verdicts(curves.instead("reloc", "reloc-together"), storage_over)
    calibrated = beside(mine, centre, "`otos-centre` as OTOS")
    told = [
        other if one.kind is FindingKind.CALIBRATED else one
        for one, other in zip(mine, calibrated, strict=True)
    ]
    both = beside(told, together, TOGETHER)
    return [other if "RELOC" in one.finding else one for one, other in zip(told, both, strict=True)]


def _centre_note(curves: Curves) -> str:
    better = [
        x
        for x in curves.xs("otos-centre")
        if curves.mean("otos-centre", x, "Y") < curves.mean("reloc", x, "Y")
    ]
    return (
        "The paper does not say how OTOS chooses a topic's server: `otos` takes the least used "
        "one, `otos-centre` the one nearest to the members' centre that has room. The latter is "
        f"faster than RELOC at {len(better)} of {len(curves.xs('otos-centre'))} spreads."
    )


def verdicts(curves: Curves, storage_over: float) -> list[Verdict]:
    """Return the paper's findings against the curves.

    `storage_over` is the share of servers (x seeds x spreads) that RELOC fills beyond A.
    """
    spreads = curves.xs("reloc")
    wide = [x for x in spreads if x >= WIDE_KM]
    best = least_lines(curves, "Y", spreads, PUBLISHED)
    nearest_km = least_lines(curves, "home_km", spreads, PUBLISHED)
    storage = least_lines(curves, "storage_used", spreads, PUBLISHED)
    y2 = curves.means("nearest", "Y2")
    y1_more = [curves.mean("otos", x, "Y1") > curves.mean("reloc", x, "Y1") for x in spreads]
    tops = [curves.interval("reloc", x, "storage_used").high for x in spreads]
    return [
        judge(
            "RELOC has the smallest delay Y if sigma >= 5",
            all(best[x] == "reloc" for x in wide),
            f"smallest Y among RA, NS, OTOS, RELOC: {listed(best)} km",
            kind=FindingKind.CALIBRATED,
            if_so="within a region RELOC brings related clients together, so that few spools are "
            f"kept twice and homes stay near; {_CALIBRATED}",
        ),
        judge(
            "NS may be the best method when there is sufficient capacity (smallest sigma)",
            best[spreads[0]] == "nearest",
            f"smallest Y at sigma {spreads[0]:g}: {paper_name(best[spreads[0]])}",
            kind=FindingKind.CALIBRATED,
            if_so="a topic's members share their nearest servers, so that few spools are doubled; "
            f"{_CALIBRATED}",
        ),
        judge(
            "NS gives the smallest distance to the home server",
            all(name == "nearest" for name in nearest_km.values()),
            f"NS: {listed(curves.means('nearest', 'home_km'))} km at sigma "
            f"{', '.join(f'{x:g}' for x in spreads)}",
            kind=FindingKind.BY_CONSTRUCTION,
            if_so="that is what NS does",
        ),
        judge(
            "NS gives delay Y2 as sigma increases",
            all(after > before for before, after in pairwise(y2)),
            f"Y2 of NS: {listed(y2)} ms",
            if_so="spread members are at home on many servers, each of which keeps the spool",
        ),
        judge(
            "OTOS gives the smallest storage consumption",
            all(name == "otos" for name in storage.values()),
            f"least storage: {listed(storage)} km",
            kind=FindingKind.BY_CONSTRUCTION,
            if_so="every topic is on one server, but for clients in several topics",
        ),
        judge(
            "OTOS gives more delay Y1 than RELOC constantly",
            all(y1_more),
            f"more at {sum(y1_more)} of {len(spreads)} spreads; OTOS "
            f"{listed(curves.means('otos', 'Y1'))} ms, RELOC "
            f"{listed(curves.means('reloc', 'Y1'))} ms",
            kind=FindingKind.CALIBRATED,
            if_so="the one server of a topic is far from most of its members; RELOC stays within "
            f"the client's region; {_CALIBRATED}",
        ),
        judge(
            "With RELOC the storage used is not over A even when sigma increases",
            max(tops) <= STORAGE_2021,
            f"the band ends at {listed(tops, 0)} of {STORAGE_2021:g}; "
            f"{100 * storage_over:.1f} % of the single servers are over A",
            if_so="the relation step saves spools and the cooperation step evens them out; the "
            "paper's graph, too, shows the mean over servers",
            if_not="the mean over servers is what the paper's graph shows, and it is over A here",
        ),
    ]


FIGURE_14 = PaperFigure(
    "2021-14", "Metrics against the locality of clients (p = 2, K = 4)", _cells, _result
)
