"""The UDP port of a server: what looks like a session's does not wait behind strangers' datagrams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nearcast.errors import ConfigError
from nearcast.links.udp import UdpSocket
from nearcast.wire.framing import FirstWord
from nearcast.wire.settings import Address

__all__ = ["SortedPort"]

_STRANGERS_BUFFER_BYTES = 1 << 19
"""Small, so that in a flood newcomers get answers to their last try, not to one before."""


class SortedPort:
    """One port with four receive buffers, into which the kernel sorts datagrams.

    Strangers that flood it fill up their own buffer, and cost no more than is read from there.

    Parameters
    ----------
    host, port, largest_bytes
        See `UdpSocket`.
    words
        How datagrams of sessions begin: most of them, those that are marked as urgent, and those
        that may wait for others.

    Raises
    ------
    ConfigError
        When the address cannot be had.
    """

    def __init__(self, host: str, port: int, largest_bytes: int, *words: FirstWord) -> None:
        first = UdpSocket(
            host, port, largest_bytes=largest_bytes
        )  # alone: a port in use is noticed
        self.address: Address = first.address
        """Host and port at which it listens."""
        others = _open_others(first, largest_bytes, words)
        self.sessions = others[0] if others else first
        """Gets what begins like a session's datagrams, and sends."""
        self.urgent = others[1] if others else None
        """Gets those that are marked as urgent; None where the kernel cannot sort."""
        self.patient = others[2] if others else None
        """Gets those that may wait; None as above."""
        self.strangers = first if others else None
        """Gets all else; None as above."""

    def receive_errors(self) -> Counter[str]:
        """Return the errors that the kernel reported instead of datagrams, by name."""
        errors = self.sessions.receive_errors + Counter()
        for other in (self.urgent, self.patient, self.strangers):
            if other is not None:
                errors += other.receive_errors
        return errors

    def session_drops(self) -> int | None:
        """Return how many datagrams of sessions were not handed on; None where nobody counts."""
        counted = [
            (one.kernel_drops(), one.muted_drops)
            for one in (self.sessions, self.urgent, self.patient)
            if one is not None
        ]
        if any(kernel is None for kernel, _ in counted):
            return None
        return sum((kernel or 0) + muted for kernel, muted in counted)

    def close(self) -> None:
        """Let go of the port."""
        for one in (self.sessions, self.urgent, self.patient, self.strangers):
            if one is not None:
                one.close()


def _open_others(
    first: UdpSocket, largest_bytes: int, words: Sequence[FirstWord]
) -> list[UdpSocket] | None:
    host, port = first.address
    opened: list[UdpSocket] = []
    try:
        first.share_port()
        while len(opened) < len(words):
            opened.append(UdpSocket(host, port, largest_bytes=largest_bytes, shared=True))
        opened[-1].sort_by(words)
    except (OSError, ConfigError):
        for one in opened:
            one.close()
        first.share_port(False)
        return None
    first.set_receive_buffer(_STRANGERS_BUFFER_BYTES)
    return opened
