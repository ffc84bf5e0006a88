"""Every figure has its cells, its table, its picture and its verdicts; summaries are right."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import scipy.stats

from experiments.figure_rows import curves_of, made_up_row
from nearcast.errors import ConfigError, OutputError
from nearcast.experiments.figures.catalogue import FIGURES, find_figures
from nearcast.experiments.figures.figure import FULL, SMALL
from nearcast.experiments.figures.page import write_page
from nearcast.experiments.figures.reproduction import (
    cells_of,
    draw_figures,
    prepare_folder,
)
from nearcast.experiments.figures.summary import Point, interval_of, pooled_interval, summarise
from nearcast.pipeline.sweep.cell import check_cell


def test_the_figures_are_those_of_the_papers() -> None:
    assert list(FIGURES) == [
        *("2020-2", "2020-3a", "2020-3b", "2020-3c"),
        *(f"2021-{number}" for number in range(9, 17)),
        *("2022-3a", "2022-3b", "2022-3c", "2022-3d"),
        *("lasr-fig6", "lasr-fig7"),
    ]
    assert find_figures("all") == list(FIGURES.values())
    assert [figure.name for figure in find_figures("2022")] == list(FIGURES)[-6:-2]
    assert [figure.name for figure in find_figures("lasr")] == list(FIGURES)[-2:]
    assert find_figures("2021-14") == [FIGURES["2021-14"]]
    with pytest.raises(ConfigError, match=r"no figure '2021-8'; there are: all, 2020-2"):
        find_figures("2021-8")


def test_cells_cover_every_point_method_and_seed_once() -> None:
    count = {name: len(figure.cells(FULL)) for name, figure in FIGURES.items()}
    assert count["2020-2"] == count["2020-3c"] == (5 * 6 + 2) * 10
    assert count["2021-14"] == 5 * 7 * 20
    assert count["2021-15"] == 7 * 8 * 20
    assert count["2021-16"] == (2 * 9 * 5 + 5) * 20
    assert (count["2022-3a"], count["2022-3b"], count["2022-3d"]) == (0, 20, 30)
    for name in ("2021-9", "2021-10", "2021-11", "2021-12", "2021-13", "lasr-fig6", "lasr-fig7"):
        assert count[name] == 0
    # Shared: figure 15 at p = 2 with 14, figure 16 at K = 4 and its optimised plans with 14.
    of_2021 = count["2021-14"] + count["2021-15"] + count["2021-16"] - (7 + 10 + 5) * 20
    assert len(cells_of(list(FIGURES.values()), FULL)) == 320 + of_2021 + 40
    one_seed = cells_of(list(FIGURES.values()), FULL.with_seeds(1))
    assert len(one_seed) == 32 + of_2021 // 20 + 4


def test_one_kind_of_relations_is_drawn_within_a_figure() -> None:
    for name, figure in FIGURES.items():
        kinds = {cell.relation_kind for cell in figure.cells(FULL) if cell.method == "relation"}
        assert len(kinds) <= 1, name


def test_all_cells_can_run(tmp_path: Path) -> None:
    graph = tmp_path / "graph.txt"
    graph.write_text("1 2\n")
    for effort in (SMALL, replace(FULL.with_seeds(1), follows=str(graph))):
        for cell in cells_of(list(FIGURES.values()), effort):
            check_cell(cell)


def test_a_follower_graph_replaces_the_generators_of_2020_and_2021() -> None:
    effort = replace(SMALL, follows="/graph.txt")
    sources = {name: {cell.source for cell in FIGURES[name].cells(effort)} for name in FIGURES}
    assert sources["2020-2"] == sources["2021-14"] == sources["2021-16"] == {"follows"}
    assert sources["2022-3b"] == {"placement2022"}


def test_an_interval_is_students() -> None:
    values = np.random.default_rng(1).normal(5, 2, 12)
    low, high = scipy.stats.t.interval(0.95, 11, loc=values.mean(), scale=scipy.stats.sem(values))
    found = interval_of(values)
    assert (found.mean, found.low, found.high) == pytest.approx((values.mean(), low, high))
    two = interval_of([1.0, 3.0])
    assert two.mean == 2
    assert np.isnan([two.low, two.high]).all()


def test_pooling_groups_is_the_interval_over_all_values() -> None:
    rng = np.random.default_rng(2)
    groups = [rng.normal(mean, 1.5, size) for mean, size in ((1, 5), (4, 30), (2, 11))]
    whole = interval_of(np.concatenate(groups))
    found = pooled_interval(
        [group.mean() for group in groups],
        [group.std(ddof=1) for group in groups],
        [len(group) for group in groups],
    )
    assert (found.mean, found.low, found.high) == pytest.approx((whole.mean, whole.low, whole.high))


def test_points_are_summed_up_over_seeds_and_servers() -> None:
    cells = tuple(FIGURES["2021-14"].cells(SMALL.with_seeds(3))[:3])
    rows = {cell: made_up_row(cell) for cell in cells}
    curves = summarise([Point(1.0, "random", cells)], rows)
    everything = np.concatenate([row["storage_used"] for row in rows.values()])
    assert curves.mean("random", 1.0, "storage_used") == pytest.approx(everything.mean())
    assert curves.mean("random", 1.0, "Y") == pytest.approx(
        np.mean([row["Y"] for row in rows.values()])
    )
    (row,) = curves.csv_rows("sigma_km", "method")
    assert (row["sigma_km"], row["method"]) == (1.0, "random")
    assert row["Y_low"] == curves.interval("random", 1.0, "Y").low
    assert not curves.has("random", "Y3")


def test_curves_know_their_lines_and_points() -> None:
    curves = curves_of({"a": {5.0: {"Y": 2.0}, 1.0: {"Y": 3.0}}, "b": {1.0: {"Y": 4.0}}})
    assert curves.lines == ["a", "b"]
    assert curves.xs("a") == [1.0, 5.0]
    assert curves.means("a", "Y") == [3.0, 2.0]


@pytest.mark.parametrize("name", list(FIGURES))
def test_a_figure_leaves_its_table_and_a_picture(name: str, tmp_path: Path) -> None:
    figure = FIGURES[name]
    rows = {cell: made_up_row(cell) for cell in figure.cells(SMALL)}
    (made,) = draw_figures([figure], SMALL, rows, tmp_path)
    assert made.table == tmp_path / f"{name}.csv"
    with made.table.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(made.result.rows) > 0
    for written, row in zip(table, made.result.rows, strict=True):
        assert {key: text for key, text in written.items() if text} == {
            key: str(value) for key, value in row.items() if value is not None
        }
    assert made.result.verdicts
    assert made.pictures == (tmp_path / f"{name}.png",)
    pixels = matplotlib.image.imread(io.BytesIO(made.pictures[0].read_bytes()))
    assert 0.02 < np.mean(pixels[..., :3].min(axis=-1) < 0.9) < 0.9
    page = tmp_path / "index.html"
    write_page(page, [made], data="Data.", options=" --small")
    text = page.read_text()
    assert f"nearcast reproduce {name} --out DIR --small" in text
    assert f'href="./{name}.csv"' in text


def test_a_folder_of_something_else_is_refused_and_an_earlier_result_taken(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    prepare_folder(mine)
    (mine / "sweep").mkdir()
    prepare_folder(mine)
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match="holds no earlier result"):
        prepare_folder(other)
    with pytest.raises(OutputError, match="cannot be used"):
        prepare_folder(other / "letter.txt")
