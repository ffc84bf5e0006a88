"""What datagrams cost a program that does nothing but take them from asyncio: a bound for the SDK.

As many of the same size at the same rate, each put into a queue for a task to take: no program
that waits for notifications in an asyncio loop can cost less.
"""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress
from multiprocessing import get_context

__all__ = ["cpu_us_per_datagram"]

_BYTES = 300
_PER_WAKE_UP = 64
_LOST_S = 2.0


def cpu_us_per_datagram(rate_hz: float, count: int) -> float:
    """Return the CPU time of this process per datagram, another one sends them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        sender = get_context("fork").Process(
            target=_send, args=(receiver.getsockname(), rate_hz, count)
        )
        sender.start()
        cpu_s, taken = asyncio.run(_take(receiver, count, count / rate_hz + _LOST_S))
        sender.join()
    return cpu_s * 1e6 / max(1, taken)


def _send(address: tuple[str, int], rate_hz: float, count: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        begin_s = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, begin_s + number / rate_hz - time.monotonic()))
            sender.sendto(bytes(_BYTES), address)


async def _take(receiver: socket.socket, count: int, limit_s: float) -> tuple[float, int]:
    waiting: asyncio.Queue[bytes] = asyncio.Queue()
    before_s, taken = time.process_time(), 0

    def read() -> None:
        with suppress(BlockingIOError):
            for _ in range(_PER_WAKE_UP):
                waiting.put_nowait(receiver.recv(2 * _BYTES))

    asyncio.get_running_loop().add_reader(receiver.fileno(), read)
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            while taken < count:
                await waiting.get()
                taken += 1
    return time.process_time() - before_s, taken
