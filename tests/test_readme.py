"""What the README shows works."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run, run  # noqa: F401

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def block_with(word: str) -> str:
    (found,) = [block for block in blocks("python") if word in block]
    return found


def test_the_planner_of_ones_own_is_a_planner() -> None:
    names: dict[str, Any] = {"__name__": "my_package"}
    exec(compile(block_with("FirstServer"), "README.md", "exec"), names)
    planner = names["FirstServer"]()
    assert planner.name == "first-server"


@pytest.mark.slow
def test_the_first_minute_runs_as_printed(run: Run, tmp_path: Path) -> None:  # noqa: F811
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    lines = [line for line in blocks("sh")[0].splitlines() if line.startswith("nearcast ")]
    assert len(lines) >= 5
    for line in lines:
        answer = run(*shlex.split(line)[1:])
        assert answer.code == 0, (line, answer.err)
        assert answer.out


def test_every_picture_and_page_that_is_linked_exists() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert target.startswith("http") or (page.parent / target).exists(), (page, target)
