"""The UDP socket, on loopback; every wait is for the socket itself."""

from __future__ import annotations

import errno
import select
import socket
import sys
import time
from collections.abc import Iterator

import pytest

from nearcast.errors import ConfigError
from nearcast.links.udp import UdpSocket
from nearcast.wire.actions import SendDatagram
from nearcast.wire.settings import Address

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own counters")


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


HOSTS = [
    "127.0.0.1",
    pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")),
]


@pytest.fixture
def pair() -> Iterator[tuple[UdpSocket, UdpSocket]]:
    one, other = UdpSocket("127.0.0.1", 0), UdpSocket("127.0.0.1", 0)
    yield one, other
    one.close()
    other.close()


def receive(port: UdpSocket, count: int) -> list[tuple[bytes, Address]]:
    got: list[tuple[bytes, Address]] = []
    while len(got) < count:
        assert select.select([port], [], [], 10)[0], "nothing arrived"
        got += port.drain()[0]
    return got


@pytest.mark.parametrize("host", HOSTS)
def test_datagrams_arrive_with_the_address_that_answers_reach(host: str) -> None:
    server, client = UdpSocket(host, 0), UdpSocket(host, 0)
    client.send([SendDatagram(server.address, b"question"), SendDatagram(server.address, b"")])
    (first, sender), (second, _) = receive(server, 2)
    assert (first, second, sender) == (b"question", b"", client.address)
    server.send([SendDatagram(sender, b"answer")])
    assert receive(client, 1) == [(b"answer", server.address)]
    server.close()
    client.close()


def test_a_drain_takes_no_more_than_its_limit_and_keeps_the_order(
    pair: tuple[UdpSocket, UdpSocket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcast.links.udp._FRESH_S", 0.0)
    server, client = pair
    client.send(SendDatagram(server.address, bytes([number])) for number in range(5))
    first = server.drain(limit=3)[0]
    rest = server.drain(limit=3)[0]
    assert [data for data, _ in first] == [b"\x00", b"\x01", b"\x02"]
    assert [data for data, _ in rest] == [b"\x03", b"\x04"]
    assert server.drain() == ([], 0.0)


@on_linux
def test_a_datagram_that_has_just_come_is_returned_alone(
    pair: tuple[UdpSocket, UdpSocket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcast.links.udp._FRESH_S", 3600.0)
    server, client = pair
    client.send([SendDatagram(server.address, b"warms up the kernel's stamps")])
    receive(server, 1)
    client.send(SendDatagram(server.address, bytes([number])) for number in range(3))
    batches = [[data for data, _ in server.drain()[0]] for _ in range(3)]
    assert batches == [[b"\x00"], [b"\x01"], [b"\x02"]]


def test_who_does_not_ask_for_senders_gets_the_same_datagrams(
    pair: tuple[UdpSocket, UdpSocket],
) -> None:
    server, client = pair
    client.send(SendDatagram(server.address, bytes([number])) for number in range(5))
    assert server.receive(limit=3) == [b"\x00", b"\x01", b"\x02"]
    assert server.receive() == [b"\x03", b"\x04"]
    assert server.receive() == []


@on_linux
def test_the_wait_of_the_first_datagram_is_what_the_clock_says(
    pair: tuple[UdpSocket, UdpSocket], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client = pair
    client.send([SendDatagram(server.address, b"warms up the kernel's stamps")])
    receive(server, 1)
    client.send([SendDatagram(server.address, b"x")])
    assert select.select([server], [], [], 10)[0]
    now_ns = time.time_ns()
    monkeypatch.setattr("nearcast.links.udp.time.time_ns", lambda: now_ns + 7_000_000_000)
    batch, waited_s = server.drain()
    assert len(batch) == 1
    assert 6.0 < waited_s < 17.0
    client.send([SendDatagram(server.address, b"x")])
    monkeypatch.setattr("nearcast.links.udp.time.time_ns", lambda: now_ns - 10**12)
    assert select.select([server], [], [], 10)[0]
    assert server.drain()[1] == 0.0


def test_sends_that_fail_are_counted_and_the_others_go_out(
    pair: tuple[UdpSocket, UdpSocket],
) -> None:
    server, client = pair
    client.send(
        [
            SendDatagram(server.address, bytes(70_000)),
            SendDatagram(("127.0.0.1", 70_000), b"x"),
            SendDatagram(server.address, b"good"),
        ]
    )
    assert client.send_drops == {"EMSGSIZE": 1, "no_address": 1}
    assert receive(server, 1)[0][0] == b"good"


def test_errors_of_the_kernel_do_not_end_a_drain(
    pair: tuple[UdpSocket, UdpSocket], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client = pair

    class Refusing:
        """Reports an ICMP answer before each datagram, and a full buffer at each send."""

        def __init__(self, real: socket.socket) -> None:
            self.real, self.is_refusing = real, True

        def refuse(self) -> None:
            self.is_refusing = not self.is_refusing
            if not self.is_refusing:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")

        def recvmsg(self, *arguments: int) -> object:
            self.refuse()
            return self.real.recvmsg(*arguments)

        def recvfrom(self, *arguments: int) -> object:
            self.refuse()
            return self.real.recvfrom(*arguments)

        def sendto(self, *_arguments: object) -> None:
            raise BlockingIOError(errno.EAGAIN, "full")

        def close(self) -> None:
            self.real.close()

    client.send([SendDatagram(server.address, b"1"), SendDatagram(server.address, b"2")])
    assert select.select([server], [], [], 10)[0]
    monkeypatch.setattr(server, "_socket", Refusing(server._socket))
    monkeypatch.setattr("nearcast.links.udp._FRESH_S", 0.0)
    assert [data for data, _ in server.drain()[0]] == [b"1", b"2"]
    assert server.receive_errors == {"ECONNREFUSED": 3}
    server.send([SendDatagram(client.address, b"x")])
    assert server.send_drops == {"EWOULDBLOCK": 1}


@on_linux
def test_datagrams_that_find_no_room_are_counted_by_the_kernel() -> None:
    server, client = (
        UdpSocket("127.0.0.1", 0, receive_buffer_bytes=4_096),
        UdpSocket("127.0.0.1", 0),
    )
    assert server.kernel_drops() == 0
    client.send(SendDatagram(server.address, bytes(1_000)) for _ in range(200))
    arrived = 0
    while batch := server.drain()[0]:
        arrived += len(batch)
    assert 0 < arrived < 200
    assert server.kernel_drops() == 200 - arrived
    server.close()
    client.close()


def test_an_address_that_cannot_be_had_is_named_with_what_to_do() -> None:
    taken = UdpSocket("127.0.0.1", 0)
    port = taken.address[1]
    with pytest.raises(ConfigError, match=rf"127\.0\.0\.1, UDP port {port}: another program"):
        UdpSocket("127.0.0.1", port)
    with pytest.raises(ConfigError, match=r"203\.0\.113\.1, .*no such address"):
        UdpSocket("203.0.113.1", 0)
    with pytest.raises(ConfigError, match="UDP port 70000"):
        UdpSocket("127.0.0.1", 70_000)
    taken.close()


def test_datagrams_gather_before_the_next_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.links.udp._FRESH_S", 0.0)
    waits_s: list[float] = []
    client = UdpSocket("127.0.0.1", 0)

    def sleep(seconds: float) -> None:
        waits_s.append(seconds)
        client.send([SendDatagram(server.address, b"meanwhile")])

    server = UdpSocket("127.0.0.1", 0, sleep=sleep)
    client.send([SendDatagram(server.address, b"first")])
    assert [data for data, _ in server.drain()[0]] == [b"first"]
    assert waits_s == []
    server.gather(3600.0)
    client.send([SendDatagram(server.address, b"second")])
    assert [data for data, _ in server.drain()[0]] == [b"second", b"meanwhile"]
    assert len(waits_s) == 1
    assert 0.0 < waits_s[0] <= 3600.0
    assert server.drain() == ([], 0.0)
    assert len(waits_s) == 1, "only once"
    server.close()
    client.close()


def test_who_comes_late_to_its_datagrams_does_not_wait() -> None:
    waits_s: list[float] = []
    server = UdpSocket("127.0.0.1", 0, sleep=waits_s.append)
    server.drain()
    server.gather(0.0)
    server.drain()
    assert waits_s == []
    server.close()
