"""Sending nearcast's own code to the workers of a cluster, as ``--py-files`` does."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import nearcast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pack_package", "ship_package"]


def ship_package(spark: SparkSession) -> None:
    """Send this nearcast to all workers; they need only the libraries it uses.

    A job that was submitted with ``--py-files`` or an environment of its own keeps that.
    """
    if spark.conf.get("spark.submit.pyFiles", "") or spark.conf.get("spark.archives", ""):
        return
    archive = Path(tempfile.mkdtemp(prefix="nearcast-ship-"), "nearcast.zip")
    pack_package(archive)
    spark.sparkContext.addPyFile(str(archive))


def pack_package(archive: Path) -> None:
    """Write the installed package's sources as a zip that Python can import from."""
    root = Path(nearcast.__file__).parent
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as pack:
        for file in sorted(root.rglob("*.py")):
            pack.write(file, Path("nearcast", file.relative_to(root)))
