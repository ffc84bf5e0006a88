"""Users' code in a process of its own: it may raise, hang or die."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.making import message
from nearcast.broker.guard import GuardEvent, GuardSettings
from nearcast.broker.messages import Message, Origin
from nearcast.broker.processing import GuardedProcessor
from nearcast.broker.topic_spool import TopicSpool
from nearcast.errors import ProcessorError, ProcessorTimeoutError
from nearcast.runtime.processor_process import ProcessorProcess

PROCESSOR = '''
import json
import os
import signal
from nearcast.broker.notifications import Notification

class Moody:
    """Counts what it sees; does what a message orders."""
    def __init__(self):
        self.count = 0
    def process(self, batch, spool):
        for message in batch:
            self.count += 1
            order = json.loads(message.payload).get("order")
            if order == "raise":
                raise ValueError("as ordered")
            if order == "hang":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                while True:
                    pass
            if order == "die":
                os._exit(3)
            seen = [one.sequence for one in spool]
            yield Notification(json.dumps([self.count, seen]).encode(), cause=message)
    def state(self):
        return str(self.count).encode()
    def restore(self, state):
        self.count = int(state)
'''


@pytest.fixture
def moody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessorProcess]:
    """A processor of a user's own in a child; the child finds it as this process does."""
    (tmp_path / "moody_processor.py").write_text(PROCESSOR)
    info = tmp_path / "moody_processor-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moody-processor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nearcast.processors]\nmoody = moody_processor:Moody\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    processor = ProcessorProcess("moody", spool=4, timeout_s=2.0)
    yield processor
    processor.close()
    sys.modules.pop("moody_processor", None)


def spooled(spool: TopicSpool, *messages: Message) -> list[Message]:
    for one in messages:
        spool.append(one)
    return list(messages)


def test_the_child_sees_the_spool_with_copies_and_keeps_its_state(moody: ProcessorProcess) -> None:
    spool = TopicSpool(4)
    spooled(spool, message("a", 1, origin=Origin.COPY), message("a", 2, origin=Origin.COPY))
    batch = spooled(spool, message("a", 3))
    (told,) = moody.process(batch, spool.view())
    assert told.payload == b"[1, [1, 2, 3]]"
    assert told.cause == batch[0]
    spooled(spool, message("a", 4, origin=Origin.COPY))
    batch = spooled(spool, message("a", 5), message("a", 6))
    assert [one.payload for one in moody.process(batch, spool.view())] == [
        b"[2, [3, 4, 5, 6]]",
        b"[3, [3, 4, 5, 6]]",
    ]
    assert moody.state() == b"3"
    assert moody.restarts == 0


def test_a_child_that_raises_hangs_or_dies_is_replaced_and_goes_on_from_its_state(
    moody: ProcessorProcess,
) -> None:
    spool = TopicSpool(4)
    moody.process(spooled(spool, message("a", 1)), spool.view())
    with pytest.raises(ProcessorError, match="as ordered"):
        moody.process(spooled(spool, message("a", 2, order="raise")), spool.view())
    assert moody.restarts == 0
    assert moody.state() == b"1"
    moody.restore(b"1")
    with pytest.raises(ProcessorTimeoutError, match=r"more than 2\.0 s"):
        moody.process(spooled(spool, message("a", 3, order="hang")), spool.view())
    with pytest.raises(ProcessorError, match="died"):
        moody.process(spooled(spool, message("a", 4, order="die")), spool.view())
    assert moody.restarts == 2
    (told,) = moody.process(spooled(spool, message("a", 5)), spool.view())
    assert told.payload == b"[2, [2, 3, 4, 5]]"


def test_the_guard_finds_the_message_that_hangs_and_keeps_the_others(
    moody: ProcessorProcess,
) -> None:
    spool = TopicSpool(4)
    guarded = GuardedProcessor("t", moody, GuardSettings(), lambda: 0.0)
    orders = [None, "hang", None]
    batch = spooled(
        spool, *(message("a", number, order=order) for number, order in enumerate(orders, start=1))
    )
    result = guarded.run(batch, spool.view(), 0.0)
    assert [one.payload for one in result.notifications] == [b"[1, [1]]", b"[2, [1, 2, 3]]"]
    assert result.state == b"2"
    assert [(one.event, one.message) for one in result.reports] == [(GuardEvent.FAILED, batch[1])]
    assert "ProcessorTimeoutError" in result.reports[0].detail


def test_an_unknown_processor_is_refused_before_a_child_starts() -> None:
    with pytest.raises(ProcessorError, match="there is no processor 'nonsense'"):
        ProcessorProcess("nonsense", spool=1)
