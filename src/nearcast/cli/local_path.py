"""The type of options and arguments that are paths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearcast.domain.local_paths import local_path, scheme_of

if TYPE_CHECKING:
    from nearcast.pipeline.hadoop_paths import HadoopPath

__all__ = ["AnyPath", "LocalPath"]


class LocalPath(click.ParamType[Path]):
    """A path of this machine, also as ``file:///...``; other file systems are refused."""

    name = "path"

    def convert(
        self, value: Any, _parameter: click.Parameter | None, _context: click.Context | None
    ) -> Path:
        """Return the path."""
        return local_path(value)


class AnyPath(click.ParamType["Path | HadoopPath"]):
    """A path of this machine, or of a file system that Hadoop knows: ``hdfs://``, ``s3a://`` ..."""

    name = "path"

    def convert(
        self, value: Any, _parameter: click.Parameter | None, _context: click.Context | None
    ) -> Path | HadoopPath:
        """Return the path."""
        if scheme_of(value) is None:
            return local_path(value)
        from nearcast.pipeline.hadoop_paths import HadoopPath

        return HadoopPath(str(value))
