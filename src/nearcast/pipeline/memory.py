"""Peak memory of this process and all it started: the driver, its JVM and the local workers."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["PeakMemory", "tree_memory_mb"]

_PROC = Path("/proc")
_EVERY_S = 0.2


def tree_memory_mb(root: int | None = None) -> float | None:
    """Return the private memory of a process and its descendants; None where /proc is missing.

    Pages of mapped files do not count: they belong to the page cache, and workers share them.
    """
    if not (_PROC / "self" / "stat").exists():
        return None
    children: dict[int, list[int]] = defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                # The name may hold spaces and brackets; the parent is the second field after it.
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            children[int(parent)].append(int(entry.name))
    total_kb, waiting = 0, [os.getpid() if root is None else root]
    while waiting:
        process = waiting.pop()
        waiting.extend(children[process])
        total_kb += _private_kb(process)
    return total_kb / 1024


def _private_kb(process: int) -> int:
    try:
        lines = (_PROC / str(process) / "status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


class PeakMemory:
    """Watch the memory while a block runs; `peak_mb` is the largest amount seen."""

    def __init__(self) -> None:
        self.peak_mb: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        now_mb = tree_memory_mb()
        if now_mb is not None:
            self.peak_mb = max(self.peak_mb or 0.0, now_mb)
