"""Which interpreter a new .venv is made of."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain, repeat
from pathlib import Path

import pytest

import quickest_python
from quickest_python import quickest


@pytest.mark.parametrize(
    ("seconds", "taken"),
    [
        ({"own": 1.0, "other": 0.85}, "other"),
        ({"own": 1.0, "other": 0.96}, "own"),  # not worth it
        ({"own": 1.0, "other": 1.2, "third": 0.8}, "third"),
        ({"own": 1.0, "other": None}, "own"),  # another version, or it cannot make a venv
        ({"own": None, "other": 1.0}, "other"),
        ({"own": None, "other": None}, "own"),
        ({"own": 1.0}, "own"),
    ],
)
def test_another_python_is_taken_when_it_is_much_quicker(
    seconds: dict[str, float | None], taken: str
) -> None:
    assert quickest("own", [one for one in seconds if one != "own"], seconds.get) == taken


def test_one_disturbed_trial_decides_nothing() -> None:
    trials = {"own": chain((5.0,), repeat(1.0)), "other": repeat(1.0)}
    assert quickest("own", ["other"], lambda python: next(trials[python])) == "own"


def test_only_interpreters_of_this_version_that_make_a_venv_are_tried(tmp_path: Path) -> None:
    own = quickest_python.seconds(sys.executable)
    assert own is not None
    assert own > 0.0
    for said in ("echo 2 7 0.001", "echo nothing", "exit 1"):
        other = tmp_path / "python3"
        other.write_text(f"#!/bin/sh\n{said}\n")
        other.chmod(0o755)
        assert quickest_python.seconds(str(other)) is None
    assert quickest_python.seconds(str(tmp_path / "missing")) is None


def test_what_is_named_runs() -> None:
    script = quickest_python.__file__
    named = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    version = subprocess.run(
        [named.stdout.strip(), "-c", "import sys; print(sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.strip() == str(sys.version_info[:2])
