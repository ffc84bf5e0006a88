"""A run whose result is on another file system: made here, and brought there when it is whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nearcast.errors import NearcastError, OutputError
from nearcast.pipeline.hadoop_paths import HadoopPath
from nearcast.pipeline.run_folder import LOCK_FILE, RUN_FILE, open_run_folder

__all__ = ["check_remote_folder", "default_work_folder", "fetch_file", "open_remote_folder"]


def default_work_folder() -> Path:
    """Return where runs for other file systems are made if nobody says where."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "nearcast" / "runs"


def check_remote_folder(folder: HadoopPath, overwrite: bool) -> None:
    """Raise an OutputError if something is in the way of a run; nothing is changed."""
    if not folder.exists() or folder.is_empty_folder():
        return
    if not (folder / RUN_FILE).exists():
        raise OutputError(f"{folder}: exists already and is not an earlier run")
    if not overwrite:
        raise OutputError(f"{folder}: holds an earlier run; give --overwrite to replace it")


@contextmanager
def open_remote_folder(
    folder: HadoopPath, overwrite: bool, made_of: Mapping[str, Any], work: Path
) -> Iterator[Path]:
    """Give a folder of this machine to write a run into; at the end it is brought to `folder`.

    What an interrupted run has finished waits in `work` for the same command, and so does a whole
    one that could not be brought. An earlier run stays until the new one is there; in an object
    store, where renaming means copying, it is away while that takes.
    """
    check_remote_folder(folder, overwrite)
    here = work / _name(folder)
    with open_run_folder(here, True, made_of) as unfinished:
        yield unfinished
        _bring(unfinished, folder)
    shutil.rmtree(here, ignore_errors=True)


def _bring(whole: Path, folder: HadoopPath) -> None:
    arriving, before = (folder.beside(f".{uuid.uuid4().hex[:12]}") for _ in range(2))
    try:
        arriving.bring(str(whole.absolute()))
        (arriving / LOCK_FILE).delete()
        if folder.exists():
            folder.rename(before)
        arriving.rename(folder)
    except BaseException:
        # What fails here too must not hide why.
        with suppress(NearcastError):
            if before.exists() and not folder.exists():
                before.rename(folder)
            arriving.delete()
        raise
    before.delete()


def fetch_file(file: HadoopPath, work: Path) -> Path:
    """Return a copy of a small file, known again by the time at which the file was changed."""
    known = file.identity()
    here = (work / _name(file)).absolute()
    try:
        here.parent.mkdir(parents=True, exist_ok=True)
        file.fetch(str(here))
        os.utime(here, ns=(known["changed_ns"], known["changed_ns"]))
    except OSError as reason:
        raise OutputError(f"{work}: cannot be written: {reason.strerror}") from reason
    return here


def _name(path: HadoopPath) -> str:
    """Return a name for the path here: the same for the same, with its ending."""
    return f"{hashlib.sha256(path.url.rstrip('/').encode()).hexdigest()[:16]}-{path.name}"
