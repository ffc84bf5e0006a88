"""Writing a folder as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearcast.domain.columns import PLAN_TABLES, SCENARIO_TABLES
from nearcast.domain.tables import FORMATS
from nearcast.errors import OutputError

__all__ = ["PLAN_FILE", "SCENARIO_FILE", "check_output_folder", "new_folder"]

SCENARIO_FILE = "scenario.json"
PLAN_FILE = "plan.json"

_NOTES = {"run.json", "manifest.jsonl"}
"""What the pipeline says beside a plan of how it was made."""
_TABLES = {SCENARIO_FILE: SCENARIO_TABLES, PLAN_FILE: PLAN_TABLES}


def check_output_folder(folder: Path, overwrite: bool = False, kind: str | None = None) -> None:
    """Raise an error if a folder could not be written, before the long work whose result it takes.

    Parameters
    ----------
    folder
        Where the output shall go: a new path or an empty folder.
    overwrite
        Whether a scenario or a plan that is there may be replaced. A folder that holds
        anything else is never replaced.
    kind
        What may be replaced: `SCENARIO_FILE`, `PLAN_FILE` or, with None, both.

    Raises
    ------
    OutputError
        Saying what is in the way.
    """
    folder = Path(folder)
    try:
        place = folder.resolve()
        if not place.parent.is_dir():
            raise OutputError(f"{folder}: there is no folder {place.parent} to write it to")
        if not os.access(place.parent, os.W_OK | os.X_OK):
            raise OutputError(f"{folder}: no permission to write to {place.parent}")
        if not place.exists():
            return
        if not place.is_dir():
            raise OutputError(f"{folder}: is a file, not a folder")
        entries = {entry.name for entry in place.iterdir()}
    except (OSError, ValueError) as reason:
        raise OutputError(f"{folder}: {_reason(reason)}") from reason
    if entries and not overwrite:
        raise OutputError(f"{folder}: exists already and is not empty")
    if entries:
        _check_replaceable(folder, entries, [kind] if kind else list(_TABLES))


@contextmanager
def new_folder(folder: Path, *, overwrite: bool, kind: str) -> Iterator[Path]:
    """Give a folder to write to, which becomes `folder` at the end of the block, or vanishes.

    Raises
    ------
    OutputError
        When `folder` cannot be written; what was there is untouched.
    """
    check_output_folder(folder, overwrite, kind)
    place = Path(folder).resolve()
    # Beside the final place, since a rename works within one file system only.
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        yield partial
        _replace(place, partial)
    except OSError as reason:
        raise OutputError(f"{folder}: cannot be written: {_reason(reason)}") from reason
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check_replaceable(folder: Path, entries: set[str], kinds: list[str]) -> None:
    for kind in kinds:
        ours = {f"{table}.{form}" for table in _TABLES[kind] for form in FORMATS}
        ours |= {kind} | _NOTES
        if kind in entries:
            if foreign := sorted(entries - ours):
                raise OutputError(
                    f"{folder}: is not replaced, since it also holds {foreign[0]!r}; "
                    "remove that first or choose another folder"
                )
            return
    names = " or ".join(Path(kind).stem for kind in kinds)
    raise OutputError(f"{folder}: is not replaced, since it is not a {names} folder")


def _replace(place: Path, partial: Path) -> None:
    """Rename `partial` to `place`; what was there is moved away first and back on failure."""
    old = place.with_name(f".{place.name}.{os.getpid()}.old")
    if not place.exists():
        partial.rename(place)
        return
    place.rename(old)
    try:
        partial.rename(place)
    except BaseException:
        old.rename(place)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
