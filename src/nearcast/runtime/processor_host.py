"""Users' processors in one child process: they may hang or die, and the server stays quick.

The child has the processors of all topics that are not `inline`. It works at one request at a
time, in the order in which they were submitted, so that it is clear which one hung; others are on
their way to it meanwhile. A child that takes too long is killed, and another one is started: the
request at work is blamed, all others are cancelled, and the broker submits them again with all
that the new child needs.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable, Iterable

from nearcast.broker.requests import Ending, ProcessRequest, ProcessResult
from nearcast.broker.topic_settings import TopicSettings
from nearcast.runtime.helper_process import HelperProcess
from nearcast.runtime.processor_frames import (
    LONGEST_ANSWER_BYTES,
    Begun,
    Done,
    Forget,
    Ready,
    decode_answer,
    frame,
    request_frames,
    result_of,
)
from nearcast.wire.backoff import next_wait_s

__all__ = ["ProcessorHost"]

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 30.0
_LONGEST_REAP_S = 5.0
_PREPARATION = -1
"""The number of a request that no broker has asked for."""
_NEVER = float("inf")
_log = logging.getLogger("nearcast.runtime.processors")


class ProcessorHost:
    """Runs requests of a `Broker` in a child process; all of it in the thread of the loop.

    Parameters
    ----------
    on_results
        Gets one result for each request, in order, several at a time; it may submit more.
    timeout_s
        How long a batch may take before the child is killed.
    load_timeout_s
        How long a processor may take to be imported and made.
    start_timeout_s
        How long the child may take to start.
    memory_bytes
        Address space that the child may use; 0 for no limit.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        on_results: Callable[[list[ProcessResult]], None],
        *,
        timeout_s: float = 1.0,
        load_timeout_s: float = 5.0,
        start_timeout_s: float = 30.0,
        memory_bytes: int = 1 << 30,
    ) -> None:
        self._loop, self._on_results = loop, on_results
        self._timeout_s, self._load_timeout_s = timeout_s, load_timeout_s
        self._start_timeout_s, self._memory_bytes = start_timeout_s, memory_bytes
        self._in_flight: deque[ProcessRequest] = deque()
        self._begun: set[str] = set()
        """Topics whose processor the child has, or has been told to make."""
        self._prepared: set[str] = set()
        self._cancelled: list[ProcessResult] = []
        self._child: HelperProcess | None = None
        self._killed: HelperProcess | None = None
        self._is_ready = self._is_loading = self._is_closed = False
        self._deadline = self._timer_at = _NEVER
        """When the child must have answered; when that is looked at next."""
        self._timer: TimerHandle | None = None
        self._retry_s = 0.0
        """How long to wait after a child that did not start; 0 when the last one did."""
        self.restarts = 0
        """Children that hung or died, ever."""

    def start(self) -> None:
        """Start the child ahead of the first request."""
        if self._child is None and not self._is_closed and not self._retry_s:
            self._spawn()

    def prepare(self, settings: TopicSettings) -> None:
        """Have the child load a topic's processor ahead of the first request, once."""
        if settings.processor not in self._prepared and settings.topic not in self._begun:
            self._prepared.add(settings.processor)
            self.submit([ProcessRequest(settings, _PREPARATION, (), (), None, first=True)])
            self._begun.discard(settings.topic)  # a request that is the first has all it needs

    def submit(self, requests: Iterable[ProcessRequest]) -> None:
        """Have requests done after those that are in flight."""
        if self._is_closed:
            return
        parts = []
        for request in requests:
            topic = request.settings.topic
            if request.ended:
                if topic in self._begun:
                    self._begun.discard(topic)
                    parts.append(frame(Forget(topic)))
                continue
            if request.first:
                self._begun.add(topic)
            elif topic not in self._begun:
                self._cancel(request)
                continue
            self._in_flight.append(request)
            parts.append(request_frames(request))
            if len(self._in_flight) == 1 and self._is_ready:
                self._time_head()
        if self._child is None:
            self.start()  # which sends all that is in flight
        elif parts:
            self._child.link.send(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        """Kill the child; nothing that is in flight gets a result any more."""
        self._is_closed = True
        self._in_flight.clear()
        self._set_deadline(_NEVER)
        if self._timer is not None:
            self._timer.cancel()
        for child in (self._child, self._killed):
            if child is not None:
                child.kill(_LONGEST_REAP_S)
        self._child = None

    def _cancel(self, request: ProcessRequest) -> None:
        """Answer later: the broker is still busy with what made it submit this."""
        if not self._cancelled:
            self._loop.call_soon(self._tell_cancelled)
        self._cancelled.append(_ended(request, Ending.CANCELLED))

    def _tell_cancelled(self) -> None:
        results, self._cancelled = self._cancelled, []
        self._tell(results)

    def _tell(self, results: list[ProcessResult]) -> None:
        asked = [one for one in results if one.request != _PREPARATION]
        if asked and not self._is_closed:
            self._on_results(asked)

    def _on_frames(self, frames: list[bytes]) -> None:
        results: list[ProcessResult] = []
        nonsense = None
        for data in frames:
            try:
                answer = decode_answer(data)
                if isinstance(answer, Done) and self._in_flight:
                    results.append(result_of(self._in_flight[0], answer))
                    self._in_flight.popleft()
                    self._time_head()
                elif isinstance(answer, Begun):
                    self._is_loading = False
                    self._set_deadline(self._loop.time() + self._timeout_s)
                elif isinstance(answer, Ready):
                    self._is_ready, self._retry_s = True, 0.0
                    self._time_head()
            except ValueError as error:
                nonsense = f"its process answered nonsense: {error}"
                break
        child = self._child
        if results:
            self._tell(results)
        if nonsense is not None and self._child is child:
            self._fail(Ending.DIED, nonsense)

    def _time_head(self) -> None:
        """Time the request that the child works at from now on."""
        if not self._in_flight:
            self._deadline = _NEVER  # the timer finds nothing to do
            return
        self._is_loading = self._in_flight[0].first
        limit_s = self._load_timeout_s if self._is_loading else self._timeout_s
        self._set_deadline(self._loop.time() + limit_s)

    def _set_deadline(self, at: float) -> None:
        # one timer for many batches: most deadlines are only ever moved
        self._deadline = at
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = self._loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, _NEVER
        if self._child is not None and self._loop.time() >= self._deadline:
            self._child.link.read()  # what is there counts, even if the loop was too busy to look
        if self._timer is not None or self._is_closed:
            return
        if self._loop.time() < self._deadline:
            self._set_deadline(self._deadline)
        elif self._child is None:  # it is time to try again
            self._spawn()
        elif not self._is_ready:
            self._fail(Ending.TIMED_OUT, f"did not start in {self._start_timeout_s} s")
        else:
            limit = (
                f"{self._load_timeout_s} s to load" if self._is_loading else f"{self._timeout_s} s"
            )
            self._fail(Ending.TIMED_OUT, f"took more than {limit} and was ended")

    def _fail(self, ending: Ending, detail: str) -> None:
        """Replace a child that hung or died, and blame the request that it worked at."""
        child, self._child = self._child, None
        was_ready, self._is_ready = self._is_ready, False
        self._set_deadline(_NEVER)
        if child is not None:
            child.kill()
            self._killed = child
        self.restarts += 1
        if not was_ready:  # nothing was begun: all of it waits for the next one
            self._retry_s = next_wait_s(self._retry_s, _LONGEST_RETRY_S, _FIRST_RETRY_S)
            _log.error("the process for processors does not start: %s", detail)
            self._set_deadline(self._loop.time() + self._retry_s)
            return
        lost = list(self._in_flight)
        self._in_flight.clear()
        self._begun.clear()
        if not lost:  # it died at rest: nobody waits
            self._set_deadline(self._loop.time() + _FIRST_RETRY_S)
            return
        _log.warning("processor of topic %r: %s", lost[0].topic, detail)
        self._spawn()
        results = [_ended(lost[0], ending, detail)]
        results += [_ended(one, Ending.CANCELLED) for one in lost[1:]]
        self._tell(results)

    def _spawn(self) -> None:
        try:
            child = HelperProcess(
                self._loop,
                "nearcast.runtime.processor_child",
                [str(self._memory_bytes)],
                self._on_frames,
                lambda reason: self._fail(Ending.DIED, reason),
                longest_bytes=LONGEST_ANSWER_BYTES,
                is_lean=False,
            )
        except OSError as error:
            self._fail(Ending.DIED, str(error))
            return
        self._child = child
        self._set_deadline(self._loop.time() + self._start_timeout_s)
        if self._in_flight:
            child.link.send(b"".join(map(request_frames, self._in_flight)))


def _ended(request: ProcessRequest, ending: Ending, detail: str = "") -> ProcessResult:
    return ProcessResult(request.settings.topic, request.request, ending=ending, detail=detail)
