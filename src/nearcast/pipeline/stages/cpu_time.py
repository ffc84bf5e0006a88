"""CPU seconds of a task: what a search may use is counted in them, not in seconds of the clock."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

__all__ = ["CpuTime"]


class CpuTime:
    """Measure the CPU seconds that this process spends in a block."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begin_s = 0.0

    def __enter__(self) -> Self:
        self._begin_s = time.process_time()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seconds = time.process_time() - self._begin_s
