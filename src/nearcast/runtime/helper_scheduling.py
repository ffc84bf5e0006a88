"""How helper processes share the cores with the server that they help."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["give_way", "yield_to_server"]

_NICENESS = 5


def yield_to_server() -> None:
    """Let this process run without pushing others aside when it wakes up.

    On a machine of few cores a helper that is woken by the server would otherwise take the core
    of whatever handles the same message at that moment; the helper's work can wait for its turn.
    """
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    os.nice(_NICENESS)


def give_way() -> None:
    """Let those that wait for this core have it, between two pieces of work of a millisecond or so.

    A process that slept for long is owed time, and a server that wakes up behind it waits for all
    of it, however nice the helper is (10 ms were seen): here the rest of it is given up.
    """
    if hasattr(os, "sched_yield"):
        os.sched_yield()
