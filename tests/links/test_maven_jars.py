"""Jars that are missing are one sentence, and nothing is left half fetched."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from nearcast.errors import ConfigError
from nearcast.links.maven_jars import BROKER, CONNECTOR, HDFS, S3A, JarSet, fetch, find_jars


def test_jars_that_were_not_fetched_are_named_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make kafka-jars"):
        find_jars(BROKER, tmp_path)


def test_hdfs_and_s3a_are_of_the_version_that_pyspark_brings() -> None:
    found = find_spec("pyspark")
    assert found is not None
    (client,) = Path(found.origin or "").with_name("jars").glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    assert [wanted.jars[0].version for wanted in (HDFS, S3A)] == [version, version]


def test_what_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "a.jar").touch()
    fetch(BROKER, tmp_path)
    assert [path.name for path in find_jars(BROKER, tmp_path)] == ["a.jar"]


def test_a_maven_that_fails_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho no such artifact >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    with pytest.raises(ConfigError, match="no such artifact"):
        fetch(CONNECTOR, tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="mvn"):
        fetch(JarSet("other", ()), tmp_path / "jars")
