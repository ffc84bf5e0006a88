"""The seam between servers: a pipe that may lose, repeat and reorder; channels above mend it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["MeshLink", "OnMeshMessage"]

OnMeshMessage = Callable[[str, bytes], None]
"""Gets the sender's id and the bytes, in the event loop; must not raise."""


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

    def send(self, to_server: str, data: bytes) -> None:
        """Try to deliver bytes; never waits, never raises, and does not say what became of them."""
        ...

    def stuck_s(self) -> float:
        """Return for how long a message has been under way to the library below: 0 if none is."""
        ...

    async def close(self) -> None:
        """Stop; may be called twice, and without a start."""
        ...
