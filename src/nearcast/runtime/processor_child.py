"""The process that hosts users' processors: it answers one server, and dies with it.

Started by `processor_host` as ``python -m nearcast.runtime.processor_child``.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

# all that users' processors need of nearcast is loaded before the first one is timed
import nearcast.broker.broker
import nearcast.broker.payloads  # noqa: F401
from nearcast.broker.notifications import Notification
from nearcast.broker.processing import CAUGHT, Outcome, ProcessorRunner, describe
from nearcast.broker.registry import make_processor
from nearcast.broker.requests import Failure, MadeProcessor
from nearcast.broker.topic_spool import SpoolView, TopicSpool
from nearcast.errors import ProcessorError
from nearcast.links.tied_process import die_with_parent
from nearcast.routing.index_mapping import content_index
from nearcast.runtime.pipe_frames import FrameReader
from nearcast.runtime.processor_frames import (
    Answer,
    Batch,
    Begin,
    Begun,
    Command,
    Context,
    Done,
    Forget,
    Merge,
    Ready,
    Split,
    decode_command,
    done,
    frame,
)
from nearcast.wire.publication import Publication, decode_record

__all__ = ["HostedProcessors", "main", "serve"]

_OUT_OF_MEMORY = 70


class _HostedRunner(ProcessorRunner):
    """Ends the process when memory is out: a new one has all of it again, for all topics."""

    def attempt(self, batch: Sequence[Publication], spool: SpoolView) -> list[Notification]:
        try:
            return super().attempt(batch, spool)
        except MemoryError:
            os.write(2, b"nearcast: a processor ran out of memory; its process ends\n")
            os._exit(_OUT_OF_MEMORY)


@dataclass(slots=True)
class _Topic:
    spool: TopicSpool
    runner: ProcessorRunner | None = None
    failures: list[Failure] = field(default_factory=list)
    """What went wrong at the beginning and was not told yet."""
    problem: str = ""
    """Why there is no processor."""
    made: MadeProcessor | None = None
    """What the server has to hear of it."""


class HostedProcessors:
    """The processors of topics and components, by the names that the server gives them."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}

    def answer(self, command: Command) -> Answer | None:
        """Do what the server wants; return what it is told."""
        topics = self._topics
        match command:
            case Batch(topic, records, names):
                named = zip(names or (topic,) * len(records), records, strict=True)
                return _process(topics[topic], [decode_record(*one) for one in named])
            case Context(topic, records):
                for record in records:
                    topics[topic].spool.append(decode_record(topic, record))
            case Begin(topic=topic):
                topics[topic] = _begin(command)
                return Begun()
            case Split(topic, low, high):
                return _split(topics[topic], low, high)
            case Merge(topic, state):
                return _merge(topics[topic], state)
            case Forget(topic):
                topics.pop(topic, None)
        return None


def serve(sock: socket.socket) -> None:
    """Answer commands until there are no more."""
    processors, reader = HostedProcessors(), FrameReader(sock)
    sock.sendall(frame(Ready()))
    while True:
        size, frames = reader.read()
        if not size:
            return
        for one in frames:
            answer = processors.answer(decode_command(one))
            if answer is not None:
                sock.sendall(frame(answer))


def _begin(command: Begin) -> _Topic:
    topic = _Topic(TopicSpool(command.spool, command.spool_bytes))
    try:
        topic.runner = _HostedRunner(make_processor(command.processor, command.options))
        runner = topic.runner
        topic.made = MadeProcessor(runner.initial, runner.can_merge, runner.can_split)
        topic.failures = runner.restore(command.state)
    except ProcessorError as error:
        topic.problem = str(error)
    except CAUGHT as error:
        topic.problem = describe(error)
    topic.made = topic.made or MadeProcessor(None, False, False, topic.problem)
    return topic


def _process(topic: _Topic, batch: Sequence[Publication]) -> Done:
    for message in batch:
        topic.spool.append(message)
    if topic.runner is None:
        failures = [Failure(topic.problem, one) for one in batch]
        return _done(topic, batch, Outcome(failures=failures), 0.0)
    if not batch:  # it was only to be loaded
        return _done(topic, batch, Outcome(), 0.0)
    started_s = time.perf_counter()
    outcome = topic.runner.run(batch, topic.spool.view())
    return _done(topic, batch, outcome, time.perf_counter() - started_s)


def _split(topic: _Topic, low: int, high: int) -> Done:
    def goes(content_id: str) -> bool:
        index = content_index(content_id)
        return index is not None and low <= index < high

    if topic.runner is None:
        return _done(topic, (), Outcome(failures=[Failure(topic.problem)]), 0.0)
    part, failures = topic.runner.split(goes)
    answer = _done(topic, (), Outcome(state=topic.runner.state, failures=failures), 0.0)
    answer.part = part
    return answer


def _merge(topic: _Topic, state: bytes) -> Done:
    failures = None if topic.runner is None else topic.runner.merge(state)
    if topic.runner is None or failures is None:
        failures = [Failure(topic.problem or "the processor cannot merge states")]
    state_now = None if topic.runner is None else topic.runner.state
    return _done(topic, (), Outcome(state=state_now, failures=failures), 0.0)


def _done(topic: _Topic, batch: Sequence[Publication], outcome: Outcome, elapsed_s: float) -> Done:
    failures, topic.failures = topic.failures, []
    answer = done(batch, outcome, failures, elapsed_s)
    answer.made, topic.made = topic.made, None
    return answer


def main(descriptor: int, memory_bytes: int) -> None:
    """Serve the server at the other end of a socket."""
    die_with_parent()  # one that hangs would outlive a server that is killed
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as sock:
        serve(sock)
    os._exit(0)  # threads that a processor left behind are of no use any more


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
