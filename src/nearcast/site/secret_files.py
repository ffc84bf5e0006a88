"""Key files of servers, made when they are needed first."""

from __future__ import annotations

from pathlib import Path

from nearcast.links.secret_file import write_secret
from nearcast.runtime.config_files import read_key_file
from nearcast.sdk.credentials import new_private_key

__all__ = ["make_key"]


def make_key(path: Path) -> bytes:
    """Return the private key of a file, which is made if it is not there.

    32 random bytes are a key of X25519 as well as the seed of one of Ed25519.
    """
    if not path.exists():
        write_secret(path, new_private_key().hex() + "\n")
    return read_key_file(path)
