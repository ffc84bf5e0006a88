"""The folder of a run: an earlier one is replaced only by a run that is whole.

A run is written beside its folder, into ``OUT.unfinished``, and takes its place at the end. What
an interrupted run has finished waits there for the same command.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nearcast.domain.json_files import plain_json, write_json
from nearcast.domain.local_paths import local_path
from nearcast.errors import OutputError
from nearcast.pipeline.hadoop_paths import HadoopPath
from nearcast.pipeline.manifest import MANIFEST_FILE

__all__ = [
    "LOCK_FILE",
    "RUN_FILE",
    "check_run_folder",
    "file_identity",
    "open_run_folder",
    "run_content",
]

RUN_FILE = "run.json"
LOCK_FILE = ".lock"


def check_run_folder(folder: Path, overwrite: bool) -> None:
    """Raise an OutputError if something is in the way of a run; nothing is changed."""
    folder = local_path(folder)
    try:
        if os.path.ismount(folder):
            raise OutputError(f"{folder}: is a mount point; give a folder inside of it")
        _check_parent(folder)
        _check_is_ours(_unfinished(folder))
        if not _check_is_ours(folder):
            return
    except OSError as reason:
        raise OutputError(f"{folder}: {reason.strerror}") from reason
    if not overwrite:
        raise OutputError(f"{folder}: holds an earlier run; give --overwrite to replace it")


@contextmanager
def open_run_folder(
    folder: Path, overwrite: bool, made_of: Mapping[str, Any] | None = None
) -> Iterator[Path]:
    """Give the folder to write a run into; at the end it becomes `folder`.

    After an error the folder stays if a stage was finished in it, and is given again, as it is,
    to a run that is made of the same.

    Parameters
    ----------
    folder : where the run shall be.
    overwrite : whether to replace an earlier run there.
    made_of : the inputs and settings of the run; None: it cannot be gone on with.

    Raises
    ------
    OutputError
        When something is in the way, the folder cannot be written, or another run writes it.
    """
    check_run_folder(folder, overwrite)
    folder = local_path(folder)
    unfinished = _unfinished(folder)
    content = plain_json(made_of or {"run": uuid.uuid4().hex})
    with _locked(unfinished, folder):
        with _clear_errors(folder):
            if not _is_made_of(unfinished / RUN_FILE, content):
                _empty(unfinished)
                write_json(unfinished / RUN_FILE, content)
        try:
            yield unfinished
        except BaseException:
            if made_of is None or not (unfinished / MANIFEST_FILE).exists():
                shutil.rmtree(unfinished, ignore_errors=True)
            raise
        with _clear_errors(folder):
            (unfinished / LOCK_FILE).unlink()
            _replace(folder, unfinished)


def file_identity(file: Path | HadoopPath) -> dict[str, Any]:
    """Return by what a file is known again."""
    if isinstance(file, HadoopPath):
        return file.identity()
    found = file.stat()
    return {"file": str(file.absolute()), "bytes": found.st_size, "changed_ns": found.st_mtime_ns}


def run_content(inputs: Iterable[Path | HadoopPath], settings: object) -> dict[str, Any]:
    """Return what ``run.json`` says a run was made of: files, settings and this program."""
    return {
        "nearcast": version("nearcast"),
        "inputs": [file_identity(file) for file in inputs],
        "settings": plain_json(settings),
    }


def _unfinished(folder: Path) -> Path:
    whole = folder.absolute()
    return whole.with_name(f"{whole.name}.unfinished")


def _check_parent(folder: Path) -> None:
    """Refuse what would fail only at the end of a long run."""
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"{folder}: cannot be written: {parent} is no folder to write into")


def _check_is_ours(folder: Path) -> bool:
    """Return whether a run is there; raise an error when it is something else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not (folder / RUN_FILE).is_file() and not (folder / LOCK_FILE).is_file():
        raise OutputError(f"{folder}: exists already and is not an earlier run")
    return True


@contextmanager
def _locked(unfinished: Path, folder: Path) -> Iterator[None]:
    with _clear_errors(folder):
        unfinished.mkdir(parents=True, exist_ok=True)
        lock = (unfinished / LOCK_FILE).open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{folder}: another run is writing it") from None
        yield


@contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as reason:
        raise OutputError(f"{folder}: cannot be written: {reason.strerror}") from reason


def _is_made_of(file: Path, content: Mapping[str, Any]) -> bool:
    """Return whether a run is made of the same; a whole one says more of itself."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and content.items() <= found.items()


def _empty(unfinished: Path) -> None:
    for entry in unfinished.iterdir():
        if entry.name == LOCK_FILE:
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _replace(folder: Path, whole: Path) -> None:
    """Put a whole run where the earlier one is; at any moment one of the two is in one piece."""
    before = whole.with_name(f"{folder.absolute().name}.{uuid.uuid4().hex[:12]}")
    if folder.exists():
        folder.rename(before)
    try:
        whole.rename(folder)
    except OSError:
        if before.exists():
            before.rename(folder)
        raise
    shutil.rmtree(before, ignore_errors=True)
