"""The file by which a program goes on hearing where it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nearcast.errors import ConfigError, OutputError
from nearcast.sdk import SavedCursors, load_cursors, save_cursors
from nearcast.wire.cursors import SavedCursor

CURSORS = SavedCursors(("a", "b/#"), (SavedCursor("e1", "a", 1 << 41),))


def test_cursors_come_back_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "cursors"
    assert load_cursors(path) is None
    save_cursors(SavedCursors(), path)
    save_cursors(CURSORS, path)
    assert load_cursors(path) == CURSORS
    assert [one.name for one in tmp_path.iterdir()] == ["cursors"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"cursors": [{"broker": 1}]}'])
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "cursors"
    path.write_text(content)
    with pytest.raises(ConfigError, match="not a file of cursors"):
        load_cursors(path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="missing"):
        save_cursors(CURSORS, tmp_path / "missing" / "cursors")


def test_what_takes_the_place_of_the_old_file_is_on_the_disk_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync, replace = os.fsync, Path.replace

    def note(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def check(path: Path, target: Path) -> Path:
        assert path.stat().st_ino in synced
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "replace", check)
    save_cursors(CURSORS, tmp_path / "cursors")
    assert synced[-1] == tmp_path.stat().st_ino, "and so is its new name"
