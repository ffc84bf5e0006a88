"""The mesh over TCP, on loopback: who is let in, which connection stays, what a loss does."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from nearcast.errors import ConfigError
from nearcast.links.emulated_mesh import EmulatedMesh
from nearcast.links.mesh import LinkState, PeerAddress
from nearcast.links.mesh_settings import TcpMeshSettings
from nearcast.links.tcp_mesh import TcpMesh
from nearcast.server.peer_channels import PeerChannels
from nearcast.testing.ports import closed_port
from nearcast.wire.noise import public_key
from nearcast.wire.stream_channel import StreamSettings

QUICK = TcpMeshSettings(tick_s=0.02, first_retry_s=0.01, longest_retry_s=0.05)
Scene = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[[Scene], None]:
    def run(scene: Scene) -> None:
        factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

        async def limited() -> None:
            async with asyncio.timeout(60):
                await scene()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(limited())

    return run


class Server:
    """A server that keeps what it hears."""

    def __init__(self, name: str, seed: int, settings: TcpMeshSettings = QUICK) -> None:
        self.name, self.key = name, random.Random(seed).randbytes(32)
        self.settings = settings
        self.mesh = TcpMesh("127.0.0.1", 0, self.key, settings)
        self.got: list[tuple[str, bytes]] = []
        self._changed = asyncio.Event()

    async def start(self) -> Server:
        await self.mesh.start(self._hear)
        return self

    async def restart(self) -> None:
        port = self.mesh.port
        await self.mesh.close()
        self.mesh = TcpMesh("127.0.0.1", port, self.key, self.settings)
        self.got = []
        await self.start()

    @property
    def address(self) -> PeerAddress:
        return PeerAddress(self.name, "127.0.0.1", self.mesh.port, public_key(self.key))

    def state_of(self, other: Server) -> LinkState:
        return next(one for one in self.mesh.states() if one.server == other.name)

    def connections(self, other: Server) -> int:
        return len(self.mesh._peers[other.name]._connections)

    async def until_heard(self, data: bytes) -> None:
        while data not in {one for _, one in self.got}:
            self._changed.clear()
            await self._changed.wait()

    def _hear(self, sender: str, data: bytes) -> None:
        self.got.append((sender, data))
        self._changed.set()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the test's time limit ends it."""
    while not condition():  # noqa: ASYNC110 - many things may make it hold
        await asyncio.sleep(0)


@asynccontextmanager
async def pair(settings: TcpMeshSettings = QUICK) -> Any:
    one, two = await Server("e1", 1, settings).start(), await Server("e2", 2, settings).start()
    one.mesh.learn([two.address])
    two.mesh.learn([one.address])
    try:
        yield one, two
    finally:
        await one.mesh.close()
        await two.mesh.close()


def test_messages_go_both_ways_in_order_over_one_connection(
    play: Callable[[Scene], None],
) -> None:
    async def scene() -> None:
        async with pair(TcpMeshSettings()) as (one, two):
            assert one.state_of(two).state == "idle"
            numbers = [b"%d" % number for number in range(500)]
            for number in numbers:
                one.mesh.send("e2", number)
            await two.until_heard(numbers[-1])
            assert two.got == [("e1", number) for number in numbers]
            large = random.Random(3).randbytes(3 << 20)
            two.mesh.send("e1", large)
            two.mesh.send("e1", b"")
            await one.until_heard(b"")
            assert one.got == [("e2", large), ("e2", b"")]
            state = one.state_of(two)
            assert (state.state, state.last_error, state.is_down) == ("connected", "", False)
            assert state.received_bytes > 3 << 20
            assert one.connections(two) == two.connections(one) == 1
            await until(lambda: one.state_of(two).round_trip_ms is not None)
            assert one.state_of(two).round_trip_ms > 0

    play(scene)


@pytest.mark.parametrize("seeds", [(1, 2), (2, 1)])
def test_of_connections_that_both_sides_open_at_once_one_stays_and_nothing_is_lost(
    play: Callable[[Scene], None], seeds: tuple[int, int]
) -> None:
    async def scene() -> None:
        for _ in range(10):
            one, two = await Server("a", seeds[0]).start(), await Server("b", seeds[1]).start()
            one.mesh.learn([two.address])
            two.mesh.learn([one.address])
            for number in range(20):
                one.mesh.send("b", b"a %d" % number)
                two.mesh.send("a", b"b %d" % number)
                await asyncio.sleep(0)
            await two.until_heard(b"a 19")
            await one.until_heard(b"b 19")
            await until(lambda: one.connections(two) == two.connections(one) == 1)  # noqa: B023
            assert sorted(two.got) == sorted(("a", b"a %d" % number) for number in range(20))
            assert sorted(one.got) == sorted(("b", b"b %d" % number) for number in range(20))
            await one.mesh.close()
            await two.mesh.close()

    play(scene)


def test_a_server_that_restarts_is_found_again_by_the_other_side(
    play: Callable[[Scene], None],
) -> None:
    async def scene() -> None:
        async with pair() as (one, two):
            one.mesh.send("e2", b"hello")
            await two.until_heard(b"hello")
            await two.restart()
            await until(lambda: one.state_of(two).state == "refused")  # it does not know e1 yet
            assert one.state_of(two).is_down
            two.mesh.learn([one.address])
            one.mesh.send("e2", b"again")
            await two.until_heard(b"again")
            assert one.state_of(two).state == "connected"

    play(scene)


def test_what_is_sent_before_the_other_side_listens_arrives_when_it_does(
    play: Callable[[Scene], None],
) -> None:
    async def scene() -> None:
        one, two = await Server("e1", 1).start(), Server("e2", 2)
        port = closed_port()
        two.mesh = TcpMesh("127.0.0.1", port, two.key, QUICK)
        one.mesh.learn([two.address])
        one.mesh.send("e2", b"early")
        await until(lambda: one.state_of(two).state == "waiting")
        assert one.state_of(two).is_down
        two.mesh.learn([one.address])
        await two.start()
        await two.until_heard(b"early")
        await one.mesh.close()
        await two.mesh.close()

    play(scene)


def test_an_unknown_key_is_refused_and_counted_until_it_is_learnt(
    play: Callable[[Scene], None],
) -> None:
    async def scene() -> None:
        one, unknown = await Server("e1", 1).start(), await Server("e2", 2).start()
        unknown.mesh.learn([one.address])
        unknown.mesh.send("e1", b"let me in")
        await until(lambda: one.mesh.rejected["unknown_key"] >= 3)
        await until(lambda: unknown.state_of(one).state == "refused")
        assert "refused in the handshake" in unknown.state_of(one).last_error
        assert one.got == []
        assert one.mesh.states() == []
        one.mesh.learn([unknown.address])
        await one.until_heard(b"let me in")
        await one.mesh.close()
        await unknown.mesh.close()

    play(scene)


def test_a_sender_is_who_its_key_says_and_not_who_it_claims_to_be(
    play: Callable[[Scene], None],
) -> None:
    async def scene() -> None:
        manager, liar, edge = Server("manager", 1), Server("manager", 2), Server("e1", 3)
        for server in (manager, liar, edge):
            await server.start()
        # the edge knows the liar's key as that of another server
        known = PeerAddress("e2", "127.0.0.1", liar.mesh.port, public_key(liar.key))
        edge.mesh.learn([manager.address, known])
        liar.mesh.learn([edge.address])
        liar.mesh.send("e1", b"I am the manager")
        await edge.until_heard(b"I am the manager")
        assert edge.got == [("e2", b"I am the manager")]
        # at the manager's address, without its key, the liar hears nothing
        edge.mesh.learn(
            [PeerAddress("manager", "127.0.0.1", liar.mesh.port, manager.address.public_key)]
        )
        edge.mesh.send("manager", b"secret")
        await until(lambda: edge.mesh.states()[0].state == "refused")
        assert liar.got == []
        assert liar.mesh.rejected["handshake"] > 0
        for server in (manager, liar, edge):
            await server.mesh.close()

    play(scene)


def test_a_server_that_is_no_longer_named_is_cut_off_and_refused(
    play: Callable[[Scene], None],
) -> None:
    async def scene() -> None:
        async with pair() as (one, two):
            two.mesh.send("e1", b"hello")
            await one.until_heard(b"hello")
            one.mesh.learn([])
            assert one.mesh.states() == []
            await until(lambda: one.mesh.rejected["unknown_key"] > 0)
            two.mesh.send("e1", b"still here")
            one.mesh.send("e2", b"nobody")
            assert one.got == [("e2", b"hello")]
            # another key under the same name is another server
            other = Server("e2", 9)
            one.mesh.learn([other.address])
            await until(lambda: two.state_of(one).state == "refused")
            one.mesh.learn([two.address])
            await one.until_heard(b"still here")

    play(scene)


class Proxy:
    """Stands between two servers; `is_cut` swallows everything without a word."""

    def __init__(self, port: int) -> None:
        self._port, self.is_cut = port, False
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, far_writer]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._copy(reader, far_writer))
            tasks.create_task(self._copy(far_reader, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                if not self.is_cut:
                    writer.write(data)
                    await writer.drain()
        except ConnectionError:
            pass
        finally:
            if not self.is_cut:
                writer.close()


async def through_a_proxy(
    settings: TcpMeshSettings, scene: Callable[[Server, Server, Proxy], Awaitable[None]]
) -> None:
    async with pair(settings) as (one, two):
        proxy = Proxy(two.mesh.port)
        port = await proxy.start()
        one.mesh.learn([PeerAddress("e2", "127.0.0.1", port, public_key(two.key))])
        # e2 cannot dial e1, so that all goes through the proxy
        two.mesh.learn([PeerAddress("e1", "127.0.0.1", closed_port(), public_key(one.key))])
        one.mesh.send("e2", b"hello")
        await two.until_heard(b"hello")
        await scene(one, two, proxy)
        await proxy.close()


def test_a_silent_loss_is_noticed_by_both_sides_and_mended(play: Callable[[Scene], None]) -> None:
    async def scene(one: Server, two: Server, proxy: Proxy) -> None:
        proxy.is_cut = True
        await until(lambda: one.state_of(two).is_down and two.state_of(one).is_down)
        proxy.is_cut = False
        one.mesh.send("e2", b"again")
        await two.until_heard(b"again")

    play(lambda: through_a_proxy(QUICK, scene))


def test_an_idle_link_stays(play: Callable[[Scene], None]) -> None:
    async def scene(one: Server, two: Server, _proxy: Proxy) -> None:
        before = one.state_of(two)
        ticks = one.mesh._peers["e2"]._ticks
        await until(lambda: one.mesh._peers["e2"]._ticks > ticks + 3 * QUICK.silent_ticks)
        after = one.state_of(two)
        assert (after.state, after.since_s > before.since_s) == ("connected", True)
        assert after.received_bytes > before.received_bytes

    play(lambda: through_a_proxy(QUICK, scene))


def test_what_a_slow_reader_does_not_take_is_dropped_and_counted(
    play: Callable[[Scene], None],
) -> None:
    settings = TcpMeshSettings(tick_s=30.0, write_limit_bytes=100_000)

    async def scene() -> None:
        async with pair(settings) as (one, two):
            one.mesh.send("e2", b"hello")
            await two.until_heard(b"hello")
            (connection,) = two.mesh._peers["e1"]._connections
            connection._transport.pause_reading()
            for _ in range(2_000):
                one.mesh.send("e2", bytes(10_000))
                await asyncio.sleep(0)
            state = one.state_of(two)
            assert state.dropped_messages > 0
            assert state.queued_bytes < 100_000 + 3 * 10_100
            connection._transport.resume_reading()
            await until(lambda: one.state_of(two).queued_bytes == 0)
            one.mesh.send("e2", b"last")
            await two.until_heard(b"last")

    play(scene)


def test_while_there_is_no_connection_little_is_kept(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        one, two = await Server("e1", 1).start(), Server("e2", 2)
        one.mesh.learn([PeerAddress("e2", "127.0.0.1", closed_port(), public_key(two.key))])
        one.mesh.send("e2", bytes(1 << 20))
        one.mesh.send("e2", b"no room")
        state = one.state_of(two)
        assert (state.queued_bytes, state.dropped_messages) == (1 << 20, 1)
        await one.mesh.close()

    play(scene)


def test_unknown_peers_cannot_use_up_handshakes_or_stay(play: Callable[[Scene], None]) -> None:
    settings = TcpMeshSettings(
        tick_s=0.02, handshake_s=0.2, peer_handshakes=2, unknown_peer_handshakes=2
    )

    async def scene() -> None:
        server = await Server("e1", 1, settings).start()
        streams = [await asyncio.open_connection("127.0.0.1", server.mesh.port) for _ in range(5)]
        # three find no room; the other two say nothing until their time is over
        for reader, _writer in streams:
            with_end = await asyncio.gather(reader.read(), return_exceptions=True)
            assert with_end[0] == b"" or isinstance(with_end[0], ConnectionError)
        assert server.mesh.rejected == {"too_many": 3, "timeout": 2}
        rng = random.Random(5)
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.mesh.port)
            writer.write(b"\0\x70" + rng.randbytes(0x70))
            await asyncio.gather(reader.read(), return_exceptions=True)
            streams.append((reader, writer))
        assert server.mesh.rejected["handshake"] == 20
        assert server.got == []
        for _reader, writer in streams:
            writer.transport.abort()
        await server.mesh.close()

    play(scene)


def test_a_bug_in_the_receiver_is_reported_and_the_link_goes_on(
    play: Callable[[Scene], None],
) -> None:
    async def scene() -> None:
        async with pair() as (one, two):
            reported: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, one: reported.append(one))
            hear = two.mesh._peers["e1"]._on_message

            def fail_once(sender: str, data: bytes) -> None:
                if data == b"first":
                    raise RuntimeError("a bug")
                hear(sender, data)

            two.mesh._peers["e1"]._on_message = fail_once
            one.mesh.send("e2", b"first")
            one.mesh.send("e2", b"second")
            await two.until_heard(b"second")
            assert [str(one["exception"]) for one in reported] == ["a bug"]
            assert two.connections(one) == 1

    play(scene)


async def hear_one_by_one(one: Server, two: Server, count: int) -> None:
    """Send each message when the one before it was heard; none may be missing."""
    numbers = [b"%d" % number for number in range(count)]
    for number in numbers:
        one.mesh.send("e2", number)
        await two.until_heard(number)
    assert two.got == [("e1", number) for number in numbers]


def test_a_connection_is_used_up_though_the_loop_never_ticks(
    play: Callable[[Scene], None],
) -> None:
    settings = TcpMeshSettings(tick_s=3600.0, stream=StreamSettings(records=40))

    async def scene() -> None:
        async with pair(settings) as (one, two):
            await hear_one_by_one(one, two, 100)

    play(scene)


def test_a_used_up_or_old_connection_is_replaced_and_nothing_is_lost(
    play: Callable[[Scene], None],
) -> None:
    settings = TcpMeshSettings(tick_s=0.01, renew_s=0.05, stream=StreamSettings(records=400))

    async def scene() -> None:
        async with pair(settings) as (one, two):
            await hear_one_by_one(one, two, 600)
            await until(lambda: one.connections(two) == 1)

    play(scene)


def test_a_port_in_use_is_told_and_an_end_may_come_at_any_time(
    play: Callable[[Scene], None],
) -> None:
    async def scene() -> None:
        one = await Server("e1", 1).start()
        again = TcpMesh("127.0.0.1", one.mesh.port, one.key)
        with pytest.raises(ConfigError, match="another program uses the port"):
            await again.start(lambda *_: None)
        await again.close()
        await TcpMesh("127.0.0.1", 0, one.key).close()
        one.mesh.learn([PeerAddress("e2", "no.such.host.invalid", 1, b"\7" * 32)])
        one.mesh.send("e2", b"under way")
        await one.mesh.close()
        await one.mesh.close()
        one.mesh.send("e2", b"after the end")
        one.mesh.learn([PeerAddress("e3", "127.0.0.1", 1, b"\x08" * 32)])
        assert one.mesh.states() == []

    play(scene)


def test_keys_that_cannot_be_used_are_left_out(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        one = await Server("e1", 1).start()
        entry = one.address
        others = [
            PeerAddress("e2", "h", 1, b"\7" * 32),
            PeerAddress("e3", "h", 1, b"\7" * 32),
            PeerAddress("cloud", "", 0, b""),
        ]
        one.mesh.learn([entry, *others])
        assert [state.server for state in one.mesh.states()] == ["e2"]
        # of the right length, but not a key that anybody can have
        one.mesh.learn([PeerAddress("e4", "127.0.0.1", one.mesh.port, bytes(32))])
        one.mesh.send("e4", b"hello")
        await until(lambda: one.mesh.states()[0].state == "refused")
        assert "not usable" in one.mesh.states()[0].last_error
        await one.mesh.close()

    play(scene)


def test_a_listener_that_says_nothing_is_given_up_and_tried_again(
    play: Callable[[Scene], None],
) -> None:
    settings = TcpMeshSettings(handshake_s=0.05, first_retry_s=0.01, longest_retry_s=0.01)

    async def scene() -> None:
        tries = asyncio.Semaphore(0)

        class Mute(asyncio.Protocol):
            def connection_made(self, _transport: asyncio.BaseTransport) -> None:
                tries.release()

        mute = await asyncio.get_running_loop().create_server(Mute, "127.0.0.1", 0)
        one = await Server("e1", 1, settings).start()
        port = mute.sockets[0].getsockname()[1]
        one.mesh.learn([PeerAddress("e2", "127.0.0.1", port, b"\7" * 32)])
        one.mesh.send("e2", b"hello")
        for _ in range(3):
            await tries.acquire()
        await until(lambda: "no answer within 0.05 s" in one.mesh.states()[0].last_error)
        await one.mesh.close()
        mute.close()

    play(scene)


def test_distances_are_emulated_above_the_links(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        async with pair() as (_one, two):
            far = EmulatedMesh(TcpMesh("127.0.0.1", 0, b"\5" * 32, QUICK), {"e2": 0.01})
            heard = asyncio.Event()
            await far.start(lambda *_: heard.set())
            far.learn([two.address])
            two.mesh.learn([PeerAddress("far", "127.0.0.1", 1, public_key(b"\5" * 32))])
            far.send("e2", b"late")
            await two.until_heard(b"late")
            two.mesh.send("far", b"back")
            await heard.wait()
            assert [state.state for state in far.states()] == ["connected"]
            assert far.rejected == {}
            await far.close()

    play(scene)


def test_channels_above_deliver_all_while_connections_break(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        rng = random.Random(4)
        settings = TcpMeshSettings(tick_s=0.02, first_retry_s=0.005, longest_retry_s=0.02)
        async with pair(settings) as (one, two):
            channels = {"e1": PeerChannels(1), "e2": PeerChannels(1)}
            got: dict[str, list[bytes]] = {"e1": [], "e2": []}

            def flush(server: Server) -> None:
                for receiver, frame in channels[server.name].poll(time.monotonic()):
                    server.mesh.send(receiver, frame)

            def listen(server: Server, other: Server) -> None:
                def hear(sender: str, frame: bytes) -> None:
                    now = time.monotonic()
                    got[server.name] += channels[server.name].receive(sender, frame, now)
                    flush(server)

                server.mesh._peers[other.name]._on_message = hear

            listen(one, two)
            listen(two, one)
            for number in range(300):
                for server, other in ((one, two), (two, one)):
                    channels[server.name].send(other.name, b"%d" % number)
                    flush(server)
                    if rng.random() < 0.05:
                        for connection in list(server.mesh._peers[other.name]._connections):
                            connection.abort(ConnectionAbortedError("cut by the test"))
                await asyncio.sleep(0)

            def all_taken() -> bool:
                flush(one)
                flush(two)
                return not channels["e1"].waiting("e2") and not channels["e2"].waiting("e1")

            await until(all_taken)
            assert got["e1"] == got["e2"] == [b"%d" % number for number in range(300)]
            await until(lambda: one.connections(two) == two.connections(one) == 1)

    play(scene)
