"""Frames between a server and its helper processes: a length and the bytes, over a stream socket."""

from __future__ import annotations

from socket import socket
from struct import Struct

__all__ = ["FrameBuffer", "FrameReader", "pack_frame"]

_HEADER = Struct("<I")
_pack, _unpack_from, _SIZE = _HEADER.pack, _HEADER.unpack_from, _HEADER.size


def pack_frame(data: bytes) -> bytes:
    """Return the bytes of a frame."""
    return _pack(len(data)) + data


class FrameBuffer:
    """Cuts what a stream brings into frames.

    Parameters
    ----------
    longest_bytes
        Longer frames are refused: the other side is broken.
    """

    def __init__(self, longest_bytes: int = 1 << 30) -> None:
        self._longest_bytes = longest_bytes
        self._parts: list[bytes] = []
        self._missing_bytes = 0
        """Of the frame that has begun; looking sooner would only copy the parts again."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes and return the frames that are whole now.

        Raises
        ------
        ValueError
            When a frame is too long.
        """
        if self._missing_bytes > len(data):
            self._missing_bytes -= len(data)
            self._parts.append(data)
            return []
        if self._parts:
            data = b"".join((*self._parts, data))
            self._parts.clear()
        frames: list[bytes] = []
        at, size = 0, len(data)
        self._missing_bytes = 0
        while at + _SIZE <= size:
            (length,) = _unpack_from(data, at)
            if length > self._longest_bytes:
                raise ValueError(f"a frame of {length:,} bytes")
            end = at + _SIZE + length
            if end > size:
                self._missing_bytes = end - size
                break
            frames.append(data[at + _SIZE : end])
            at = end
        if at < size:
            self._parts.append(data[at:])
            self._missing_bytes = self._missing_bytes or 1
        return frames


class FrameReader:
    """Reads frames from a stream socket.

    The bytes go into one large buffer: a new one for each read would be mapped and unmapped each
    time, which costs more than all the rest.

    Parameters
    ----------
    longest_bytes
        As for `FrameBuffer`.
    read_bytes
        What is read at a time, at most.
    """

    def __init__(
        self, sock: socket, longest_bytes: int = 1 << 30, read_bytes: int = 1 << 18
    ) -> None:
        self._receive_into = sock.recv_into
        self._view = memoryview(bytearray(read_bytes))
        self._feed = FrameBuffer(longest_bytes).feed
        self.was_filled = False
        """Whether the last read brought all that fits, so that there may be more."""

    def read(self, flags: int = 0) -> tuple[int, list[bytes]]:
        """Return how many bytes have come, 0 at the end of the stream, and the whole frames.

        Raises
        ------
        OSError
            As the socket does.
        ValueError
            When a frame is too long.
        """
        size = self._receive_into(self._view, 0, flags)
        self.was_filled = size == len(self._view)
        return size, self._feed(bytes(self._view[:size]))
