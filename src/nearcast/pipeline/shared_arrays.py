"""Arrays that every worker reads but none changes: written once, mapped into memory by each host."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nearcast.pipeline.driver_objects import is_mapped, note_object
from nearcast.pipeline.session import is_embedded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SharedArrays", "share_arrays"]


@dataclass(frozen=True, slots=True)
class SharedArrays:
    """What a task needs to find the arrays; small, so it travels with the task."""

    files: Mapping[str, str]
    """Name of an array and its file."""
    folder: str | None
    """Where the files are, on a single machine; None: where Spark sent them."""

    def load(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays, mapped, not read: pages come when they are touched."""
        if self.folder is not None:
            folder = Path(self.folder)
        else:
            from pyspark import SparkFiles

            folder = Path(SparkFiles.getRootDirectory())
        return {name: np.load(folder / file, mmap_mode="r") for name, file in self.files.items()}


@contextmanager
def share_arrays(
    spark: SparkSession, arrays: Mapping[str, npt.NDArray[Any]]
) -> Iterator[SharedArrays]:
    """Make arrays readable on all workers until the end of the block."""
    context = spark.sparkContext
    # A name of its own: Spark refuses a second file of the same name.
    mark = uuid.uuid4().hex[:12]
    folder = tempfile.mkdtemp(prefix="nearcast-shared-")
    is_local = is_embedded(context.master or "")
    files = {name: f"{mark}-{name}.npy" for name in arrays}
    try:
        for name, array in arrays.items():
            if not is_mapped(array):
                note_object(name, array.nbytes)
            np.save(Path(folder, files[name]), np.ascontiguousarray(array))
        if not is_local:
            for file in files.values():
                context.addFile(str(Path(folder, file)))
        yield SharedArrays(files, folder if is_local else None)
    finally:
        if is_local:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            # An executor that joins later still asks for every file that was ever added: let it
            # find empty ones.
            for file in files.values():
                Path(folder, file).write_bytes(b"")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
