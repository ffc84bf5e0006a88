"""The server's end of the socket to a helper process: frames both ways, and nothing blocks."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from socket import SHUT_WR, SO_SNDBUF, SOL_SOCKET, socket

from nearcast.runtime.pipe_frames import FrameReader

__all__ = ["HelperLink"]

_BUFFER_BYTES = 1 << 20


class HelperLink:
    """Frames over a stream socket; what the socket does not take waits in memory.

    Parameters
    ----------
    on_frames
        Gets the frames that have come at a time.
    on_lost
        Told once, with the reason, when no more can come; not after `close`.
    longest_bytes
        A longer frame from the other side counts as its loss.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        sock: socket,
        on_frames: Callable[[list[bytes]], None],
        on_lost: Callable[[str], None],
        longest_bytes: int = 1 << 30,
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(SOL_SOCKET, SO_SNDBUF, _BUFFER_BYTES)
        self._loop, self._socket = loop, sock
        self._on_frames, self._on_lost = on_frames, on_lost
        self._reader = FrameReader(sock, longest_bytes)
        self._unsent: deque[bytes | memoryview] = deque()
        self.unsent_bytes = 0
        """Bytes that wait because the other side does not read."""
        self._is_waiting = self._is_ending = False
        self._is_open = True
        loop.add_reader(sock, self.read)

    def send(self, data: bytes) -> None:
        """Send whole frames, now or when there is room."""
        if not self._is_open:
            return
        if not self._is_waiting:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                # what it said last is still to be read, and then its end
                self._loop.call_soon(self.read)
                return
            if sent == len(data):
                return
            data = data[sent:]
            self._is_waiting = True
            self._loop.add_writer(self._socket, self._write)
        self._unsent.append(data)
        self.unsent_bytes += len(data)

    def end(self) -> None:
        """Tell the other side, after all that was sent, that nothing follows."""
        self._is_ending = True
        if self._is_open and not self._is_waiting:
            self._shut_down()

    def read(self) -> None:
        """Take what has come, if anything has."""
        if not self._is_open:
            return
        try:
            size, frames = self._reader.read()
        except BlockingIOError:
            return
        except ConnectionResetError:  # it had not read all when it ended
            self._lose("its process died")
            return
        except (OSError, ValueError) as error:
            self._lose(f"its process cannot be heard: {error}")
            return
        if frames:
            self._on_frames(frames)
        if not size:
            self._lose("its process died")

    def close(self) -> None:
        """Forget about the other side."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket)
            if self._is_waiting:
                self._loop.remove_writer(self._socket)
            self._socket.close()

    def _write(self) -> None:
        try:
            while self._unsent:
                data = memoryview(self._unsent[0])
                sent = self._socket.send(data)
                self.unsent_bytes -= sent
                if sent < len(data):
                    self._unsent[0] = data[sent:]
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
            self.unsent_bytes = 0
            self._loop.call_soon(self.read)
        self._is_waiting = False
        self._loop.remove_writer(self._socket)
        if self._is_ending:
            self._shut_down()

    def _shut_down(self) -> None:
        try:
            self._socket.shutdown(SHUT_WR)
        except OSError:
            self._loop.call_soon(self.read)

    def _lose(self, reason: str) -> None:
        if self._is_open:
            self.close()
            self._on_lost(reason)
