"""Every program in README and docs runs as it stands there, and prints what it says."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from nearcast.sdk import save_credentials
from sdk.conftest import edge  # noqa: F401
from sdk.edge import Edge
from shown_commands import PAGES

BLOCKS = {
    f"{page.name} {number}": block
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
}
SAID = {
    "README.md 1": r"reloc: \d+\.\d+ ms, .*\noptimised: \d+\.\d+ ms, .*\n",
    "sdk.md 0": r"car 12\non the way for \d+\.\d+ ms\n",
    "sdk.md 1": r"heard: ice on the bridge\nround trip in ms: \d+\.\d+\n",
}
"""What programs print that do not say it themselves, in a comment behind the `print`."""


@pytest.fixture
def files(edge: Edge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """A folder with credentials under the names of the pages; the server of all runs."""
    of_a_city = tmp_path / "city" / "site" / "clients"
    of_a_city.mkdir(parents=True)
    for name, folder in (("car", tmp_path), ("sign", tmp_path), ("1", of_a_city)):
        save_credentials(edge.enrol(name), folder / f"{name}.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(one, marks=pytest.mark.slow if "make_plan" in BLOCKS[one] else ())
        for one in BLOCKS
    ],
)
def test_a_program_of_a_page_runs(
    block: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = BLOCKS[block]
    names: dict[str, Any] = {"__name__": "__main__"}
    code = compile(source, block, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    waits = eval(code, names)
    if inspect.iscoroutine(waits):
        asyncio.run(waits)
    said = capsys.readouterr().out
    shown = re.findall(r"^ *print\(.*\)  # (.+)$", source, re.M)
    if shown:
        assert said.splitlines() == shown
    assert re.fullmatch(SAID.get(block, ".*"), said, re.DOTALL)


def test_no_page_has_lost_its_programs() -> None:
    assert len(BLOCKS) >= 11
    assert SAID.keys() <= BLOCKS.keys()
