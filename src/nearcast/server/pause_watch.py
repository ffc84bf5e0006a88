"""Notices that this server was stopped for long: others may have gone on without it meanwhile.

What waits for it then (datagrams, messages) is older than what others have done since, and their
claims wait behind it. So it owns nothing any more, as after a restart, and asks the others first.
"""

from __future__ import annotations

from nearcast.broker.broker import Broker
from nearcast.server.effects import Effects
from nearcast.server.introductions import Introductions

__all__ = ["PauseWatch"]


class PauseWatch:
    """Looks at the time of each pass.

    Parameters
    ----------
    takeover_s
        After which others go on without this server.
    """

    def __init__(
        self, takeover_s: float, broker: Broker, introductions: Introductions, effects: Effects
    ) -> None:
        self._takeover_s, self._broker = takeover_s, broker
        self._introductions, self._effects = introductions, effects
        self._last_s = float("inf")

    def note(self, now: float) -> None:
        """Begin a pass, before anything that waited is looked at."""
        paused_s = now - self._last_s
        self._last_s = now
        if paused_s >= self._takeover_s:
            self._effects.incident("was_paused", seconds=round(paused_s, 3))
            self._broker.claims.disown()
            self._introductions.ask(self._broker.topics)

    def next_wakeup(self) -> float:
        """Return when to call `note` at the latest: often enough to tell a pause from a rest."""
        return self._last_s + self._takeover_s / 3
