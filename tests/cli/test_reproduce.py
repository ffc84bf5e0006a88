"""``nearcast reproduce``: its list, its refusals, and figures that need no sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Run


def test_the_list_names_every_figure(run: Run) -> None:
    said = run("reproduce", "--list")
    assert said.code == 0
    lines = said.out.splitlines()
    assert len(lines) == 18
    assert lines[0].split() == ["2020-2", "Average", "delivery", "delay", "Y"]
    assert [one["figure"] for one in run("reproduce", "--list", "--json").json["figures"]] == [
        line.split()[0] for line in lines
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a FIGURE"),
        (("2021-14",), "needs --out DIR"),
        (("2021-8", "--out", "x"), "no figure '2021-8'"),
        (("2021-14", "--out", "x", "--follows", "none.txt"), "none.txt"),
        (("2021-14", "--out", "x", "--seeds", "0"), "seeds"),
    ],
)
def test_what_cannot_be_done_is_said_before_any_work(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    said = run("reproduce", *arguments)
    assert said.code == 2
    assert message in said.err
    assert not Path("x").exists()


def test_a_folder_with_other_files_is_refused(run: Run) -> None:
    Path("x").mkdir()
    Path("x/letter.txt").write_text("dear")
    said = run("reproduce", "2021-13", "--out", "x")
    assert said.code == 2
    assert "holds no earlier result of reproduce" in said.err
    assert [path.name for path in Path("x").iterdir()] == ["letter.txt"]


def test_figures_without_a_sweep_need_no_spark_and_an_earlier_result_is_continued(
    run: Run,
) -> None:
    said = run("reproduce", "2021-13", "--out", "x", "--json").json
    (figure,) = said["figures"]
    assert figure["figure"] == "2021-13"
    assert len(figure["verdicts"]) == 2
    # Numbers of the setting are no tests.
    assert said["agree"] + said["disagree"] == 0
    assert sum(said["kinds"]["input"].values()) == 2
    assert set(figure["verdicts"][0]) == {
        *("finding", "ours", "agrees", "kind", "why", "elsewhere"),
    }
    again = run("reproduce", "2021-9", "--out", "x")
    assert again.code == 0
    assert (
        "0 of 0 findings that could fail agree (not counted: 2 input, 0 by construction"
        in again.out
    )
    names = {path.name for path in Path("x").iterdir()}
    assert names == {
        *("2021-13.csv", "2021-13.png", "2021-9.csv", "2021-9.png"),
        *("index.html", "reproduce.json"),
    }
    known = json.loads(Path("x/reproduce.json").read_text())
    assert [one["figure"] for one in known["figures"]] == ["2021-9"]


def test_figures_without_a_sweep_tell_their_verdicts_without_a_folder(run: Run) -> None:
    said = run("reproduce", "lasr-fig6", "--small", "--json").json
    (figure,) = said["figures"]
    assert said["page"] is None
    assert figure["csv"] is None
    assert len(figure["verdicts"]) == 3
    assert figure["numbers"]["lasr_trials_x1"] == 1
    assert figure["numbers"]["lasr_lost_x1"] == 0
    assert list(Path().iterdir()) == []
    plain = run("reproduce", "lasr-fig6", "--small")
    assert "of 1 findings that could fail agree" in plain.out


def test_topics_may_come_from_a_follower_graph(run: Run) -> None:
    edges = [
        f"{100 + topic} {1000 * topic + member}" for topic in range(1, 70) for member in range(12)
    ]
    Path("graph.txt").write_text("\n".join(edges))
    said = run("reproduce", "2021-13", "--out", "x", "--follows", "graph.txt", "--json").json
    sizes = said["figures"][0]["verdicts"][1]["ours"]
    assert sizes == "13; from 13, 13.0 on average"
