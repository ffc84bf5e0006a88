"""A host of processors without a process: it answers when it is told to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nearcast.broker.notifications import Notification
from nearcast.broker.processing import ProcessorRunner
from nearcast.broker.processor import Processor
from nearcast.broker.requests import Ending, Failure, ProcessRequest, ProcessResult
from nearcast.broker.topic_spool import SpoolView, TopicSpool
from nearcast.wire.publication import Publication, decode_record

DEADLY = 13


class Summing:
    """Sums values and tells the sums; raises at a negative value, after having counted it.

    The deadly one ends a host's process; inline it can but raise.
    """

    def __init__(self) -> None:
        self.total = 0

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        assert spool.recent(len(batch)) == list(batch)[-len(spool) :]
        for number, one in enumerate(batch, start=spool.end - len(batch) + 1):
            value = json.loads(one.payload)["value"]
            self.total += value
            if value < 0 or value == DEADLY:
                raise ValueError(f"poison {value}")
            seen = [(other.publisher, other.sequence) for other in spool.until(number).recent(2)]
            yield Notification(json.dumps([self.total, seen]).encode(), cause=one)

    def state(self) -> bytes:
        return str(self.total).encode()

    def restore(self, state: bytes) -> None:
        self.total = int(state)


@dataclass(slots=True)
class _Topic:
    runner: ProcessorRunner
    spool: TopicSpool


class FakeHost:
    """Keeps processors and spools as a child process does, and loses all of them with it."""

    def __init__(self, make: Callable[[], Processor] = Summing) -> None:
        self._make = make
        self._topics: dict[str, _Topic] = {}
        self.kills = 0

    def restart(self) -> None:
        self._topics.clear()

    def run(self, request: ProcessRequest) -> ProcessResult:
        topic = self._topics.get(request.topic)
        if request.first:
            settings = request.settings
            spool = TopicSpool(settings.spool, settings.spool_bytes)
            topic = self._topics[request.topic] = _Topic(ProcessorRunner(self._make()), spool)
            topic.runner.restore(request.state)
        if topic is None:
            return ProcessResult(request.topic, request.request, ending=Ending.CANCELLED)
        for publication in request.context:
            topic.spool.append(publication)
        # as over a pipe: equal messages, not the same ones
        batch = [decode_record(request.topic, one.record()) for one in request.batch]
        if any(json.loads(one.payload)["value"] == DEADLY for one in batch):
            self.restart()
            self.kills += 1
            return ProcessResult(request.topic, request.request, ending=Ending.DIED)
        for publication in batch:
            topic.spool.append(publication)
        outcome = topic.runner.run(batch, topic.spool.view())
        own = {id(one): theirs for one, theirs in zip(batch, request.batch, strict=True)}
        return ProcessResult(
            request.topic,
            request.request,
            [Notification(n.payload, n.audience, own[id(n.cause)]) for n in outcome.notifications],
            outcome.state,
            [
                Failure(f.detail, own[id(f.message)] if f.message else None)
                for f in outcome.failures
            ],
        )
