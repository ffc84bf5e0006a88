"""The rules of the house that no other tool checks."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import nearcast
from shown_commands import PAGES

SOURCE = Path(nearcast.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent.name != "generated")
BANNED = {"utils", "helpers", "common", "base", "misc"}


def _name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_file_is_short_has_a_docstring_and_a_name_of_its_own(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text))
    assert path.stem not in BANNED


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_exported_names_exist_and_are_sorted(path: Path) -> None:
    tree = ast.parse(path.read_text())
    listed = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    ]
    if path.name == "__init__.py" or path.stem.endswith("_worker"):
        return
    assert len(listed) == 1
    defined = {
        name
        for node in ast.walk(tree)
        for name in (
            [node.name]
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            else [target.id for target in node.targets if isinstance(target, ast.Name)]
            if isinstance(node, ast.Assign)
            else [node.target.id]
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            else []
        )
    }
    assert set(listed[0]) <= defined


def test_the_public_names_are_exact_and_load() -> None:
    assert sorted(nearcast.__all__) == sorted(nearcast._HOME_OF)
    for name in nearcast.__all__:
        assert getattr(nearcast, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        nearcast.nonsense  # noqa: B018
    assert importlib.import_module("nearcast").__doc__


def test_no_page_is_unfinished() -> None:
    for page in PAGES:
        assert not re.search(r"\b(PLACEHOLDER|TODO|FIXME|XXX|TBD)\b", page.read_text()), page
