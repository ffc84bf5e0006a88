"""CPU time and memory of processes and all their descendants, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["cpu_seconds", "descendants", "pss_mb"]

_PROC = Path("/proc")
_PARENT, _USER, _SYSTEM = 1, 11, 12
"""Columns of /proc/PID/stat after the name."""


def cpu_seconds(roots: Mapping[str, int]) -> dict[str, float]:
    """Return the CPU time so far, by label; descendants count under ``LABEL: NAME``."""
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    found: dict[str, float] = {}
    for label, root in roots.items():
        for process in descendants(root):
            name = label if process == root else f"{label}: {_name(process)}"
            found[name] = found.get(name, 0.0) + _ticks(process) / ticks_per_s
    return found


def pss_mb(root: int) -> float:
    """Return the proportional set size of a process and its descendants."""
    total_kb = 0
    for process in descendants(root):
        with suppress(OSError):
            for line in (_PROC / str(process) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total_kb += int(line.split()[1])
    return total_kb / 1024


def descendants(root: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for process, columns in _all_stats():
        children.setdefault(int(columns[_PARENT]), []).append(process)
    found = [root]
    for process in found:  # grows while it is walked
        found += children.get(process, [])
    return found


def _name(process: int) -> str:
    """Return the module that a Python process was started with, or the program's name."""
    with suppress(OSError):
        words = (_PROC / str(process) / "cmdline").read_text().split("\0")
        if "-m" in words[:-1]:
            return words[words.index("-m") + 1].rpartition(".")[2]
        return Path(words[0]).name
    return "ended"


def _ticks(process: int) -> int:
    columns = _stat(process)
    return int(columns[_USER]) + int(columns[_SYSTEM]) if columns else 0


def _all_stats() -> Iterator[tuple[int, list[str]]]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (columns := _stat(int(entry.name))):
            yield int(entry.name), columns


def _stat(process: int) -> list[str]:
    """Return the columns after the name, which may hold anything; empty when it is gone."""
    with suppress(OSError):
        return (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
    return []
