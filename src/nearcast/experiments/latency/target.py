"""A system under load: how the load process reaches it, and which processes it consists of."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from nearcast.errors import NearcastError

__all__ = ["Target", "ask_worker"]


@dataclass(frozen=True, slots=True)
class Target:
    """What the load process is told."""

    load: dict[str, Any]
    pids: dict[str, int]
    """Processes of the system, by what they are; their descendants count too."""


def ask_worker(module: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return what a load process of its own answers."""
    name = f"nearcast.experiments.latency.{module}"
    ended = subprocess.run(
        [sys.executable, "-m", name],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        raise NearcastError(f"the load process failed: {said[-1] if said else ended.returncode}")
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer
