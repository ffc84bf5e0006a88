"""Each command that a page or a help text shows is understood, and run by some test."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import click
import pytest

from cli.conftest import Run, run  # noqa: F401
from nearcast.cli.main import nearcast
from nearcast.pipeline.raw_logs import LogShape, write_publication_log
from shown_commands import LONG, ROOT, in_help, in_pages, leaves, with_verb

HELP = in_help()
SHOWN = list(dict.fromkeys([*in_pages(), *(line for lines in HELP.values() for line in lines)]))
PLANNING = ("scenario", "plan", "evaluate", "compare", "size")
PIPELINE, SITE = ("pipeline",), ("up", "status", "apply", "client", "serve", "processors", "replan")
CEREMONY, FLOWS, KAFKA = ("site",), ("flow",), ("kafka",)
"""Run by tests/pipeline/test_page_commands.py, tests/site/test_pages.py, tests/cli/test_site.py,
tests/flow/test_flow.py, tests/site/test_kafka.py."""


def nearcast_part(line: str) -> list[str]:
    """Return the words of the nearcast command in a line, without what is before and after."""
    words = shlex.split(line)
    words = words[words.index("nearcast") :]
    return words[: words.index("|")] if "|" in words else words


@pytest.mark.parametrize("line", [one for one in (*SHOWN, *LONG) if "nearcast " in one])
def test_a_command_that_is_shown_is_understood(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "import nearcast" in line or "from nearcast" in line:
        pytest.skip("a program")
    called: list[dict[str, Any]] = []
    for _, command in leaves():
        if not isinstance(command, click.Group):
            monkeypatch.setattr(command, "callback", lambda **given: called.append(given))
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, *_: Path(value))
    nearcast.main(nearcast_part(line)[1:], standalone_mode=False)
    assert len(called) == 1


def test_no_kind_of_command_is_left_out() -> None:
    for line in SHOWN:
        assert (
            re.match(
                r"make |\. \.venv|python -c |python examples/|spark-submit |PYTHONPATH=\. nearcast up ",
                line,
            )
            or re.match(r"echo .* \| nearcast client ", line)
            or line.split()[:2] == ["nearcast", "demo"]
            or line.split()[1] in (*PLANNING, *PIPELINE, *SITE, *CEREMONY, *FLOWS, *KAFKA)
        ), line


def test_the_verbs_of_make_that_are_shown_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = "\n".join(
        [*SHOWN, (ROOT / "README.md").read_text(), (ROOT / "CONTRIBUTING.md").read_text()]
    )
    for verb in set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.M)):
        assert f"\n{verb}:" in makefile, verb


def test_the_first_round_of_the_help_is_that_of_the_readme() -> None:
    assert set(HELP[""]) <= set(in_pages())


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A folder with the files that the pages name."""
    write_inputs(tmp_path)
    return tmp_path


def write_inputs(folder: Path) -> None:
    """Write follower lists, maps and logs under the names that the pages use."""
    edges = [f"{a}\t{(a * 7 + b) % 300}" for a in range(150) for b in range(12)]
    with gzip.open(folder / "soc-Epinions1.txt.gz", "wt") as file:
        file.write("# follower followee\n" + "\n".join(edges))
    sites = [f"s{n},{48.1 + n // 3 * 0.04},{11.5 + n % 3 * 0.06}" for n in range(9)]
    (folder / "sites.csv").write_text("site_id,latitude,longitude\n" + "\n".join(sites))
    users = [f"{48.1 + n % 13 * 0.008},{11.5 + n % 11 * 0.01}" for n in range(120)]
    (folder / "users.csv").write_text("latitude,longitude\n" + "\n".join(users))
    shape = LogShape(clients=40, topics=6, members=50, messages_per_member=2, in_degrees=True)
    write_publication_log(folder / "log.jsonl", shape, seed=1)
    (folder / "flows.json").write_text('{"flows": []}')  # as of a site where none runs


@pytest.mark.slow
def test_the_planning_commands_of_pages_and_help_run_in_order(
    run: Run,  # noqa: F811
    inputs: Path,
) -> None:
    shutil.copytree(ROOT / "examples" / "tiny", "tiny")
    # tests/test_readme.py runs the first minute, tests/site/test_pages.py makes the small city
    first_minute = (ROOT / "README.md").read_text().partition("## See it all at work")[0]
    lines = with_verb(SHOWN, *PLANNING)
    others = [line for line in lines if line not in first_minute and "--clients 30 " not in line]
    assert len(others) >= 9
    for line in [with_verb(SHOWN, "scenario")[0], *others]:
        if "city-today" in line:
            shutil.copytree("city", "city-today")
        answer = run(*shlex.split(line)[1:])
        assert answer.code == 0, (line, answer.err)
