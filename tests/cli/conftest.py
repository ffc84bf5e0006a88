"""A way to run the command line in this process, as a user would."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nearcast.cli.main import main


@dataclass
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


Run = Callable[..., Answer]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs ``nearcast ARGS`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger("nearcast")
    for name in ("handlers", "level", "propagate"):  # servers set them; they are restored
        monkeypatch.setattr(logger, name, getattr(logger, name))

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["nearcast", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return call
