"""Files that only their owner may read: keys and tokens."""

from __future__ import annotations

import os
from pathlib import Path

from nearcast.runtime.config_files import read_key_file
from nearcast.sdk.credentials import new_private_key

__all__ = ["make_key", "write_secret"]


def make_key(path: Path) -> bytes:
    """Return the private key of a file, which is made if it is not there."""
    if not path.exists():
        write_secret(path, new_private_key().hex())
    return read_key_file(path)


def write_secret(path: Path, text: str) -> None:
    """Write one line."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text + "\n")
