"""Imports through the command line, from a file to a plan."""

from __future__ import annotations

import gzip
from pathlib import Path

from cli.conftest import Run


def test_a_gzipped_edge_list_becomes_a_plan(run: Run, tmp_path: Path) -> None:
    lines = ["# follower followee"]
    lines += [f"{a}\t{100 + (7 * a + b) % 40}" for a in range(8) for b in range(10 + a % 3)]
    with gzip.open(tmp_path / "edges.txt.gz", "wt") as file:
        file.write("\n".join(lines))
    answer = run(
        *("scenario", "import", "edges.txt.gz", "--format", "follows", "--topics", 5),
        *("--max-topics-per-client", 0, "--out", "s", "--json"),
    )
    assert answer.code == 0, answer.err
    assert answer.json["topics"] == 5
    assert answer.json["import"]["edges"] == len(lines) - 1
    assert run("plan", "s", "--method", "reloc", "--out", "p").code == 0


def test_a_map_in_degrees_becomes_a_scenario_in_kilometres(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sites.csv").write_text(
        "SITE_ID,LATITUDE,LONGITUDE,NAME\n"
        + "".join(f"{n},{-37.8 - n / 100},{144.9 + n / 100},site {n}\n" for n in range(4))
    )
    (tmp_path / "users.csv").write_text(
        "Latitude,Longitude\n"
        + "".join(f"{-37.8 - n / 1000},{144.9 + n / 1000}\n" for n in range(30))
    )
    answer = run(
        *("scenario", "import", "sites.csv", "--format", "sites", "--users", "users.csv"),
        *("--out", "s", "--json"),
    )
    assert answer.code == 0, answer.err
    assert answer.json["servers"] == 4
    assert answer.json["clients"] == 30
    # Three hundredths of a degree are 3.3 km to the south.
    assert 3.2 < answer.json["height_km"] < 3.5
    assert run("plan", "s", "--method", "nearest", "--out", "p").code == 0


def test_a_publication_log_becomes_a_scenario(run: Run, tmp_path: Path) -> None:
    rows = ["topic,client,time,x_km,y_km"]
    rows += [f"t{n % 3},c{n % 7},{n},{n % 7},{n % 5}" for n in range(42)]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    answer = run(
        *("scenario", "import", "log.csv", "--format", "publications"),
        *("--servers-per-side", 2, "--out", "s", "--json"),
    )
    assert answer.code == 0, answer.err
    assert (answer.json["topics"], answer.json["clients"], answer.json["servers"]) == (3, 7, 4)
    assert run("plan", "s", "--method", "nearest", "--out", "p").code == 0
