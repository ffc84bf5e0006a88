"""Files that only their owner may read, written as a whole: keys, tokens, credentials."""

from __future__ import annotations

import os
from pathlib import Path

from nearcast.errors import OutputError

__all__ = ["write_secret"]


def write_secret(path: Path, content: bytes | str, *, sync: bool = True) -> None:
    """Replace a file; a reader sees the old or the new one, with `sync` also after a power cut.

    Raises
    ------
    OutputError
        When it cannot be written; then the old one is there.
    """
    data = content.encode() if isinstance(content, str) else content
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # a draft that is there already may be a link, or of somebody who reads it
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(data)
            out.flush()
            if sync:
                os.fsync(out.fileno())
        draft.replace(path)
        if sync:
            _sync_folder(path.parent)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
