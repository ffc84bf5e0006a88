"""The manager's end of the process that reads or makes a plan: asks for its parts one by one."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Self

import msgspec

from nearcast import errors
from nearcast.errors import PlanError
from nearcast.runtime.helper_process import HelperProcess
from nearcast.runtime.plan_frames import NEXT, Answer, Failed, Planning, PlanTask, decode_answer

__all__ = ["PlanReader"]

_log = logging.getLogger(__name__)
_MODULE = "nearcast.runtime.plan_process"
_END_WITHIN_S = 5.0


class PlanReader:
    """A process that lives as long as the block: ``async with PlanReader(task) as reader``."""

    def __init__(self, task: PlanTask) -> None:
        self._task = task
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        """Start the process.

        Raises
        ------
        PlanError
            When it cannot be started.
        """
        task = msgspec.json.encode(self._task).decode()
        try:
            self._helper = HelperProcess(
                asyncio.get_running_loop(),
                _MODULE,
                [task],
                self._on_frames,
                self._on_lost,
                is_lean=False,  # planners of users are found as Python finds them
            )
        except OSError as error:
            raise PlanError(f"the process that reads the plan cannot start: {error}") from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process, wherever it is."""
        self._helper.kill()
        await self._helper.wait(_END_WITHIN_S)

    def ask(self) -> None:
        """Ask for the next answer: the process works on it while the last one is used."""
        self._helper.link.send(NEXT)

    async def answer(self) -> Answer:
        """Return the next answer.

        Raises
        ------
        NearcastError
            When the scenario or the plan cannot be used, or the process is gone.
        """
        while True:
            match await self._answers.get():
                case Failed(kind, reason):
                    raise getattr(errors, kind, PlanError)(reason)  # a planner may have its own
                case Planning(stage, percent, cost):
                    fields = {"stage": stage, "percent": percent, "cost": cost}
                    _log.info("planning", extra={"fields": fields})
                case answer:
                    return answer

    def _on_frames(self, frames: list[bytes]) -> None:
        for one in frames:
            self._answers.put_nowait(decode_answer(one))

    def _on_lost(self, reason: str) -> None:
        self._answers.put_nowait(Failed(PlanError.__name__, f"the plan cannot be read: {reason}"))
