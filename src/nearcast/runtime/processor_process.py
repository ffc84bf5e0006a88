"""A processor in a process of its own: it may hang or die, and the server goes on.

The child keeps a spool of its own and gets only what is new, so that a batch costs one small
message each way. A child that does not answer in time is killed; the next batch starts another,
from the last good state and the whole spool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from nearcast.broker.messages import Message
from nearcast.broker.notifications import Notification
from nearcast.broker.processor import Processor, StatefulProcessor
from nearcast.broker.registry import make_processor
from nearcast.broker.topic_spool import SpoolView, TopicSpool
from nearcast.errors import ProcessorError, ProcessorTimeoutError

__all__ = ["ProcessorProcess"]


class ProcessorProcess:
    """A processor by name that runs in a child process.

    It is a `StatefulProcessor` itself; `GuardedProcessor` treats what it raises like any failure.

    Parameters
    ----------
    name, options
        As for `make_processor`, which the child calls.
    spool
        Messages that the child's spool keeps: those of the topic.
    timeout_s
        How long a batch may take before the child is killed.
    start_timeout_s
        How long the child may take to start.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any] | None = None,
        *,
        spool: int,
        timeout_s: float = 1.0,
        start_timeout_s: float = 30.0,
    ) -> None:
        make_processor(name, options)  # complains here, not in a child
        self._arguments = (name, dict(options or {}), spool)
        self._timeout_s, self._start_timeout_s = timeout_s, start_timeout_s
        self._child: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._state: bytes | None = None
        self._sent = 0
        self.restarts = 0
        """Children that had to be replaced."""

    def process(self, batch: Sequence[Message], spool: SpoolView) -> list[Notification]:
        """Have the child process a batch.

        Raises
        ------
        ProcessorTimeoutError
            When it did not answer in time; it was killed.
        ProcessorError
            When it raised, or died.
        """
        pipe = self._pipe or self._start()
        context = spool.until(spool.end - len(batch)).since(self._sent)
        self._sent = spool.end
        notifications, error, self._state = self._ask(pipe, (context, list(batch)), self._timeout_s)
        if error is not None:
            raise ProcessorError(error)
        return list(notifications)

    def state(self) -> bytes:
        """Return the child's state after its last batch; nothing when it saves none."""
        return self._state or b""

    def restore(self, state: bytes) -> None:
        """Begin anew from a state, and with the whole spool at the next batch."""
        self._state, self._sent = state or None, 0
        if self._pipe is not None:
            try:
                self._pipe.send((self._state, None))
            except OSError:
                self.close()  # it died; the next batch starts another

    def close(self) -> None:
        """End the child; the next batch would start another."""
        if self._pipe is not None:
            self._pipe.close()
        if self._child is not None:
            self._child.kill()  # it has nothing to save, and may be one that ignores all else
            self._child.join()
            self._child.close()
            self.restarts += 1
        self._child, self._pipe, self._sent = None, None, 0

    def _start(self) -> Connection:
        # spawn: a fork of a server with threads may inherit locks that nobody will open
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._child = context.Process(
            target=_serve, args=(theirs, *self._arguments, self._state), daemon=True
        )
        self._child.start()
        theirs.close()
        self._ask(self._pipe, None, self._start_timeout_s)
        return self._pipe

    def _ask(self, pipe: Connection, question: Any, timeout_s: float) -> Any:
        try:
            if question is not None:
                pipe.send(question)
            if pipe.poll(timeout_s):
                return pipe.recv()
        except (OSError, EOFError) as error:
            self.close()
            raise ProcessorError(f"processor {self._arguments[0]!r} died") from error
        self.close()
        raise ProcessorTimeoutError(
            f"processor {self._arguments[0]!r} took more than {timeout_s} s and was ended"
        )


def _serve(
    pipe: Connection, name: str, options: dict[str, Any], capacity: int, state: bytes | None
) -> None:
    processor, spool = _begin(name, options, capacity, state)
    pipe.send("ready")
    while True:
        try:
            first, batch = pipe.recv()
        except EOFError:
            return
        if batch is None:
            processor, spool = _begin(name, options, capacity, first)
            state = first
            continue
        for message in (*first, *batch):
            spool.append(message)
        notifications: list[Notification] = []
        error = None
        try:
            notifications = list(processor.process(batch, spool.view()))
            if isinstance(processor, StatefulProcessor):
                state = processor.state()
        except Exception as problem:
            error = repr(problem)
        pipe.send((notifications, error, state))


def _begin(
    name: str, options: dict[str, Any], capacity: int, state: bytes | None
) -> tuple[Processor, TopicSpool]:
    processor = make_processor(name, options)
    if isinstance(processor, StatefulProcessor) and state is not None:
        processor.restore(state)
    return processor, TopicSpool(capacity)
