"""docs/overlay.md names the tests of each property, and each has some."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

_TESTS = Path(__file__).parents[1]
_PAGE = _TESTS.parent / "docs" / "overlay.md"
_MARK = "pytest.mark.overlay_property"


def _marked() -> dict[int, set[str]]:
    """Return the tests by the property that they are marked with."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for path in _TESTS.rglob("test_*.py"):
        text = path.read_text()
        if _MARK not in text:
            continue
        for node in ast.parse(text).body:
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == _MARK:
                    assert isinstance(node, ast.FunctionDef)
                    found[ast.literal_eval(mark.args[0])].add(node.name)
    return found


def test_the_page_names_the_tests_of_all_fifteen_properties() -> None:
    rows = re.findall(r"^\| (\d+) \| .* \| (`test_.*`) \|$", _PAGE.read_text(), re.MULTILINE)
    told = {int(number): set(re.findall(r"`(\w+)`", tests)) for number, tests in rows}
    assert sorted(told) == list(range(1, 16))
    assert told == _marked()
