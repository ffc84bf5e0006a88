"""How helper processes share the cores with the server that they help."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["yield_to_server"]

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
