"""A client's way to its servers: a UDP socket in a loop, names looked up, delays emulated."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any

from nearcast.errors import ConfigError
from nearcast.links.udp import UdpSocket
from nearcast.sdk.shared_line import borrow_line, return_line
from nearcast.wire.actions import SendDatagram
from nearcast.wire.settings import Address

__all__ = ["UdpPort"]

_log = logging.getLogger(__name__)

_HELD_LIMIT = 16


class UdpPort:
    """Sends and receives datagrams; none of its failures is more than a lost datagram.

    Parameters
    ----------
    loop
        The loop that it belongs to.
    on_datagrams
        Called in the loop with each batch that arrived.
    delays_s
        By server: how long datagrams are held, each way.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_datagrams: Callable[[list[bytes]], None],
        delays_s: Mapping[Address, float],
    ) -> None:
        self._loop = loop
        self._on_datagrams = on_datagrams
        self._delays_s = dict(delays_s)
        self._line = borrow_line(loop, self) if any(delays_s.values()) else None
        self._sockets: dict[str, UdpSocket] = {}
        """By the address they are bound to: one for IPv4, one for IPv6, opened when needed."""
        self.group: Address | None = None
        """The multicast group that was asked for last."""
        self._group_socket: UdpSocket | None = None
        self._looked_up: dict[Address, Address] = {}
        self._asked: dict[Address, list[SendDatagram]] = {}
        """Names on their way to the resolver, with what waits for the answer."""
        self.problem = ""
        """Why the last name was not found or socket not opened; empty when all is well."""
        self._is_closed = False

    def hold(self, delays_s: Mapping[Address, float]) -> None:
        """Hold datagrams for other times from now on, each way."""
        self._delays_s = dict(delays_s)
        if self._line is None and any(delays_s.values()):
            self._line = borrow_line(self._loop, self)

    def longest_delay_s(self) -> float:
        """Return how long the slowest datagram may be held."""
        return max(self._delays_s.values(), default=0.0)

    def send(self, datagrams: Iterable[SendDatagram]) -> None:
        """Send datagrams, after their delays."""
        if self._line is None:
            self._send_now(datagrams)
            return
        for datagram in datagrams:
            delay_s = self._delays_s.get(datagram.address, 0.0)
            if delay_s > 0:
                self._line.push((self._send_now, datagram), delay_s)
            else:
                self._send_now((datagram,))

    def listen_to(self, group: Address | None, home: Address) -> None:
        """Receive what is sent to a multicast group, where the home is reached; None: to none.

        When the group cannot be joined, nothing comes from there.
        """
        self.group = group
        if self._group_socket is not None:
            self._loop.remove_reader(self._group_socket.fileno())
            self._group_socket.close()
            self._group_socket = None
        target = self._looked_up.get(home)
        if group is None or target is None or self._is_closed:
            return
        try:
            self._group_socket = UdpSocket(*group, interface=_way_to(target))
        except (ConfigError, OSError) as error:
            _log.info("the multicast group %s:%d is not heard: %s", *group, error)
            return
        self._loop.add_reader(self._group_socket.fileno(), self._drain, self._group_socket)

    def close(self) -> None:
        """Close the sockets; what is held is lost."""
        self.listen_to(None, ("", 0))
        self._is_closed = True
        return_line(self._loop, self)
        for opened in self._sockets.values():
            self._loop.remove_reader(opened.fileno())
            opened.close()
        self._sockets.clear()

    def _send_now(self, datagrams: Iterable[SendDatagram]) -> None:
        for datagram in datagrams:
            target = self._looked_up.get(datagram.address) or self._look_up(datagram)
            opened = self._socket_for(target) if target is not None else None
            if target is not None and opened is not None:
                opened.send((SendDatagram(target, datagram.data),))

    def _socket_for(self, target: Address) -> UdpSocket | None:
        bound_to = "::" if ":" in target[0] else "0.0.0.0"
        opened = self._sockets.get(bound_to)
        if opened is None and not self._is_closed:
            try:
                opened = UdpSocket(bound_to, 0)
            except ConfigError as error:
                self._complain(str(error))
                return None
            self._sockets[bound_to] = opened
            self._loop.add_reader(opened.fileno(), self._drain, opened)
        return opened

    def _complain(self, problem: str) -> None:
        """Remember what is wrong, and log it once."""
        if problem != self.problem:
            _log.warning("%s", problem)
        self.problem = problem

    def _drain(self, opened: UdpSocket) -> None:
        if self._line is None:
            at_once = opened.receive()
        else:
            at_once = []
            for data, sender in opened.drain()[0]:
                delay_s = self._delays_s.get(sender, 0.0)
                if delay_s > 0:
                    self._line.push((self._take, data), delay_s)
                else:
                    at_once.append(data)
        if at_once:
            self._take(at_once)

    def _take(self, datagrams: list[bytes]) -> None:
        if not self._is_closed:
            self._on_datagrams(datagrams)

    # Names: looked up aside, because the resolver blocks

    def _look_up(self, datagram: SendDatagram) -> Address | None:
        """Return the numeric address; None while the resolver is asked, which sends it later."""
        address = datagram.address
        try:
            ip_address(address[0].partition("%")[0])
        except ValueError:
            held = self._asked.get(address)
            if held is None:
                held = self._asked[address] = []
                ask = partial(socket.getaddrinfo, *address, type=socket.SOCK_DGRAM)
                answer = self._loop.run_in_executor(None, ask)
                answer.add_done_callback(partial(self._on_answer, address))
            del held[_HELD_LIMIT - 1 :]
            held.append(datagram)
            return None
        self._looked_up[address] = address
        return address

    def _on_answer(self, address: Address, answer: asyncio.Future[list[Any]]) -> None:
        held = self._asked.pop(address)
        if self._is_closed or answer.cancelled():
            return
        error = answer.exception()
        if error is not None:
            self._complain(f"{address[0]!r} cannot be looked up: {error}")
            return  # the session repeats what was lost, and that asks again
        host, port, *_ = answer.result()[0][4]
        self.problem = ""
        self._looked_up[address] = target = (host, port)
        if address in self._delays_s:
            self._delays_s[target] = self._delays_s[address]
        self._send_now(held)  # their delay has passed


def _way_to(target: Address) -> str:
    """Return the address of this machine from which another one is reached; OSError: from none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect(target)
        host: str = asked.getsockname()[0]
        return host
