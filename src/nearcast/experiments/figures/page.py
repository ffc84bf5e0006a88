"""The report page of reproduced figures: the findings first, then figure by figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearcast.experiments.figures.figure import FindingKind, tally
from nearcast.experiments.figures.reproduction import Reproduction
from nearcast.experiments.figures.thresholds import FIXED_AFTER_A_RUN
from nearcast.pictures.report import Cell, Link, Picture, Section, Table, Tile, write_report

__all__ = ["write_page"]

PAPERS = {
    "2020": "Tanaka, Kamada, Ohta: Topic-based Allocation of Distributed Message Processors on "
    "Edge-Servers for Real-time Notification Service (2020)",
    "2021": "Tanaka, Kamada, Ohta: Topic Allocation Method on Edge Servers for Latency-sensitive "
    "Notification Service (2021)",
    "2022": "Matsumoto, Kamada, Finnerty, Ohta: Topic-based distributed publish-process-subscribe "
    "system with metrics on geographic distance and permissible delay (2022)",
    "lasr": "Teranishi, Kimata, Yamanaka, Kawai, Harai: a distributed routing mechanism for dynamic "
    "dataflow processing, LASR (2017)",
}


_KIND_WORDS = {
    FindingKind.INPUT: "inputs (numbers of the setting)",
    FindingKind.BY_CONSTRUCTION: "by construction (they follow from a definition or from how a method works)",
    FindingKind.CALIBRATED: "calibrated (an open choice was made so that they agree)",
}


def write_page(path: Path, made: Sequence[Reproduction], *, data: str, options: str) -> None:
    """Write the page.

    Parameters
    ----------
    path : the HTML file; pictures and tables are beside it.
    made : the figures in their order.
    data : where scenarios come from, in words.
    options : options of the command line that all figures were made with.
    """
    kinds = tally([verdict for one in made for verdict in one.result.verdicts])
    agreeing, tests = kinds.pop(FindingKind.TEST)
    papers = [PAPERS[paper] for paper in dict.fromkeys(one.figure.name[:4] for one in made)]
    write_report(
        path,
        "Published figures, reproduced",
        [_summary(made), *(_section(one, options) for one in made)],
        tiles=[
            Tile("Figures", len(made)),
            Tile("Findings that could fail", tests),
            Tile("Agree", agreeing),
            Tile("Do not agree", tests - agreeing),
        ],
        lead=f"{'; '.join(papers)}.\n\nVerdicts are computed from the numbers of this run, by "
        f"thresholds that were fixed before any run, but for {' and '.join(FIXED_AFTER_A_RUN)}. "
        "Only tests are counted below: findings that could "
        "have come out otherwise. Besides them there are "
        + ", ".join(f"{total} {_KIND_WORDS[kind]}" for kind, (_, total) in kinds.items())
        + f". {data}",
    )


def _summary(made: Sequence[Reproduction]) -> Section:
    rows: list[dict[str, Cell]] = [
        {
            "figure": one.figure.name.replace("-", "\N{NON-BREAKING HYPHEN}"),
            "finding of the paper": verdict.finding,
            "kind": verdict.kind.value,
            "here": verdict.ours,
            "agrees?": _answer(verdict.agrees),
        }
        for one in made
        for verdict in one.result.verdicts
    ]
    return Section("Findings", tables=[Table(rows)])


def _section(one: Reproduction, options: str) -> Section:
    figure, result = one.figure, one.result
    rows: list[dict[str, Cell]] = [
        {
            "finding of the paper": verdict.finding,
            "kind": verdict.kind.value,
            "here": verdict.ours,
            "agrees?": _answer(verdict.agrees),
            "why": verdict.why,
            "under other settings": "; ".join(verdict.elsewhere),
        }
        for verdict in result.verdicts
    ]
    links = [Link(path.name, path.name) for path in one.files]
    return Section(
        f"{figure.name}: {figure.title}",
        text="\n\n".join(result.notes),
        tables=[Table(rows)],
        pictures=[Picture(picture, result.alternative) for picture in result.pictures.values()],
        links=links,
        command=f"nearcast reproduce {figure.name} --out DIR{options}",
    )


def _answer(agrees: bool) -> str:
    text = "\N{CHECK MARK} agrees" if agrees else "\N{BALLOT X} does not agree"
    return text.replace(" ", "\N{NO-BREAK SPACE}")
