"""What the walk through the code and the glossary name exists, and what exists is named."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import nearcast

SOURCE = Path(nearcast.__file__).parent
DOCS = Path(__file__).parent.parent / "docs"
WALK = (DOCS / "walk.md").read_text()
STEPS = sorted(
    set(re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", WALK)) - {("tests/test_walk.py", "")}
)
TERMS = re.findall(r"^\| ([^|]+?) \|", (DOCS / "glossary.md").read_text(), re.M)
WORDS = frozenset(re.findall("[a-z]+", " ".join(TERMS).lower()))


@cache
def names_in(file: str) -> frozenset[str]:
    """Return classes, functions and methods of a file, methods after their class and a dot."""
    tree = ast.parse((SOURCE / file).read_text())
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
            found.update(
                f"{node.name}.{one.name}"
                for one in node.body
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            )
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
    return frozenset(found)


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall("[A-Z][a-z]+", name)]


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_each_step_of_the_walk_exists(file: str, name: str) -> None:
    assert (SOURCE / file).is_file()
    assert not name or name in names_in(file)


def test_the_walk_passes_through_all_parts_of_a_server() -> None:
    assert len(STEPS) > 80
    visited = {file for file, _ in STEPS}
    parts = re.findall(
        r"from nearcast\.(server\.\w+) import", (SOURCE / "server/server.py").read_text()
    )
    described = {"server.effects", "server.outputs", "server.server_settings", "server.site_orders"}
    described |= {"server.home_clients"}
    assert {part for part in parts if part.replace(".", "/") + ".py" not in visited} <= described


@pytest.mark.parametrize("folder", ["server", "broker"])
def test_the_glossary_has_a_word_of_each_public_class(folder: str) -> None:
    classes = {
        name
        for path in (SOURCE / folder).glob("*.py")
        for name in names_in(f"{folder}/{path.name}")
        if "." not in name and name[0].isupper()
    }
    assert classes
    missing = [
        name
        for name in sorted(classes)
        if not any({word, word.removesuffix("s"), f"{word}s"} & WORDS for word in words_of(name))
    ]
    assert not missing


def test_no_word_of_the_glossary_stands_twice() -> None:
    terms = [term for term in TERMS if term != "word"]
    assert len(terms) == len(set(terms))
