"""Compiling kernels once when many workers of a host meet them at the same time."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir

import nearcast
from nearcast.domain.plan import Model, Objective
from nearcast.pipeline.sweep.cell import SweepCell, run_cell

__all__ = ["compile_kernels"]

_TINY: dict[Model, SweepCell] = {
    Model.CONNECTIONS: SweepCell.of("reloc2020", {"ratio": 0.01}, model=Model.CONNECTIONS),
    Model.RATIO: SweepCell.of(
        "reloc2021",
        {"topics": 3, "servers_per_side": 2, "storage": 40.0, "compute": 300.0},
        model=Model.RATIO,
    ),
    Model.PLACEMENT: SweepCell.of(
        "placement2022",
        {"clients": 6, "servers": 3, "topics": 2, "smallest_topic": 2, "largest_topic": 3},
        model=Model.PLACEMENT,
    ),
}
"""Small, and tight enough that every part of a search has something to do."""


@cache
def compile_kernels(model: Model, method: str, objective: Objective) -> None:
    """Have a method's kernels compiled or loaded in this process, one process at a time.

    numba's cache numbers its files without a lock: two processes that compile the same function
    for two signatures may take the same number. The second process finds all of it compiled.
    """
    import_module("nearcast.planning.optimised")  # the slow imports need no lock
    tiny = replace(
        _TINY[model],
        method=method,
        objective=objective,
        iterations=1,
        time_limit_s=0.1 if method == "exact" else None,
        bound_limit_s=0.1,
    )
    with _host_lock(), suppress(Exception):  # the cell itself will tell what is wrong
        run_cell(tiny)


@contextmanager
def _host_lock() -> Iterator[None]:
    package = Path(nearcast.__file__).absolute().parent
    path = package / "__pycache__" / "compiling.lock"
    if not os.access(path.parent, os.W_OK):
        mark = hashlib.sha256(str(package).encode()).hexdigest()[:12]
        path = Path(gettempdir(), f"nearcast-compiling-{os.getuid()}-{mark}.lock")
    # The lock goes with the process, however it ends.
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
