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
from shown_commands import PAGES, ROOT, in_help, in_pages, in_sentences, leaves, with_verb

HELP = in_help()
SHOWN = list(dict.fromkeys([*in_pages(), *(line for lines in HELP.values() for line in lines)]))
PLANNING = ("scenario", "plan", "evaluate", "compare", "size")
PIPELINE, SITE = ("pipeline",), ("up", "status", "apply", "client", "serve", "processors", "replan")
CEREMONY, FLOWS, KAFKA, DEMO = ("site",), ("flow",), ("kafka",), ("demo",)
"""Run by tests/pipeline/test_page_commands.py, tests/site/test_pages.py, tests/cli/test_site.py,
tests/flow/test_flow.py, tests/site/test_kafka.py; `demo vehicles` below and `demo` itself, smaller,
by tests/cli/test_demo.py."""
VERBS = {path: command for path, command in leaves() if path}
SAID = in_sentences()
NAMED = [one for one in SAID if one.removeprefix("nearcast ") in VERBS]
SHORTENED = [one for one in SAID if "..." in one]
WHOLE = [one for one in SAID if one not in (*NAMED, *SHORTENED)]
"""In sentences: the name of a command only; some of its options, with dots for what is left out;
all that has to be typed. Measurements of minutes among the last are run small by the tests of each.
"""


def nearcast_part(line: str) -> list[str]:
    """Return the words of the nearcast command in a line, without what is before and after."""
    words = shlex.split(line)
    words = words[words.index("nearcast") :]
    return words[: words.index("|")] if "|" in words else words


@pytest.mark.parametrize(
    "line", [one for one in dict.fromkeys((*SHOWN, *WHOLE)) if "nearcast " in one]
)
def test_a_command_that_is_shown_is_understood(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "import nearcast" in line or "from nearcast" in line:
        pytest.skip("a program")
    called: list[dict[str, Any]] = []
    for _, command in leaves():
        if not isinstance(command, click.Group):
            monkeypatch.setattr(command, "callback", lambda **given: called.append(given))
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, *_: Path(value))
    nearcast.main(nearcast_part(line)[1:], standalone_mode=False)
    assert len(called) == 1 or line == "nearcast --help"


@pytest.mark.parametrize("line", SHORTENED)
def test_a_command_that_is_shortened_has_the_verb_and_the_options(line: str) -> None:
    words = shlex.split(line)[1:]
    verb = " ".join(words[:2]) if " ".join(words[:2]) in VERBS else words[0]
    options = {name for one in VERBS[verb].params for name in one.opts}
    assert {word for word in words if word.startswith("-")} <= options


def test_no_kind_of_command_is_left_out() -> None:
    for line in SHOWN:
        assert (
            re.match(
                r"make |\. \.venv|python -c |python examples/|spark-submit |PYTHONPATH=\. nearcast up ",
                line,
            )
            or re.match(r"echo .* \| nearcast client ", line)
            or line.split()[1] in (*PLANNING, *PIPELINE, *SITE, *CEREMONY, *FLOWS, *KAFKA, *DEMO)
        ), line


def test_the_verbs_of_make_that_are_shown_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = "\n".join([*SHOWN, *(page.read_text() for page in PAGES)])
    for verb in set(re.findall(r"(?:^|`)make ([a-z0-9-]+)", text, re.M)):
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


@pytest.mark.slow
def test_the_vehicles_of_the_page_drive_for_half_a_minute(run: Run) -> None:  # noqa: F811
    (line,) = (one for one in SHOWN if one.startswith("nearcast demo vehicles"))
    smaller = line.replace("--vehicles 300", "--vehicles 60").replace(
        "--minutes 2", "--minutes 0.5"
    )
    assert ("--vehicles 60" in smaller, "--minutes 0.5" in smaller) == (True, True)
    answer = run(*shlex.split(smaller)[1:], "--json")
    assert answer.code == 0, answer.err
    assert answer.json["driven_by"] == "a made-up grid"
    assert answer.json["edges"] == 9
    assert answer.json["lost"] == answer.json["missed"] == answer.json["false"] == 0
    assert Path("vehicles-output", "report.html").exists()
