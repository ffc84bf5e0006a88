"""The server's end of the pipe to its processor child: frames both ways, and nothing blocks."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from socket import socket

from nearcast.runtime.processor_frames import HEADER, LONGEST_ANSWER_BYTES

__all__ = ["ProcessorLink"]

_READ_BYTES = 1 << 18


class ProcessorLink:
    """Frames over a stream socket.

    Parameters
    ----------
    on_frame
        Gets each frame that comes.
    on_lost
        Told once, with the reason, when no more can come; not after `close`.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        sock: socket,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[str], None],
    ) -> None:
        sock.setblocking(False)
        self._loop, self._socket = loop, sock
        self._on_frame, self._on_lost = on_frame, on_lost
        self._on_sent: Callable[[], None] | None = None
        self._received = bytearray()
        self._outgoing: deque[Iterator[bytes]] = deque()
        self._unsent = memoryview(b"")
        self._is_open = True
        loop.add_reader(sock, self.read)

    def send(self, frames: Iterable[bytes], on_sent: Callable[[], None] | None = None) -> None:
        """Send frames; each is asked for when there is room for it."""
        self._outgoing.append(iter(frames))
        self._on_sent = on_sent
        self._write()

    def read(self) -> None:
        """Take what has come, if anything has."""
        try:
            data = self._socket.recv(_READ_BYTES) if self._is_open else b""
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(f"its process cannot be heard: {error}")
            return
        if not data:
            self._lose("its process died")
            return
        self._received += data
        while self._is_open and len(self._received) >= HEADER.size:
            (length,) = HEADER.unpack_from(self._received)
            end = HEADER.size + length
            if length > LONGEST_ANSWER_BYTES:
                self._lose(f"its process answered with {length:,} bytes")
            elif len(self._received) < end:
                return
            else:
                found = bytes(self._received[HEADER.size : end])
                del self._received[:end]
                self._on_frame(found)

    def close(self) -> None:
        """Forget about the other side."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()

    def _write(self) -> None:
        try:
            while True:
                while not self._unsent and self._outgoing:
                    self._unsent = memoryview(next(self._outgoing[0], b""))
                    if not self._unsent:
                        self._outgoing.popleft()
                if not self._unsent:
                    break
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._write)
            return
        except OSError as error:
            self._lose(f"its process died: {error}")
            return
        self._loop.remove_writer(self._socket)
        if self._on_sent is not None:
            on_sent, self._on_sent = self._on_sent, None
            on_sent()

    def _lose(self, reason: str) -> None:
        if self._is_open:
            self.close()
            self._on_lost(reason)
