"""The UDP socket of a server or client: drained in batches, and never stopped by an error."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from nearcast.errors import ConfigError
from nearcast.links.kernel_filter import drop_indices, sort_by_first_word
from nearcast.wire.actions import Datagram
from nearcast.wire.framing import SESSION_INDEX, FirstWord
from nearcast.wire.settings import Address

__all__ = ["UdpSocket"]

_SO_TIMESTAMPNS = 35  # Linux; the socket module has no name for it
_TIMESPEC = struct.Struct("@ll")
_LARGEST_BYTES = 1 << 16
_FRESH_S = 50e-6
_PROC_TABLES = (Path("/proc/net/udp"), Path("/proc/net/udp6"))


class UdpSocket:
    """A bound, non-blocking UDP socket.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes any free one. A host with colons is IPv6.
    receive_buffer_bytes
        How much the kernel may keep for us; it may grant less.
    largest_bytes
        Of a datagram; larger ones are cut. Less is quicker: room is made for each one.
    shared
        Whether another socket with a shared port may have the same address.
    sleep
        Waits for datagrams that are to gather.
    interface
        An address of this machine at which to join the multicast group `host`, as others may.

    Raises
    ------
    ConfigError
        When the address cannot be had.
    """

    def __init__(
        self,
        host: str,
        port: int,
        receive_buffer_bytes: int = 4 << 20,
        largest_bytes: int = _LARGEST_BYTES,
        shared: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        interface: str | None = None,
    ) -> None:
        self._largest_bytes = largest_bytes
        self._sleep = sleep
        self._drained_at_s = self._drain_at_s = float("-inf")
        self._muted: frozenset[bytes] = frozenset()
        self.muted_drops = 0
        """Datagrams that were dropped when read: of sessions that `drop` named afterwards."""
        self.send_drops: Counter[str] = Counter()
        """Datagrams that could not be sent, by the name of the error."""
        self.receive_errors: Counter[str] = Counter()
        """Errors that the kernel reported instead of a datagram, by name."""
        if not 0 <= port < 1 << 16:  # the look-up would take the remainder
            raise _cannot_listen(host, port, ValueError("ports end at 65535"))
        try:
            family, *_, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE
            )[0]
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:
            raise _cannot_listen(host, port, error) from None
        try:
            self._socket.setblocking(False)
            self.set_receive_buffer(receive_buffer_bytes)
            if shared:
                self.share_port()
            if interface is not None:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
            if interface is not None:
                joined = socket.inet_aton(host) + socket.inet_aton(interface)
                self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        except OSError as error:
            self._socket.close()
            raise _cannot_listen(host, port, error) from None
        with contextlib.suppress(OSError):  # without it, waits count as 0
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.address: Address = _plain(self._socket.getsockname())
        """Host and port at which it listens."""

    def fileno(self) -> int:
        """Return the descriptor, for `loop.add_reader`."""
        return self._socket.fileno()

    def drain(self, limit: int = 64) -> tuple[list[tuple[bytes, Address]], float]:
        """Return up to `limit` datagrams, and for how many seconds the first had waited.

        One that has just come is returned alone: most often there is no other, and to ask costs
        as much as to be called once more.
        """
        self._wait()
        for tries in range(1, limit + 1):
            try:
                # only the first tells its time: recvmsg costs more than recvfrom
                data, ancillary, _flags, sender = self._socket.recvmsg(self._largest_bytes, 64)
            except BlockingIOError:
                break
            except OSError as error:  # an ICMP answer to an earlier send, say
                self.receive_errors[_name(error)] += 1
                continue
            if data[SESSION_INDEX] in self._muted:
                self.muted_drops += 1
                continue
            waited_s = _waited_s(ancillary)
            batch = [(data, sender if len(sender) == 2 else _plain(sender))]
            if not 0.0 < waited_s < _FRESH_S:
                batch += self.take(limit - tries)
            return batch, waited_s
        return [], 0.0

    def take(self, limit: int) -> list[tuple[bytes, Address]]:
        """Return up to `limit` datagrams with their senders."""
        batch: list[tuple[bytes, Address]] = []
        receive, muted = self._socket.recvfrom, self._muted
        for _ in range(limit):
            try:
                data, sender = receive(self._largest_bytes)
            except BlockingIOError:
                break
            except OSError as error:
                self.receive_errors[_name(error)] += 1
                continue
            if muted and data[SESSION_INDEX] in muted:
                self.muted_drops += 1
                continue
            batch.append((data, sender if len(sender) == 2 else _plain(sender)))
        return batch

    def gather(self, seconds: float) -> None:
        """Have the next `drain` begin so long after the last one began, if not later anyway.

        It blocks until then, because the timers of loops go by whole milliseconds.
        """
        self._drain_at_s = self._drained_at_s + seconds

    def _wait(self) -> None:
        now_s = time.monotonic()
        if now_s < self._drain_at_s:
            self._sleep(self._drain_at_s - now_s)
            now_s = time.monotonic()
        self._drained_at_s, self._drain_at_s = now_s, float("-inf")

    def receive(self, limit: int = 64) -> list[bytes]:
        """Return up to `limit` datagrams; cheaper than `drain` when nobody asks who sent them."""
        batch: list[bytes] = []
        receive = self._socket.recv
        for _ in range(limit):
            try:
                batch.append(receive(self._largest_bytes))
            except BlockingIOError:
                break
            except OSError as error:
                self.receive_errors[_name(error)] += 1
        return batch

    def send(self, datagrams: Iterable[Datagram]) -> None:
        """Send what the kernel takes; the rest is dropped and counted."""
        send_to = self._socket.sendto
        for datagram in datagrams:
            try:
                send_to(datagram.data, datagram.address)
            except OSError as error:
                self.send_drops[_name(error)] += 1
            except (UnicodeError, OverflowError):
                self.send_drops["no_address"] += 1

    def kernel_drops(self) -> int | None:
        """Return how many datagrams found the receive buffer full; None where nobody counts."""
        inode = str(os.fstat(self.fileno()).st_ino)
        for table in _PROC_TABLES:
            with contextlib.suppress(OSError):
                for line in table.read_text().splitlines()[1:]:
                    columns = line.split()
                    if columns[9] == inode:
                        return int(columns[-1])
        return None

    def set_receive_buffer(self, size_bytes: int) -> None:
        """Ask the kernel for so much room; it may grant less."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)

    def send_to_groups(self, interface: str, ttl: int) -> None:
        """Have datagrams to multicast groups leave at an interface, and pass up to `ttl` routers.

        Parameters
        ----------
        interface
            An address of this machine; empty: as the system chooses.

        Raises
        ------
        ConfigError
            When this machine has no such interface.
        """
        try:
            if interface:
                at = socket.inet_aton(interface)
                self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, at)
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        except OSError as error:
            problem = f"cannot send to multicast groups at {interface}"
            raise ConfigError(f"{problem}: {error.strerror or error}") from None

    def share_port(self, shared: bool = True) -> None:
        """Let another socket of this user have the same address, if it shares its port too."""
        if not hasattr(socket, "SO_REUSEPORT"):
            raise OSError(errno.EOPNOTSUPP, "ports cannot be shared here")
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)

    def sort_by(self, words: Sequence[FirstWord]) -> None:
        """Sort what this and earlier sockets of a shared port get, see `sort_by_first_word`."""
        sort_by_first_word(self._socket, words)

    def drop(self, indices: Collection[int]) -> None:
        """Receive nothing for these sessions and, as before, all for others.

        What waits already is dropped when it is read. OSError says that the kernel cannot drop
        what comes, and that is read as well.
        """
        self._muted = frozenset(one.to_bytes(4, "big") for one in indices)
        drop_indices(self._socket, indices)

    def close(self) -> None:
        """Let go of the port."""
        self._socket.close()


def _plain(address: tuple[Any, ...]) -> Address:
    host, port, *more = address
    if len(more) == 2 and more[1]:  # a link-local address means nothing without its interface
        return f"{host}%{more[1]}", port
    return host, port


def _waited_s(ancillary: list[tuple[int, int, bytes]]) -> float:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) == _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            waited_ns: int = time.time_ns() - seconds * 1_000_000_000 - nanoseconds
            return max(0, waited_ns) / 1e9
    return 0.0


def _name(error: OSError) -> str:
    if isinstance(error, BlockingIOError):
        return "EWOULDBLOCK"
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def _cannot_listen(host: str, port: int, error: Exception) -> ConfigError:
    code = getattr(error, "errno", None)
    if code == errno.EADDRINUSE:
        advice = "another program uses it; choose another port, or end that program"
    elif code == errno.EADDRNOTAVAIL:
        advice = "this machine has no such address; use one of its own, or 0.0.0.0 for all"
    elif code == errno.EACCES:
        advice = "ports below 1024 need more rights; choose a higher one"
    else:
        advice = f"{getattr(error, 'strerror', None) or error}; check host and port"
    return ConfigError(f"cannot listen at {host}, UDP port {port}: {advice}")
