"""Processes that end with the one that started them, also when that one is killed.

This file is also the small program between the two: it asks the kernel for that and becomes the
command. A ``preexec_fn`` would do the same, but must not run where there are threads.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

__all__ = ["die_with_parent", "tied"]

_SET_PARENT_DEATH_SIGNAL = 1


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends; on Linux only.

    It holds across ``exec``, not for processes that this one starts.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def tied(command: Sequence[str]) -> list[str]:
    """Return a command that does the same and is killed when the thread that starts it ends."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main(parent: int, command: Sequence[str]) -> None:
    """Become the command, unless the parent was gone before the kernel was told."""
    die_with_parent()
    if os.getppid() == parent:
        os.execvp(command[0], list(command))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
