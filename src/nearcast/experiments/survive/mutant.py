"""What a seeded bug is: put in, in memory, it has to be noticed by a named part of the proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug and what has to notice it."""

    name: str
    replaced: str
    """What it replaces: module and name."""
    by: Any
    caught_by: Callable[[], bool]
