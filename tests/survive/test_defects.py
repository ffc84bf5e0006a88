"""docs/defects.md names a seeded bug and a test for each defect, and all of them are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from nearcast.experiments.survive.defect_mutants import defect_mutants
from nearcast.experiments.survive.mutants import MUTANTS

_ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| (\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def _rows() -> dict[int, tuple[list[str], list[str]]]:
    """Return seeded bugs and tests by defect."""
    page = (_ROOT / "docs" / "defects.md").read_text()
    return {
        int(number): (re.findall("`([^`]+)`", bugs), re.findall("`([^`]+)`", tests))
        for number, bugs, tests in _ROW.findall(page)
    }


def _tests(path: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text()).body
    return {one.name for one in body if isinstance(one, functions)}


def test_each_of_the_sixteen_has_a_seeded_bug_and_a_test() -> None:
    rows = _rows()
    assert list(rows) == list(range(1, 17))
    assert all(bugs and tests for bugs, tests in rows.values())


def test_all_seeded_bugs_that_bring_a_defect_back_are_named() -> None:
    named = {bug for bugs, _ in _rows().values() for bug in bugs}
    assert named <= MUTANTS.keys()
    assert {one.name for one in defect_mutants()} <= named


def test_all_tests_that_are_named_are_there() -> None:
    for number, (_, tests) in _rows().items():
        for test in tests:
            path, name = test.split("::")
            assert name in _tests(_ROOT / path), f"defect {number}: {test}"
