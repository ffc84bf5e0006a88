"""Folders that appear whole or not at all, and what they never replace."""

import os
from pathlib import Path

import pytest

from nearcast.domain.output_folder import (
    PLAN_FILE,
    SCENARIO_FILE,
    check_output_folder,
    new_folder,
)
from nearcast.errors import OutputError


def put(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("old")
    return folder


def test_a_new_path_and_an_empty_folder_are_fine(tmp_path: Path) -> None:
    for folder in (tmp_path / "new", put(tmp_path / "empty")):
        check_output_folder(folder)
        with new_folder(folder, overwrite=False, kind=PLAN_FILE) as partial:
            (partial / PLAN_FILE).write_text("new")
        assert (folder / PLAN_FILE).read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["empty", "new"]


def test_a_new_folder_has_the_usual_permissions(tmp_path: Path) -> None:
    usual = put(tmp_path / "usual")
    with new_folder(tmp_path / "new", overwrite=False, kind=PLAN_FILE):
        pass
    assert (tmp_path / "new").stat().st_mode == usual.stat().st_mode


def test_a_folder_with_content_needs_overwrite(tmp_path: Path) -> None:
    folder = put(tmp_path / "s", SCENARIO_FILE, "servers.csv")
    with pytest.raises(OutputError, match="exists already and is not empty"):
        check_output_folder(folder)
    check_output_folder(folder, overwrite=True)
    check_output_folder(folder, overwrite=True, kind=SCENARIO_FILE)


def test_overwriting_replaces_everything(tmp_path: Path) -> None:
    folder = put(tmp_path / "p", PLAN_FILE, "homes.parquet")
    with new_folder(folder, overwrite=True, kind=PLAN_FILE) as partial:
        (partial / PLAN_FILE).write_text("new")
        assert (folder / PLAN_FILE).read_text() == "old"
    assert os.listdir(folder) == [PLAN_FILE]
    assert (folder / PLAN_FILE).read_text() == "new"
    assert os.listdir(tmp_path) == ["p"]


@pytest.mark.parametrize(
    ("names", "kind", "words"),
    [
        (("thesis.tex",), None, "is not a scenario or plan folder"),
        (("thesis.tex",), SCENARIO_FILE, "is not a scenario folder"),
        ((SCENARIO_FILE,), PLAN_FILE, "is not a plan folder"),
        ((PLAN_FILE,), SCENARIO_FILE, "is not a scenario folder"),
        ((SCENARIO_FILE, "servers.csv", "thesis.tex"), None, "it also holds 'thesis.tex'"),
        ((SCENARIO_FILE, PLAN_FILE), PLAN_FILE, "it also holds 'scenario.json'"),
    ],
)
def test_what_is_not_ours_is_never_replaced(
    tmp_path: Path, names: tuple[str, ...], kind: str | None, words: str
) -> None:
    folder = put(tmp_path / "x", *names)
    with pytest.raises(OutputError, match=words):
        check_output_folder(folder, overwrite=True, kind=kind)
    assert sorted(os.listdir(folder)) == sorted(names)


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"there is no folder .*missing to write it to"):
        check_output_folder(tmp_path / "missing" / "new")


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(OutputError, match="file: is a file, not a folder"):
        check_output_folder(tmp_path / "file", overwrite=True)
    with pytest.raises(OutputError, match="there is no folder"):
        check_output_folder(tmp_path / "file" / "new")


def test_an_unwritable_parent_is_an_error_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(OutputError, match="no permission to write to"):
        check_output_folder(tmp_path / "new")


def test_a_name_that_no_file_can_have_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="File name too long"):
        check_output_folder(tmp_path / ("x" * 5000))
    with pytest.raises(OutputError, match="null"):
        check_output_folder(tmp_path / "a\0b")


def test_the_reason_of_the_system_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with (
        pytest.raises(OutputError, match="cannot be written: Permission denied"),
        new_folder(tmp_path / "new", overwrite=False, kind=PLAN_FILE),
    ):
        pass
    assert os.listdir(tmp_path) == []


def test_the_old_folder_comes_back_when_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path / "p", PLAN_FILE)
    rename = Path.rename

    def fail_for_partial(path: Path, target: Path) -> Path:
        if path.suffix == ".partial":
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_for_partial)
    with (
        pytest.raises(OutputError, match="Input/output error"),
        new_folder(folder, overwrite=True, kind=PLAN_FILE) as partial,
    ):
        (partial / PLAN_FILE).write_text("new")
    assert (folder / PLAN_FILE).read_text() == "old"
    assert os.listdir(tmp_path) == ["p"]


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    put(tmp_path / "real", PLAN_FILE)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with new_folder(tmp_path / "link", overwrite=True, kind=PLAN_FILE) as partial:
        (partial / PLAN_FILE).write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / PLAN_FILE).read_text() == "new"
