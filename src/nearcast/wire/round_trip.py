"""How long to wait for an answer, learned from earlier answers."""

from __future__ import annotations

from nearcast.wire.settings import WireSettings

__all__ = ["RoundTrip"]


class RoundTrip:
    """Smoothed round-trip time and its deviation, as in RFC 6298."""

    def __init__(self, settings: WireSettings) -> None:
        self._settings = settings
        self.smoothed_s: float | None = None
        self._deviation_s = 0.0
        self.wait_s = settings.first_retry_s
        """How long to wait before something is sent a second time."""

    def learn(self, sample_s: float) -> None:
        """Take a measured time; never one of something that was sent twice."""
        if self.smoothed_s is None:
            self.smoothed_s, self._deviation_s = sample_s, sample_s / 2
        else:
            self._deviation_s += (abs(self.smoothed_s - sample_s) - self._deviation_s) / 4
            self.smoothed_s += (sample_s - self.smoothed_s) / 8
        wait_s, settings = self.smoothed_s + 4 * self._deviation_s, self._settings
        self.wait_s = min(max(wait_s, settings.least_retry_s), settings.longest_retry_s)
