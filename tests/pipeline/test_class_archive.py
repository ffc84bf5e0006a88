from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast.errors import PipelineError
from nearcast.pipeline import class_archive
from nearcast.pipeline.class_archive import archive_file, use_archive
from nearcast.pipeline.java import java_home, java_program
from nearcast.pipeline.make_archive import make_archive


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment of its own, with a blank in its path."""
    home = java_home()
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home)
    folder = tmp_path / "an environment"
    monkeypatch.setattr(sys, "prefix", str(folder))
    return folder


def run_java(options: str) -> str:
    java = java_program()
    assert java is not None
    command = [java, *shlex.split(options), "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    return said.stdout + said.stderr


def test_an_archive_is_made_once_and_then_used(environment: Path) -> None:
    assert use_archive() is None
    old = environment / "share" / "nearcast" / "classes-old.jsa"
    old.parent.mkdir(parents=True)
    old.write_text("of another Java")
    file = make_archive(run_java)
    assert [found.name for found in old.parent.iterdir()] == [file.name]
    options = use_archive()
    assert options is not None
    # Java insists on the archive here, and would end with an error if it did not fit.
    assert "sharing" in run_java(options.replace("-Xshare:auto", "-Xshare:on"))


def test_an_archive_of_another_java_is_not_there(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = archive_file()
    monkeypatch.setattr(class_archive, "java_says", lambda _java: 'openjdk version "99"')
    assert archive_file() != ours


def test_java_passes_over_a_broken_archive_without_a_word(environment: Path) -> None:
    file = archive_file()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"half written")
    options = use_archive()
    assert options is not None
    assert "warning" not in run_java(options).lower()


def test_a_run_that_leaves_no_archive_is_an_error(environment: Path) -> None:
    with pytest.raises(PipelineError, match="no archive was made: No such file"):
        make_archive(lambda _options: None)
    assert use_archive() is None
