"""Echoes on their way to the home and back."""

from __future__ import annotations

__all__ = ["Echoes"]

_LIMIT = 64


class Echoes:
    """When each was sent, by its payload; of many the oldest are forgotten."""

    def __init__(self) -> None:
        self._sent_at: dict[bytes, float] = {}

    def sent(self, payload: bytes, now: float) -> None:
        """Note an echo."""
        self._sent_at.pop(payload, None)
        self._sent_at[payload] = now
        if len(self._sent_at) > _LIMIT:
            del self._sent_at[next(iter(self._sent_at))]

    def returned(self, payload: bytes, now: float) -> float | None:
        """Return the round trip in seconds, once; None for what was not sent."""
        sent_at = self._sent_at.pop(payload, None)
        return None if sent_at is None else now - sent_at
