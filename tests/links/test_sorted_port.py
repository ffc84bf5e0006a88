"""A port with four receive buffers, on loopback; every wait is for the sockets themselves."""

from __future__ import annotations

import errno
import select
import sys
from collections.abc import Iterator

import pytest

from nearcast.errors import ConfigError
from nearcast.links.sorted_port import SortedPort
from nearcast.links.udp import UdpSocket
from nearcast.wire.actions import SendDatagram
from nearcast.wire.framing import FirstWord

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel sorts")
KNOWN = FirstWord(0x1400_ABC0, 0xFFFF_FFF0)
URGENT = FirstWord(0x1401_ABC0, 0xFFFF_FFF0)
PATIENT = FirstWord(0x1402_ABC0, 0xFFFF_FFF0)
WORDS = (KNOWN, URGENT, PATIENT)
MARKED = bytes.fromhex("1401abc7 01020304")
RECEIPT = bytes.fromhex("1402abc7 01020304")
SESSION = bytes.fromhex("1400abc7 01020304")
STRANGERS = [b"", b"\x14", bytes.fromhex("1400abd7"), bytes.fromhex("1500abc7"), bytes(300)]


@pytest.fixture
def port() -> Iterator[SortedPort]:
    one = SortedPort("127.0.0.1", 0, 1_201, *WORDS)
    yield one
    one.close()


@pytest.fixture
def client() -> Iterator[UdpSocket]:
    one = UdpSocket("127.0.0.1", 0)
    yield one
    one.close()


def receive(socket: UdpSocket, count: int) -> list[bytes]:
    got: list[bytes] = []
    while len(got) < count:
        assert select.select([socket], [], [], 10)[0], "nothing arrived"
        got += [data for data, _ in socket.take(count)]
    return got


def has_ipv6() -> bool:
    try:
        UdpSocket("::1", 0).close()
    except ConfigError:
        return False
    return True


@on_linux
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_datagrams_of_sessions_and_of_strangers_wait_apart(host: str) -> None:
    if ":" in host and not has_ipv6():
        pytest.skip("no IPv6 here")
    near = "::1" if ":" in host else "127.0.0.1"
    port, client = SortedPort(host, 0, 1_201, *WORDS), UdpSocket(near, 0)
    assert port.strangers is not None
    assert port.urgent is not None
    assert port.patient is not None
    for data in (*STRANGERS, SESSION, MARKED, RECEIPT):
        client.send([SendDatagram((near, port.address[1]), data)])
    assert receive(port.strangers, len(STRANGERS)) == STRANGERS
    assert receive(port.sessions, 1) == [SESSION]
    assert receive(port.urgent, 1) == [MARKED]
    assert receive(port.patient, 1) == [RECEIPT]
    port.sessions.send([SendDatagram(client.address, b"answer")])
    assert client.take(1) == [(b"answer", (near, port.address[1]))]
    port.close()
    client.close()


@on_linux
def test_a_flood_of_strangers_pushes_no_session_out(port: SortedPort, client: UdpSocket) -> None:
    assert port.strangers is not None
    for _ in range(20):
        client.send(SendDatagram(port.address, bytes(1_000)) for _ in range(1_000))
        client.send([SendDatagram(port.address, SESSION)])
    assert receive(port.sessions, 20) == [SESSION] * 20
    assert port.sessions.kernel_drops() == 0
    assert port.strangers.kernel_drops()


@on_linux
@pytest.mark.parametrize("muted", [1, 128])
def test_the_kernel_drops_what_muted_sessions_send(
    port: SortedPort, client: UdpSocket, muted: int
) -> None:
    def send_all() -> None:
        for number in range(200):
            client.send([SendDatagram(port.address, SESSION[:5] + bytes([number]) + bytes(30))])

    port.sessions.drop([0x_ABC7_0100 + number for number in range(muted)])
    send_all()
    heard = [data[5] for data in receive(port.sessions, 200 - muted)]
    assert heard == [*range(muted, 200)]
    assert port.sessions.kernel_drops() == muted
    port.sessions.drop([])
    send_all()
    assert len(receive(port.sessions, 200)) == 200


@on_linux
def test_what_waits_of_a_session_that_is_muted_now_is_not_handed_on(
    port: SortedPort, client: UdpSocket
) -> None:
    assert port.urgent is not None
    for number in range(200):
        marks = (SESSION[:2], MARKED[:2])
        client.send(
            SendDatagram(port.address, mark + SESSION[2:5] + bytes([number % 2]) + bytes(30))
            for mark in marks
        )
    for one in (port.sessions, port.urgent):
        one.drop([int.from_bytes(SESSION[2:5], "big") << 8])
        heard = receive(one, 100)
        assert {data[5] for data in heard} == {1}
        one.drain(200)
        assert not one.drain(1)[0]
    assert port.session_drops() == 200
    assert (port.sessions.kernel_drops(), port.urgent.kernel_drops()) == (0, 0)


@on_linux
def test_a_port_that_another_server_sorts_is_in_use(port: SortedPort) -> None:
    with pytest.raises(ConfigError, match="another program uses it"):
        SortedPort("127.0.0.1", port.address[1], 1_201, *WORDS)


def test_where_the_kernel_cannot_sort_one_buffer_gets_all(
    monkeypatch: pytest.MonkeyPatch, client: UdpSocket
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOPROTOOPT, "no such option")

    monkeypatch.setattr("nearcast.links.udp.sort_by_first_word", refuse)
    port = SortedPort("127.0.0.1", 0, 1_201, *WORDS)
    assert port.strangers is None
    for data in (*STRANGERS, SESSION):
        client.send([SendDatagram(port.address, data)])
    assert receive(port.sessions, 6) == [*STRANGERS, SESSION]
    with pytest.raises(ConfigError, match="another program uses it"):
        UdpSocket("127.0.0.1", port.address[1], shared=True)
    port.close()
