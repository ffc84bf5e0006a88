"""Users' code in a process of its own: it may raise, hang, die or eat memory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
import uvloop
from nearcast.broker.messages import Message

from broker.making import broker_with, message
from nearcast.broker.actions import Actions
from nearcast.broker.guard import GuardEvent, GuardSettings
from nearcast.broker.notifications import OutgoingNotification
from nearcast.broker.requests import Ending, ProcessResult
from nearcast.broker.topic_settings import TopicSettings
from nearcast.runtime.processor_host import ProcessorHost
from nearcast.spool.changes import LiveState

MOODY = '''
import json
import os
import signal
import sys
from nearcast.broker.notifications import InCircle, NamedClients, NearestClients, Notification

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
            if order == "exit":
                sys.exit("as ordered")
            if order == "print":
                print("y" * 200_000)
                os.write(1, b"z")
            if order == "eat":
                self.food = [bytes(50_000_000) for _ in range(1000)]
            if order == "garble":
                # a process that has run for long hands down a socket with a high number
                for descriptor in range(3, 4096):
                    try:
                        os.write(descriptor, b"\\x05\\x00\\x00\\x00hello")
                    except OSError:
                        pass
            if order == "everybody":
                yield Notification(b"1", NearestClients(0.0, 0.0, 1), message)
                yield Notification(b"2", InCircle(0.0, 0.0, 1.0), message)
                yield Notification(b"3", NamedClients(("sub", "stranger")), message)
                yield Notification(b"4", "all", message)
                yield Notification(b"5", InCircle("x", object(), 1.0), message)
            yield Notification(json.dumps([self.count, len(spool)]).encode(), cause=message)
    def state(self):
        return str(self.count).encode()
    def restore(self, state):
        self.count = int(state)
'''


class Server:
    """A broker and its host of processors in a loop, with a log that is always synced."""

    def __init__(self, *settings: TopicSettings, timeout_s: float = 0.5, **limits: Any) -> None:
        self.broker = broker_with(*settings)
        self.host = ProcessorHost(
            asyncio.get_running_loop(), self.on_result, timeout_s=timeout_s, **limits
        )
        self.log = LiveState()
        self.told: list[OutgoingNotification] = []
        self.events: list[tuple[str, GuardEvent, str]] = []
        self.results: list[ProcessResult] = []
        self.batches: list[tuple[Message, ...]] = []
        self.out = 0
        self.idle = asyncio.Event()

    def on_result(self, result: ProcessResult) -> None:
        self.out -= 1
        self.results.append(result)
        self.do(self.broker.on_processed(result, 0.0))
        if not self.out:
            self.idle.set()

    def do(self, actions: Actions) -> None:
        self.told += actions.notifications
        self.events += [(one.topic, one.event, one.detail) for one in actions.reports]
        for request in actions.to_process:
            if not request.ended:
                self.out += 1
                self.batches.append(request.batch)
                self.idle.clear()
            self.host.submit(request)
        if actions.to_store is not None:
            for change in actions.to_store.changes:
                self.log.apply(change)
            self.do(self.broker.on_committed([actions.to_store.ticket]))

    async def handle(self, *batch: Message) -> list[bytes]:
        """Have messages processed; what subscribers are told of it."""
        before = len(self.told)
        self.do(self.broker.handle(batch, 0.0))
        await self.idle.wait()
        return [one.payload for one in self.told[before:]]


def topic(name: str, processor: str = "moody:Moody", **more: Any) -> TopicSettings:
    patient = GuardSettings(budget_s=60.0, kills=1000)
    return TopicSettings(name, 4, processor=processor, guard=patient, inline=False, **more)


Story = Callable[[Server], Coroutine[Any, Any, None]]


def run(
    story: Story,
    *settings: TopicSettings,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    **limits: Any,
) -> None:
    async def whole() -> None:
        server = Server(*settings, **limits)
        try:
            await story(server)
        finally:
            server.host.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(whole())


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules of users; a child finds them as this process would."""
    (tmp_path / "moody.py").write_text(MOODY)
    (tmp_path / "broken_import.py").write_text("raise RuntimeError('no such luck')")
    (tmp_path / "endless_import.py").write_text("while True: pass")
    (tmp_path / "leaving_import.py").write_text("import sys; sys.exit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_what_hangs_dies_or_raises_is_passed_over_and_nothing_else_is_lost(loop: Any) -> None:
    async def story(server: Server) -> None:
        assert await server.handle(message("a", 1)) == [b"[1, 1]"]
        assert await server.handle(message("a", 2, order="raise")) == []
        assert await server.handle(message("a", 3, order="hang")) == []
        assert await server.handle(message("a", 4, order="exit")) == []
        assert await server.handle(message("a", 5, order="die")) == []
        assert await server.handle(message("a", 6), message("a", 7)) == [b"[2, 4]", b"[3, 4]"]
        orders = [None, "hang", "raise", "die", None]
        batch = [message("b", n, order=order) for n, order in enumerate(orders, start=1)]
        assert await server.handle(*batch) == [b"[4, 4]", b"[5, 4]"]
        assert server.host.restarts == 2 + 3
        live = server.log.topics["t"]
        assert {one.publisher: one.sequence for one in live.positions.values()} == {"a": 7, "b": 5}
        assert live.state == b"5"
        details = [detail for _, _, detail in server.events]
        assert details[:4] == [
            "ValueError('as ordered')",
            "took more than 0.5 s and was ended at 1 messages",
            "SystemExit('as ordered')",
            "its process died at 1 messages",
        ]
        assert server.host.queue_length == 0

    run(story, topic("t"), loop=loop)


def test_a_topic_that_hangs_is_blamed_alone_and_the_loop_goes_on_meanwhile() -> None:
    async def story(server: Server) -> None:
        await server.handle(message("a", 1, topic="quiet"), message("a", 1, topic="t"))
        ticks = 0

        def tick() -> None:
            nonlocal ticks
            ticks += 1
            asyncio.get_running_loop().call_later(0.01, tick)

        tick()
        told = await server.handle(
            message("a", 2, topic="t", order="hang"),
            message("a", 2, topic="quiet"),
            message("a", 1, topic="third"),
        )
        assert told == [b"[2, 2]", b"[1, 1]"]
        assert ticks > 3
        assert {(name, event) for name, event, _ in server.events} == {("t", GuardEvent.KILLED)}
        assert server.host.restarts == 1

    run(story, topic("t"), topic("quiet"), topic("third"), timeout_s=0.3)


def test_printing_does_not_disturb_the_answers() -> None:
    async def story(server: Server) -> None:
        batch = [message("a", number, order="print") for number in (1, 2, 3)]
        assert await server.handle(*batch) == [b"[1, 3]", b"[2, 3]", b"[3, 3]"]
        assert server.host.restarts == 0

    run(story, topic("t"), timeout_s=10.0)


def test_one_that_eats_memory_ends_with_its_process() -> None:
    async def story(server: Server) -> None:
        told = await server.handle(message("a", 1, order="eat"), message("a", 1, topic="quiet"))
        assert told == [b"[1, 1]"]
        assert [one.ending for one in server.results if one.topic == "t"] == [Ending.DIED]
        assert await server.handle(message("a", 2)) == [b"[1, 2]"]

    run(story, topic("t"), topic("quiet"), timeout_s=20.0, memory_bytes=400 << 20)


def test_an_answer_that_is_nonsense_ends_the_process() -> None:
    async def story(server: Server) -> None:
        assert await server.handle(message("a", 1, order="garble")) == []
        ((name, event, detail),) = server.events
        assert (name, event) == ("t", GuardEvent.KILLED)
        assert "nonsense" in detail
        assert await server.handle(message("a", 2)) == [b"[1, 2]"]

    run(story, topic("t"), timeout_s=10.0)


@pytest.mark.parametrize(
    ("processor", "words"),
    [
        ("broken_import:Thing", "cannot be loaded: no such luck"),
        ("leaving_import:Thing", "cannot be loaded: 3"),
        ("moody:Missing", "cannot be loaded"),
        ("nonsense", "there is no processor 'nonsense'"),
        ("endless_import:Thing", "took more than 0.5 s to load and was ended"),
    ],
)
def test_a_processor_that_cannot_be_loaded_leaves_its_messages_spooled(
    processor: str, words: str
) -> None:
    async def story(server: Server) -> None:
        told = await server.handle(message("a", 1), message("a", 1, topic="quiet"))
        assert told == [b"[1, 1]"]
        assert {name for name, _, _ in server.events} == {"t"}
        assert words in server.events[0][2]
        assert len(server.log.topics["t"].records) == 1
        assert processor.split(":")[0] not in sys.modules  # users' code was not run here

    run(story, topic("t", processor), topic("quiet"), load_timeout_s=0.5)


def test_audiences_arrive_as_they_were_meant_and_wrong_ones_are_reported() -> None:
    async def story(server: Server) -> None:
        server.broker._lookup.move("sub", 0.5, 0.0)  # type: ignore[attr-defined]
        told = await server.handle(message("a", 1, order="everybody"))
        assert told == [b"1", b"2", b"3", b"[1, 1]"]
        assert {one.recipients for one in server.told} == {("sub",)}
        assert [event for _, event, _ in server.events] == [GuardEvent.FAILED] * 2

    run(story, topic("t"), timeout_s=10.0)


def test_a_topic_begins_anew_from_its_log_with_state_and_the_whole_spool() -> None:
    big = TopicSettings("t", 3000, processor="moody:Moody", inline=False)

    async def story(server: Server) -> None:
        await server.handle(message("a", 1), message("a", 2))
        copies = [message("c", number) for number in range(1, 2500)]
        server.do(server.broker.handle_copies(copies, "there", 0.0))
        live = server.log.topics["t"]
        server.do(server.broker.remove_topic("t"))
        server.do(server.broker.add_topic(big, live, stored=True))
        assert await server.handle(message("a", 3)) == [b"[3, 2502]"]
        server.do(server.broker.handle_copies([message("c", 2500)], "there", 0.0))
        assert await server.handle(message("a", 4)) == [b"[4, 2504]"]
        assert server.host.restarts == 0

    run(story, big, timeout_s=10.0)


def _reports(rng: Random, rounds: int) -> list[list[Message]]:
    """Batches of movers that meet now and then."""
    batches, number = [], dict.fromkeys((f"m{one}" for one in range(12)), 0)
    for turn in range(rounds):
        batch = []
        for mover in rng.sample(sorted(number), rng.randint(1, 12)):
            number[mover] += 1
            values: dict[str, Any] = {
                "position": [rng.uniform(0, 0.2), rng.uniform(0, 0.2)],
                "direction": rng.uniform(0, 360),
                "speed": rng.uniform(0, 100),
            }
            batch.append(message(mover, number[mover], at_s=turn * 0.5, **values))
        batches.append(batch)
    return batches


@pytest.mark.parametrize("seed", range(2))
def test_a_shipped_processor_says_the_same_in_the_child_as_in_the_server(seed: int) -> None:
    rng = Random(seed)
    subscribers = tuple(f"m{one}" for one in range(12))
    inline = broker_with(TopicSettings("t", 50, processor="proximity"), subscribers=subscribers)
    hosted = TopicSettings("t", 50, processor="proximity", inline=False)

    async def story(server: Server) -> None:
        server.broker = broker_with(hosted, subscribers=subscribers)
        for batch in _reports(rng, 40):
            server.do(server.broker.handle(batch, 0.0))
            if rng.random() < 0.3:
                await server.idle.wait()
        await server.idle.wait()
        expected = [
            one for batch in server.batches for one in inline.handle(batch, 0.0).notifications
        ]
        assert server.told == expected
        assert len(expected) > 20
        assert len(server.batches) < 40
        assert server.broker.export_topic("t").state == inline.export_topic("t").state is not None

    run(story, hosted, timeout_s=10.0)


def test_a_closed_host_answers_nothing_and_its_child_is_gone() -> None:
    async def story(server: Server) -> None:
        await server.handle(message("a", 1))
        child = server.host._child
        assert child is not None
        server.do(server.broker.handle([message("a", 2, order="hang")], 0.0))
        server.host.close()
        with pytest.raises(ProcessLookupError):
            os.kill(child._process.pid, 0)
        server.do(server.broker.handle([message("b", 1)], 0.0))
        assert len(server.results) == 1

    run(story, topic("t"))


def test_a_child_that_dies_at_rest_is_replaced_without_blame() -> None:
    async def story(server: Server) -> None:
        await server.handle(message("a", 1))
        child = server.host._child
        assert child is not None
        noticed, lost = asyncio.Event(), child.link._on_lost

        def on_lost(reason: str) -> None:
            lost(reason)
            noticed.set()

        child.link._on_lost = on_lost
        os.kill(child._process.pid, signal.SIGKILL)
        await noticed.wait()
        assert await server.handle(message("a", 2), message("a", 3)) == [b"[2, 3]", b"[3, 3]"]
        assert server.events == []
        assert server.host.restarts == 1

    run(story, topic("t"), timeout_s=10.0)


def test_a_child_that_does_not_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = sys.executable
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))

    async def story(server: Server) -> None:
        server.host.start()
        assert server.host.restarts == 1
        monkeypatch.setattr(sys, "executable", good)
        assert await server.handle(message("a", 1)) == [b"[1, 1]"]
        assert server.events == []

    run(story, topic("t"), timeout_s=10.0)


ORPHAN = """
import asyncio, sys
sys.path[:0] = PATH
from broker.making import broker_with, message
from nearcast.broker.topic_settings import TopicSettings
from nearcast.runtime.processor_host import ProcessorHost

async def main():
    broker = broker_with(TopicSettings("t", 4, processor="moody:Moody", inline=False))
    def on_result(result):
        print("done", flush=True)
        broker.on_processed(result, 0.0)
        (request,) = broker.handle([message("a", 2, order="hang")], 0.0).to_process
        host.submit(request)
        print("hangs", flush=True)
    host = ProcessorHost(asyncio.get_running_loop(), on_result, timeout_s=1000.0)
    (request,) = broker.handle([message("a", 1)], 0.0).to_process
    host.submit(request)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_child_that_hangs_dies_with_its_server() -> None:
    script = ORPHAN.replace("PATH", repr(sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        assert [server.stdout.readline(), server.stdout.readline()] == [b"done\n", b"hangs\n"]
        server.kill()
        server.stderr.read()  # ends when the last process that has it is gone: the child
    assert server.returncode == -signal.SIGKILL
