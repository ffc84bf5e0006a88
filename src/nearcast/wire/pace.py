"""How much clients send: far more than they may, and they are not heard for a moment."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from nearcast.wire.backoff import next_wait_s

__all__ = ["LONGEST_MUTE_S", "MUTE_S", "Pace", "Paces"]

MUTE_S = 1.0
"""How long a client is not heard; what it repeats for that time counts for nothing."""
LONGEST_MUTE_S = 8.0
"""The same for one that goes on all the while: each time that it is heard again costs a little."""
_UNITS_PER_MESSAGE = 4.0
"""A datagram costs one unit and each message in it another: twice the allowed rate is let through,
so that clients are told to wait long before they are muted."""
_URGENT_PER_S = 200.0
"""Marked datagrams that a client may send, if it may use classes that are urgent."""
_FALSE_URGENT_PER_S = 10.0
"""The same if it may not: each is read before those of others, to be refused."""
_LEAST_MESSAGES_PER_S = 250.0
"""Receipts and reports come also from clients that may hardly publish."""


class Pace:
    """What one client may still send; only what its key has sealed counts."""

    __slots__ = ("_mute_s", "_since", "_units_per_s", "credit", "low", "muted_until")

    def __init__(self, units_per_s: float, now: float) -> None:
        self._units_per_s = self.credit = units_per_s
        self._mute_s, self._since = MUTE_S, now
        self.low = units_per_s / 2
        """Below it the time that has passed is counted, for each datagram; above it is not worth it."""
        self.muted_until = float("-inf")

    def spend_urgent(self, classes: Collection[str]) -> None:
        """Count a marked datagram of a client that may use some urgent classes, or none."""
        per_s = _URGENT_PER_S if classes else _FALSE_URGENT_PER_S
        self.credit -= self._units_per_s / per_s

    def refill(self, now: float) -> None:
        """Add what the time allows, at most a second's worth."""
        earned = max(0.0, now - self._since) * self._units_per_s
        self.credit = min(self._units_per_s, self.credit + earned)
        self._since = now

    def mute(self, now: float) -> None:
        """Hear no more for a while, after `credit` fell below 0."""
        # it went on: muted again before it was heard for as long as it was not
        goes_on = now - self.muted_until < self._mute_s
        self._mute_s = next_wait_s(self._mute_s if goes_on else 0.0, LONGEST_MUTE_S, MUTE_S)
        self.muted_until = self._since = now + self._mute_s
        self.credit = 0.0


class Paces:
    """The paces of clients: kept from one session to the next, so that a new one brings nothing.

    Parameters
    ----------
    limit
        Most clients that are remembered; the one that came longest ago is forgotten first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._paces: OrderedDict[str, Pace] = OrderedDict()
        self._muted: dict[str, Pace] = {}

    def __len__(self) -> int:
        return len(self._paces)

    @property
    def muted_count(self) -> int:
        """Clients that are muted, or were until a moment ago."""
        return len(self._muted)

    def begin(self, client: str, messages_per_s: float, now: float) -> Pace:
        """Return the pace of a client that has a new session."""
        pace = self._paces.pop(client, None)
        if pace is None:
            rate = max(_LEAST_MESSAGES_PER_S, messages_per_s)
            pace = Pace(_UNITS_PER_MESSAGE * rate, now)
        self._paces[client] = pace
        if len(self._paces) > self._limit:
            self._paces.popitem(last=False)
        return pace

    def mute(self, client: str, pace: Pace, now: float) -> None:
        """Mute a client."""
        pace.mute(now)
        self._muted[client] = pace

    def muted(self, now: float) -> list[str]:
        """Return the clients that are muted."""
        self._muted = {
            client: pace for client, pace in self._muted.items() if now < pace.muted_until
        }
        return list(self._muted)
