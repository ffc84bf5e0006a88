"""Users' code in a process of its own: it may raise, hang, die or eat memory."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from nearcast.broker.notifications import InCircle, NamedClients, NearestClients
from nearcast.broker.requests import Ending, ProcessRequest, ProcessResult
from nearcast.broker.topic_settings import TopicSettings
from nearcast.runtime.processor_host import ProcessorHost
from nearcast.wire.publication import Publication

MOODY = '''
import json
import os
import signal
import sys
from collections import Counter
from nearcast.broker.notifications import InCircle, NamedClients, NearestClients, Notification

class Moody:
    """Counts what it sees; does what a message orders."""
    def __init__(self):
        self.count = 0
        self.malformed = 0
        self.refused = Counter()
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
            if order == "malformed":
                self.malformed += 1
            if order == "refuse":
                self.refused["too_far"] += 1
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
                yield Notification(b"3", NamedClients(("sub", "unknown")), message)
                yield Notification(b"4", "all", message)
            if order == "written":
                yield Notification(b"1", attributes={"a": 1}, area="", valid_until_s=2.5)
                yield Notification(b"2", message_class="emergency")
            yield Notification(json.dumps([self.count, len(spool)]).encode(), cause=message)
    def state(self):
        return str(self.count).encode()
    def restore(self, state):
        self.count = int(state)
'''

_numbers = iter(range(1_000_000))


def message(topic: str = "t", **values: Any) -> Publication:
    payload = json.dumps(values).encode()
    return Publication(topic, "car", 1, next(_numbers), 0, 0, 0.0, 0.0, payload)


def topic(name: str = "t", processor: str = "moody:Moody", spool: int = 4) -> TopicSettings:
    return TopicSettings(name, spool, processor=processor, inline=False)


class Server:
    """A host of processors, and what a broker would keep of a topic with it."""

    def __init__(self, **limits: Any) -> None:
        self.host = ProcessorHost(
            asyncio.get_running_loop(), self._on_results, **{"timeout_s": 10.0, **limits}
        )
        self.results: list[ProcessResult] = []
        self.states: dict[str, bytes | None] = {}
        self.out = 0
        self.idle = asyncio.Event()

    def ask(
        self,
        settings: TopicSettings,
        *batch: Publication,
        context: tuple[Publication, ...] = (),
        first: bool = False,
    ) -> int:
        request = next(_numbers)
        state = self.states.get(settings.topic)
        self.out += 1
        self.idle.clear()
        self.host.submit([ProcessRequest(settings, request, context, batch, state, first)])
        return request

    def _on_results(self, results: list[ProcessResult]) -> None:
        for one in results:
            self.out -= 1
            self.results.append(one)
            if one.state is not None:
                self.states[one.topic] = one.state
        if not self.out:
            self.idle.set()

    async def done(self) -> list[ProcessResult]:
        """Wait for all results, and return those that nobody has taken yet."""
        if self.out:
            await self.idle.wait()
        results, self.results = self.results, []
        return results

    async def one(self, settings: TopicSettings, *batch: Publication, **more: Any) -> ProcessResult:
        self.ask(settings, *batch, **more)
        (result,) = await self.done()
        return result


def payloads(*results: ProcessResult) -> list[bytes]:
    return [note.payload for one in results for note in one.notifications]


def endings(results: list[ProcessResult]) -> list[tuple[str, Ending]]:
    return [(one.topic, one.ending) for one in results]


Story = Callable[[Server], Coroutine[Any, Any, None]]


def run(
    story: Story, loop: Callable[[], asyncio.AbstractEventLoop] | None = None, **limits: Any
) -> None:
    async def whole() -> None:
        server = Server(**limits)
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
def test_requests_of_a_topic_are_processed_in_order_while_others_are_on_their_way(
    loop: Any,
) -> None:
    async def story(server: Server) -> None:
        batch = [message() for _ in range(3)]
        asked = [server.ask(topic(), *batch, first=True)]
        asked += [server.ask(topic(), message()) for _ in range(20)]
        asked += [server.ask(topic(), message(), context=(message(), message()))]
        results = await server.done()
        assert [one.request for one in results] == asked
        assert payloads(*results)[:4] == [b"[1, 3]", b"[2, 3]", b"[3, 3]", b"[4, 4]"]
        assert payloads(results[-1]) == [b"[24, 4]"]
        assert [note.cause for note in results[0].notifications] == batch
        assert server.states["t"] == b"24"

    run(story, loop)


def test_what_raises_is_told_with_its_traceback_and_the_others_are_not_lost() -> None:
    async def story(server: Server) -> None:
        batch = [message(), message(order="raise"), message(), message(order="exit")]
        result = await server.one(topic(), *batch, first=True)
        assert payloads(result) == [b"[1, 1]", b"[2, 3]"]
        assert [one.message for one in result.failures] == [batch[1], batch[3]]
        assert result.failures[0].detail.startswith("ValueError('as ordered')\n")
        assert 'raise ValueError("as ordered")' in result.failures[0].detail
        assert result.failures[1].detail.startswith("SystemExit('as ordered')\n")
        assert server.host.restarts == 0

    run(story)


def test_unusable_messages_are_counted() -> None:
    async def story(server: Server) -> None:
        bad = message(order="malformed")
        assert (await server.one(topic(), bad, bad, message(), first=True)).malformed == 2
        assert (await server.one(topic(), message())).malformed == 0
        assert (await server.one(topic(), bad)).malformed == 1
        far = message(order="refuse")
        assert (await server.one(topic(), far, far)).refused == {"too_far": 2}
        assert (await server.one(topic(), far)).refused == {"too_far": 1}

    run(story)


@pytest.mark.parametrize(
    ("order", "ending", "words"),
    [
        ("hang", Ending.TIMED_OUT, "took more than 0.5 s and was ended"),
        ("die", Ending.DIED, "its process died"),
    ],
)
def test_one_that_hangs_or_dies_is_blamed_alone_and_the_others_are_cancelled(
    order: str, ending: Ending, words: str
) -> None:
    async def story(server: Server) -> None:
        await server.one(topic("quiet"), message("quiet"), first=True)
        server.ask(topic(), message(), first=True)
        server.ask(topic(), message(order=order))
        server.ask(topic(), message())
        server.ask(topic("quiet"), message("quiet"))
        results = await server.done()
        assert endings(results) == [
            ("t", Ending.DONE),
            ("t", ending),
            ("t", Ending.CANCELLED),
            ("quiet", Ending.CANCELLED),
        ]
        assert results[1].detail == words
        assert server.host.restarts == 1
        # the new child knows nothing until it is told anew
        server.ask(topic("quiet"), message("quiet"))
        server.ask(topic("quiet"), message("quiet"), context=(message("quiet"),), first=True)
        server.ask(topic("quiet"), message("quiet"))
        results = await server.done()
        assert sorted(endings(results)) == [
            ("quiet", Ending.CANCELLED),
            ("quiet", Ending.DONE),
            ("quiet", Ending.DONE),
        ]
        assert payloads(*results) == [b"[2, 2]", b"[3, 3]"]

    run(story, timeout_s=0.5)


def test_the_loop_goes_on_while_one_hangs() -> None:
    async def story(server: Server) -> None:
        await server.one(topic(), message(), first=True)
        ticks = 0

        def tick() -> None:
            nonlocal ticks
            ticks += 1
            asyncio.get_running_loop().call_later(0.01, tick)

        tick()
        result = await server.one(topic(), message(order="hang"))
        assert result.ending is Ending.TIMED_OUT
        assert ticks > 3

    run(story, timeout_s=0.3)


def test_one_timer_serves_many_batches_and_finds_nothing_to_do_at_rest() -> None:
    async def story(server: Server) -> None:
        await server.one(topic(), message(), first=True)
        timer = server.host._timer
        assert timer is not None
        for _ in range(3):
            assert (await server.one(topic(), message())).ending is Ending.DONE
        assert server.host._timer is timer
        server.host._on_timer()
        assert server.host._timer is None
        assert (await server.one(topic(), message())).ending is Ending.DONE
        assert server.host._timer is not None
        assert server.host.restarts == 0

    run(story, timeout_s=60.0, load_timeout_s=60.0)


def test_printing_does_not_disturb_the_answers() -> None:
    async def story(server: Server) -> None:
        batch = [message(order="print") for _ in range(3)]
        result = await server.one(topic(), *batch, first=True)
        assert payloads(result) == [b"[1, 3]", b"[2, 3]", b"[3, 3]"]
        assert server.host.restarts == 0

    run(story)


def test_one_that_eats_memory_ends_with_its_process() -> None:
    async def story(server: Server) -> None:
        result = await server.one(topic(), message(order="eat"), first=True)
        assert result.ending is Ending.DIED
        result = await server.one(topic(), message(), first=True)
        assert payloads(result) == [b"[1, 1]"]

    run(story, timeout_s=20.0, memory_bytes=400 << 20)


def test_an_answer_that_is_nonsense_ends_the_process() -> None:
    async def story(server: Server) -> None:
        result = await server.one(topic(), message(order="garble"), first=True)
        assert result.ending is Ending.DIED
        assert "nonsense" in result.detail
        assert (await server.one(topic(), message(), first=True)).ending is Ending.DONE

    run(story)


@pytest.mark.parametrize(
    ("processor", "words"),
    [
        ("broken_import:Thing", "cannot be loaded: no such luck"),
        ("leaving_import:Thing", "cannot be loaded: 3"),
        ("moody:Missing", "cannot be loaded"),
        ("nonsense", "there is no processor 'nonsense'"),
    ],
)
def test_a_processor_that_cannot_be_loaded_fails_at_each_message(
    processor: str, words: str
) -> None:
    async def story(server: Server) -> None:
        server.host.prepare(topic("t", processor))
        batch = message(), message()
        result = await server.one(topic("t", processor), *batch, first=True)
        assert [one.message for one in result.failures] == list(batch)
        assert words in result.failures[0].detail
        assert processor.split(":")[0] not in sys.modules  # users' code was not run here
        assert payloads(await server.one(topic("quiet"), message("quiet"), first=True)) == [
            b"[1, 1]"
        ]

    run(story)


def test_one_that_takes_too_long_to_load_is_ended() -> None:
    async def story(server: Server) -> None:
        result = await server.one(topic("t", "endless_import:Thing"), message(), first=True)
        assert result.ending is Ending.TIMED_OUT
        assert result.detail == "took more than 0.5 s to load and was ended"

    run(story, load_timeout_s=0.5)


def test_a_preparation_is_nobodys_request() -> None:
    async def story(server: Server) -> None:
        server.host.prepare(topic())
        server.host.prepare(topic("u", "endless_import:Thing"))
        assert (await server.one(topic(), message())).ending is Ending.CANCELLED
        server.ask(topic(), message(), context=(message(),), first=True)
        (result,) = await server.done()
        assert result.ending is Ending.CANCELLED
        assert server.host.restarts == 1
        result = await server.one(topic(), message(), context=(message(),), first=True)
        assert payloads(result) == [b"[1, 2]"]

    run(story, load_timeout_s=0.5)


def test_audiences_arrive_as_they_were_meant() -> None:
    async def story(server: Server) -> None:
        result = await server.one(topic(), message(order="everybody"), first=True)
        assert [one.audience for one in result.notifications[:3]] == [
            NearestClients(0.0, 0.0, 1),
            InCircle(0.0, 0.0, 1.0),
            NamedClients(["sub", "unknown"]),  # type: ignore[arg-type]
        ]
        wrong: object = result.notifications[3].audience
        assert wrong == ["'all'"]

    run(story)


def test_what_is_written_on_notifications_arrives_as_it_is() -> None:
    async def story(server: Server) -> None:
        result = await server.one(topic(), message(order="written"), first=True)
        assert [
            (one.attributes, one.area, one.valid_until_s, one.message_class)
            for one in result.notifications
        ] == [
            ({"a": 1}, "", 2.5, None),
            (None, None, None, "emergency"),
            (None, None, None, None),
        ]

    run(story)


def test_a_topic_begins_anew_with_state_and_a_large_spool() -> None:
    async def story(server: Server) -> None:
        big = topic(spool=3000)
        await server.one(big, message(), message(), first=True)
        context = tuple(message() for _ in range(2500))
        assert payloads(await server.one(big, message(), context=context, first=True)) == [
            b"[3, 2501]"
        ]
        server.host.submit([ProcessRequest(big, next(_numbers), (), (), None, ended=True)])
        assert (await server.one(big, message())).ending is Ending.CANCELLED

    run(story)


def test_a_closed_host_answers_nothing_and_its_child_is_gone() -> None:
    async def story(server: Server) -> None:
        await server.one(topic(), message(), first=True)
        child = server.host._child
        assert child is not None
        server.ask(topic(), message(order="hang"))
        server.host.close()
        with pytest.raises(ProcessLookupError):
            os.kill(child.pid, 0)
        server.ask(topic(), message())
        await asyncio.sleep(0)
        assert server.results == []

    run(story)


def test_a_child_that_dies_at_rest_is_replaced_without_blame() -> None:
    async def story(server: Server) -> None:
        await server.one(topic(), message(), first=True)
        child = server.host._child
        assert child is not None
        noticed, lost = asyncio.Event(), child.link._on_lost

        def on_lost(reason: str) -> None:
            lost(reason)
            noticed.set()

        child.link._on_lost = on_lost
        os.kill(child.pid, signal.SIGKILL)
        await noticed.wait()
        assert (await server.one(topic(), message())).ending is Ending.CANCELLED
        assert payloads(await server.one(topic(), message(), first=True)) == [b"[2, 1]"]
        assert server.host.restarts == 1

    run(story)


def test_a_child_that_does_not_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = sys.executable
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))

    async def story(server: Server) -> None:
        server.host.start()
        assert server.host.restarts == 1
        monkeypatch.setattr(sys, "executable", good)
        server.ask(topic(), message(), first=True)
        server.ask(topic(), message())
        assert payloads(*await server.done()) == [b"[1, 1]", b"[2, 2]"]

    run(story)


ORPHAN = """
import asyncio, sys
sys.path[:0] = PATH
from nearcast.broker.requests import ProcessRequest
from nearcast.broker.topic_settings import TopicSettings
from nearcast.runtime.processor_host import ProcessorHost
from nearcast.wire.publication import Publication

async def main():
    settings = TopicSettings("t", 4, processor="moody:Moody", inline=False)
    def ask(number, payload):
        message = Publication("t", "a", 1, number, 0, 0, 0.0, 0.0, payload)
        host.submit([ProcessRequest(settings, number, (), (message,), None, number == 1)])
    def on_results(results):
        print("done", flush=True)
        ask(2, b'{"order": "hang"}')
        print("hangs", flush=True)
    host = ProcessorHost(asyncio.get_running_loop(), on_results, timeout_s=1000.0)
    ask(1, b"{}")
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
