"""The seam between servers: a pipe that may lose messages; channels above repeat them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = ["LinkState", "MeshLink", "OnMeshMessage", "PeerAddress", "State"]

State = Literal["connected", "connecting", "waiting", "refused", "idle"]
"""``waiting``: until the next try; ``refused``: the same, after the other side answered but did not
accept this server's key or did not prove its own; ``idle``: nothing was to be sent yet."""

OnMeshMessage = Callable[[str, bytes], None]
"""Gets the sender's id, proved by its key, and the bytes, in the event loop; must not raise."""


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Another server: where it listens, and the key that proves its identity."""

    server: str
    host: str
    port: int
    public_key: bytes


@dataclass(frozen=True, slots=True)
class LinkState:
    """How the link to another server is now."""

    server: str
    state: State
    since_s: float
    """For how long."""
    round_trip_ms: float | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    queued_bytes: int = 0
    """What waits in this process until the other side can take it."""
    dropped_messages: int = 0
    """For which there was no room; the channels above repeat them."""
    last_error: str = ""
    """Why the last connection ended or could not be made; empty while connected."""

    @property
    def is_down(self) -> bool:
        """Whether the other server could not be reached when it was tried last."""
        return self.state != "connected" and bool(self.last_error)


class MeshLink(Protocol):
    """One server's way to all others."""

    async def start(self, on_message: OnMeshMessage) -> None:
        """Begin to listen and to connect; others need not be there yet.

        Raises
        ------
        ConfigError
            When it cannot listen.
        """
        ...

    def learn(self, peers: Iterable[PeerAddress]) -> None:
        """Replace what is known about other servers; those not named are cut off and refused."""
        ...

    def send(self, to_server: str, data: bytes) -> None:
        """Try to deliver bytes; never waits, never raises, and does not say what became of them."""
        ...

    def states(self) -> list[LinkState]:
        """Return how the link to each known server is."""
        ...

    @property
    def rejected(self) -> Mapping[str, int]:
        """Connections that were not accepted, by reason."""
        ...

    async def close(self) -> None:
        """Stop; may be called twice, and without a start."""
        ...
