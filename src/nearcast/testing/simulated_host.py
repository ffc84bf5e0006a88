"""The host process of processors without the process: its true code and frames, when a test says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from nearcast.broker.requests import Ending, ProcessRequest, ProcessResult
from nearcast.runtime.pipe_frames import FrameBuffer
from nearcast.runtime.processor_child import HostedProcessors
from nearcast.runtime.processor_frames import (
    Done,
    Forget,
    decode_answer,
    decode_command,
    frame,
    request_frames,
    result_of,
)

__all__ = ["SimulatedHost"]


class SimulatedHost:
    """Does requests in their order, as `runtime.processor_host` has them done.

    Parameters
    ----------
    is_deadly
        Tells whether a request ends the process.
    """

    def __init__(self, is_deadly: Callable[[ProcessRequest], bool] = lambda request: False) -> None:
        self._is_deadly = is_deadly
        self._processors = HostedProcessors()
        self._begun: set[str] = set()
        self._in_flight: deque[ProcessRequest] = deque()
        self.deaths = 0

    def __len__(self) -> int:
        return len(self._in_flight)

    @property
    def head(self) -> ProcessRequest | None:
        """What it works at."""
        return self._in_flight[0] if self._in_flight else None

    def submit(self, request: ProcessRequest) -> list[ProcessResult]:
        """Take a request; return what is to be said at once."""
        topic = request.topic
        if request.ended:
            self._begun.discard(topic)
            self._processors.answer(Forget(topic))
            return []
        if not request.first and topic not in self._begun:
            return [ProcessResult(topic, request.request, ending=Ending.CANCELLED)]
        self._begun.add(topic)
        self._in_flight.append(request)
        return []

    def work(self) -> list[ProcessResult]:
        """Do the oldest request."""
        if not self._in_flight:
            return []
        if self._is_deadly(self._in_flight[0]):
            return self.die()
        request = self._in_flight.popleft()
        results = []
        for one in FrameBuffer().feed(request_frames(request)):
            answer = self._processors.answer(decode_command(one))
            if answer is not None:
                (said,) = FrameBuffer().feed(frame(answer))
                answer = decode_answer(said)
            if isinstance(answer, Done):
                results.append(result_of(request, answer))
        return results

    def die(self) -> list[ProcessResult]:
        """End the process at the oldest request, and begin another one."""
        self.deaths += 1
        lost = list(self._in_flight)
        self._in_flight.clear()
        self._begun.clear()
        self._processors = HostedProcessors()
        endings = [Ending.DIED, *(Ending.CANCELLED for _ in lost[1:])]
        return [
            ProcessResult(one.topic, one.request, ending=ending)
            for one, ending in zip(lost, endings, strict=False)
        ]
