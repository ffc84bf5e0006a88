"""Limits and timers of the links between servers."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearcast.wire.stream_channel import StreamSettings

__all__ = ["TcpMeshSettings"]


@dataclass(frozen=True, slots=True)
class TcpMeshSettings:
    """What a `TcpMesh` goes by; the defaults suit sites of a thousand servers."""

    tick_s: float = 1.0
    """Each side sends at least one record in this time."""
    silent_ticks: int = 4
    """Ticks without a byte after which a link counts as lost."""
    round_trip_ticks: int = 8
    """How often the round trip is measured on a link that is never idle."""
    handshake_s: float = 5.0
    """Time to connect and to exchange keys."""
    first_retry_s: float = 0.1
    longest_retry_s: float = 1.0
    """Well below `takeover_s`: a server that is back is found before it is given up."""
    renew_s: float = 3_600.0
    """A connection that is older is replaced by one with fresh keys."""
    write_limit_bytes: int = 4 << 20
    """Per server; beyond it messages are dropped."""
    queue_bytes: int = 256 << 10
    """Per server, while there is no connection; one message is always kept."""
    peer_handshakes: int = 256
    """Accepted connections from addresses of known servers whose handshakes are under way."""
    unknown_peer_handshakes: int = 32
    """The same from all other addresses."""
    unknown_peer_handshakes_per_s: float = 50.0
    """Each takes less than half a millisecond of this server's time."""
    stream: StreamSettings = field(default_factory=StreamSettings)
