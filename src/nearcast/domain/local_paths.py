"""Paths as users of clusters write them: ``file:`` is this machine's, others have a scheme."""

from __future__ import annotations

import re
from pathlib import Path

from nearcast.errors import ConfigError

__all__ = ["local_path", "scheme_of"]

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/+")
"""Of two letters at least. Paths have lost the second stroke of ``s3a://``."""


def scheme_of(path: str | Path) -> str | None:
    """Return the scheme of another file system, such as ``hdfs``; None: of this machine's."""
    match = _SCHEME.match(str(path))
    return None if match is None or match[1].lower() == "file" else match[1].lower()


def local_path(path: str | Path) -> Path:
    """Return the path that ``file:///folder`` means, and one without a scheme as it is.

    Raises
    ------
    ConfigError
        For ``hdfs://``, ``s3a://`` and the like: a folder of that name would be made here.
    """
    text = str(path)
    match = _SCHEME.match(text)
    if match is None:
        return Path(path)
    if match[1].lower() != "file":
        raise ConfigError(
            f"{text}: only the logs, sites and output of `nearcast pipeline run` may be on "
            f"{match[1]}; here give a path of a mounted file system"
        )
    return Path("/", text[match.end() :])
