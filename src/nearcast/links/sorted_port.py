"""The UDP port of a server: what looks like a session's does not wait behind strangers' datagrams."""

from __future__ import annotations

from collections import Counter

from nearcast.errors import ConfigError
from nearcast.links.udp import UdpSocket
from nearcast.wire.framing import FirstWord
from nearcast.wire.settings import Address

__all__ = ["SortedPort"]

_STRANGERS_BUFFER_BYTES = 1 << 19
"""Small, so that in a flood newcomers get answers to their last try, not to one before."""


class SortedPort:
    """One port with two receive buffers, into which the kernel sorts datagrams.

    Strangers that flood it fill up their own buffer, and cost no more than is read from there.

    Parameters
    ----------
    host, port, largest_bytes
        See `UdpSocket`.
    known
        How datagrams of sessions begin.

    Raises
    ------
    ConfigError
        When the address cannot be had.
    """

    def __init__(self, host: str, port: int, largest_bytes: int, known: FirstWord) -> None:
        first = UdpSocket(
            host, port, largest_bytes=largest_bytes
        )  # alone: a port in use is noticed
        self.address: Address = first.address
        """Host and port at which it listens."""
        second = _open_second(first, largest_bytes, known)
        self.sessions = second or first
        """Gets what begins like a session's datagrams, and sends."""
        self.strangers = None if second is None else first
        """Gets all else; None where the kernel cannot sort."""

    def receive_errors(self) -> Counter[str]:
        """Return the errors that the kernel reported instead of datagrams, by name."""
        strangers = self.strangers
        return self.sessions.receive_errors + (strangers.receive_errors if strangers else Counter())

    def close(self) -> None:
        """Let go of the port."""
        self.sessions.close()
        if self.strangers is not None:
            self.strangers.close()


def _open_second(first: UdpSocket, largest_bytes: int, known: FirstWord) -> UdpSocket | None:
    host, port = first.address
    try:
        first.share_port()
        second = UdpSocket(host, port, largest_bytes=largest_bytes, shared=True)
    except (OSError, ConfigError):
        first.share_port(False)
        return None
    try:
        second.sort_by(known)
    except OSError:
        second.close()
        first.share_port(False)
        return None
    first.set_receive_buffer(_STRANGERS_BUFFER_BYTES)
    return second
