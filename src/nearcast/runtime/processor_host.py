"""Users' processors in one child process: they may hang or die, and the server stays quick.

The child has the processors of all topics that are not `inline`, and works at one request at a
time, so that it is clear who hung. It keeps a spool of each topic and gets only what is new. A
child that takes too long is killed, and another is started in the background; requests wait
meanwhile, and the new child gets the whole spool and the last good state of each topic again.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable

from nearcast.broker.requests import Ending, ProcessRequest, ProcessResult
from nearcast.runtime.processor_frames import (
    Begun,
    Done,
    Forget,
    Ready,
    decode_answer,
    frame,
    frames_for,
    result_of,
)
from nearcast.runtime.processor_process import ProcessorProcess

__all__ = ["ProcessorHost"]

_LONGEST_RETRY_S = 30.0
_LONGEST_REAP_S = 5.0
_log = logging.getLogger("nearcast.runtime.processors")


class ProcessorHost:
    """Runs requests of a `Broker` in a child process; all of it in the thread of the loop.

    Parameters
    ----------
    on_result
        Gets one result for each request; it may submit the next.
    timeout_s
        How long a batch may take before the child is killed.
    load_timeout_s
        How long a processor may take to be imported and made.
    start_timeout_s
        How long the child may take to start, or to read what it is sent.
    memory_bytes
        Address space that the child may use; 0 for no limit.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        on_result: Callable[[ProcessResult], None],
        *,
        timeout_s: float = 1.0,
        load_timeout_s: float = 5.0,
        start_timeout_s: float = 30.0,
        memory_bytes: int = 1 << 30,
    ) -> None:
        self._loop, self._on_result = loop, on_result
        self._timeout_s, self._load_timeout_s = timeout_s, load_timeout_s
        self._start_timeout_s, self._memory_bytes = start_timeout_s, memory_bytes
        self._queue: deque[ProcessRequest] = deque()
        self._running: ProcessRequest | None = None
        self._unanswered: set[str] = set()
        """What the request in work still waits for before its batch is timed."""
        self._child: ProcessorProcess | None = None
        self._timer: TimerHandle | None = None
        self._retry_s = 0.0
        self._is_closed = False
        self.restarts = 0
        """Children that hung or died, ever."""

    @property
    def queue_length(self) -> int:
        """Requests that wait or are in work."""
        return len(self._queue) + (self._running is not None)

    def start(self) -> None:
        """Start the child ahead of the first request."""
        if self._child is None and not self._is_closed and self._timer is None:
            self._spawn()

    def submit(self, request: ProcessRequest) -> None:
        """Have a request done after those that wait already."""
        if request.ended:
            self._queue = deque(one for one in self._queue if one.topic != request.topic)
            if self._child is None:
                return
        self._queue.append(request)
        self._work()

    def close(self) -> None:
        """Kill the child; nothing that waits gets a result any more."""
        self._is_closed = True
        self._queue.clear()
        self._running = None
        self._set_timer(None)
        if self._child is not None:
            self._child.end().join(_LONGEST_REAP_S)
            self._child = None

    def _work(self) -> None:
        child = self._child
        if child is None:
            self.start()
            return
        while self._queue and child is self._child and child.is_ready and self._running is None:
            request = self._queue.popleft()
            if not request.ended:
                self._running = request
                self._begin(child, request)
                return
            child.spooled.pop(request.topic, None)
            child.link.send([frame(Forget(request.topic))])

    def _begin(self, child: ProcessorProcess, request: ProcessRequest) -> None:
        is_new = request.first or request.topic not in child.spooled
        self._unanswered = {"begun", "sent"} if is_new else {"sent"}
        self._set_timer(self._load_timeout_s if is_new else self._start_timeout_s)
        frames = frames_for(request, None if is_new else child.spooled[request.topic])
        child.spooled[request.topic] = request.spool.end + len(request.batch)
        child.link.send(frames, lambda: self._answered("sent"))

    def _answered(self, part: str) -> None:
        """Time the batch from when the child has all that it needs for it."""
        self._unanswered.discard(part)
        if not self._unanswered and self._running is not None:
            self._set_timer(self._timeout_s)

    def _on_frame(self, data: bytes) -> None:
        request, result = self._running, None
        try:
            answer = decode_answer(data)
            if isinstance(answer, Done) and request is not None:
                result = result_of(request, answer)
        except ValueError as error:
            self._fail(Ending.DIED, f"its process answered nonsense: {error}")
            return
        if result is not None:
            self._running = None
            self._set_timer(None)
            self._on_result(result)
            self._work()
        elif isinstance(answer, Begun):
            self._answered("begun")
        elif isinstance(answer, Ready) and self._child is not None and not self._child.is_ready:
            self._child.is_ready, self._retry_s = True, 0.0
            self._set_timer(None)
            self._work()

    def _on_timeout(self) -> None:
        self._timer = None
        child, request = self._child, self._running
        if child is None:  # it was time to try again
            self._spawn()
            return
        child.link.read()  # what is there counts, even if the loop was too busy to look
        if self._child is not child or self._running is not request or self._timer is not None:
            return
        if "begun" in self._unanswered:
            detail = f"took more than {self._load_timeout_s} s to load"
        elif self._unanswered:
            detail = "did not read its messages"
        else:
            detail = f"took more than {self._timeout_s} s"
        self._fail(Ending.TIMED_OUT, f"{detail} and was ended")

    def _fail(self, ending: Ending, detail: str) -> None:
        """Replace a child that hung or died, and blame the topic that it worked for."""
        child, self._child = self._child, None
        self._set_timer(None)
        if child is not None:
            child.end()
        self.restarts += 1
        request, self._running = self._running, None
        if request is not None:
            _log.warning("processor of topic %r: %s", request.topic, detail)
            self._spawn()
            self._on_result(
                ProcessResult(request.topic, request.request, ending=ending, detail=detail)
            )
        elif child is None or not child.is_ready:
            self._retry_s = min(max(0.5, 2 * self._retry_s), _LONGEST_RETRY_S)
            _log.error("the process for processors does not start: %s", detail)
            self._set_timer(self._retry_s)
        # one that died at rest is replaced when there is work again

    def _spawn(self) -> None:
        try:
            self._child = ProcessorProcess(
                self._loop,
                self._memory_bytes,
                self._on_frame,
                lambda reason: self._fail(Ending.DIED, reason),
            )
        except OSError as error:
            self._fail(Ending.DIED, str(error))
        else:
            self._set_timer(self._start_timeout_s)

    def _set_timer(self, delay_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if delay_s is None else self._loop.call_later(delay_s, self._on_timeout)
