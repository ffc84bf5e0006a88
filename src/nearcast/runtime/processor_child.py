"""The process that hosts users' processors: it answers one server, and dies with it.

Started by `processor_host` as ``python -m nearcast.runtime.processor_child``.
"""

from __future__ import annotations

import os
import resource
import signal
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
from nearcast.broker.requests import Failure
from nearcast.broker.topic_spool import SpoolView, TopicSpool
from nearcast.errors import ProcessorError
from nearcast.runtime.pipe_frames import FrameReader
from nearcast.runtime.processor_frames import (
    Answer,
    Batch,
    Begin,
    Begun,
    Context,
    Done,
    Forget,
    Ready,
    decode_command,
    done,
    frame,
)
from nearcast.wire.publication import Publication, decode_record

__all__ = ["main", "serve"]

_OUT_OF_MEMORY = 70
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


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


def serve(sock: socket.socket) -> None:
    """Answer commands until there are no more."""
    topics: dict[str, _Topic] = {}
    reader = FrameReader(sock)

    def answer(message: Answer) -> None:
        sock.sendall(frame(message))

    answer(Ready())
    while True:
        size, frames = reader.read()
        if not size:
            return
        for one in frames:
            match decode_command(one):
                case Batch(topic, records):
                    batch = [decode_record(topic, record) for record in records]
                    answer(_process(topics[topic], batch))
                case Context(topic, records):
                    for record in records:
                        topics[topic].spool.append(decode_record(topic, record))
                case Begin(topic=topic) as command:
                    topics[topic] = _begin(command)
                    answer(Begun())
                case Forget(topic):
                    topics.pop(topic, None)


def _begin(command: Begin) -> _Topic:
    topic = _Topic(TopicSpool(command.spool, command.spool_bytes))
    try:
        topic.runner = _HostedRunner(make_processor(command.processor, command.options))
        topic.failures = topic.runner.restore(command.state)
    except ProcessorError as error:
        topic.problem = str(error)
    except CAUGHT as error:
        topic.problem = describe(error)
    return topic


def _process(topic: _Topic, batch: Sequence[Publication]) -> Done:
    for message in batch:
        topic.spool.append(message)
    if not batch:  # it was only to be loaded
        return done(batch, Outcome(), (), 0.0)
    if topic.runner is None:
        return done(batch, Outcome(), [Failure(topic.problem, one) for one in batch], 0.0)
    started_s = time.perf_counter()
    outcome = topic.runner.run(batch, topic.spool.view())
    failures, topic.failures = topic.failures, []
    return done(batch, outcome, failures, time.perf_counter() - started_s)


def main(descriptor: int, memory_bytes: int) -> None:
    """Serve the server at the other end of a socket."""
    _die_with_parent()
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as sock:
        serve(sock)
    os._exit(0)  # threads that a processor left behind are of no use any more


def _die_with_parent() -> None:
    """Without this, one that hangs would outlive a server that is killed."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
