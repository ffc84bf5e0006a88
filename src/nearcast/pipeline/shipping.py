"""Sending nearcast's own code to the workers of a cluster."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import nearcast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pack_metadata", "pack_package", "ship_package"]

_FAST_COMPRESSION = 1
_COMPILED = {".nbi", ".nbc"}
"""What numba leaves in ``__pycache__``."""


def ship_package(spark: SparkSession) -> None:
    """Send this nearcast to all workers; they need only the libraries it uses.

    It comes before one that their environment has: driver and workers are of one version. The
    package is unpacked on the workers, not imported from a zip: numba keeps compiled kernels
    beside the sources, and those of the driver travel along, so that workers with the same kind
    of processor compile nothing.
    """
    if not Path(nearcast.__file__).is_file():
        return  # it is in a zip of --py-files, which the workers have, too
    # The driver hands the files out for as long as it lives: new workers may join at any time.
    folder = tempfile.mkdtemp(prefix="nearcast-ship-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package, metadata = Path(folder, "nearcast.zip"), Path(folder, "metadata.zip")
    pack_package(package)
    pack_metadata(metadata)
    # Spark unpacks an archive under the name after the hash, in a folder on Python's path.
    name = f"nearcast-{distribution('nearcast').version}.dist-info"
    spark.sparkContext.addArchive(f"{package}#nearcast")
    spark.sparkContext.addArchive(f"{metadata}#{name}")


def pack_package(archive: Path) -> None:
    """Write the content of the installed package, compiled kernels included, as a zip."""
    root = Path(nearcast.__file__).parent
    with zipfile.ZipFile(
        archive, "w", zipfile.ZIP_DEFLATED, compresslevel=_FAST_COMPRESSION
    ) as pack:
        for file in sorted(root.rglob("*")):
            if file.is_file() and (file.parent.name != "__pycache__" or file.suffix in _COMPILED):
                pack.write(file, file.relative_to(root))


def pack_metadata(archive: Path) -> None:
    """Write what `importlib.metadata` must know: the version and the planners plugged in."""
    installed = distribution("nearcast")
    with zipfile.ZipFile(archive, "w") as pack:
        for name in ("METADATA", "entry_points.txt"):
            if (text := installed.read_text(name)) is not None:
                pack.writestr(name, text)
