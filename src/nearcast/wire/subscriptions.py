"""What a client wants to hear: asked for until the server answers, and again in each session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearcast.wire.actions import Confirmed
from nearcast.wire.messages import Confirm, Subscribe, Unsubscribe
from nearcast.wire.settings import WireSettings

__all__ = ["Subscriptions"]


@dataclass(slots=True)
class _Wish:
    request: int
    subscribed: bool
    due: float = float("-inf")
    """When to ask (again); infinity once it is granted."""
    wait_s: float = 0.0


class Subscriptions:
    """The client's wishes by topic; the last one counts."""

    def __init__(self, settings: WireSettings) -> None:
        self._settings = settings
        self._wishes: dict[str, _Wish] = {}
        self._last_request = 0

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that the client wants to hear."""
        return tuple(topic for topic, wish in self._wishes.items() if wish.subscribed)

    def want(self, topic: str, subscribed: bool) -> None:
        """Ask for a topic, or for its end."""
        self._last_request = self._last_request + 1 & 0xFFFFFFFF
        self._wishes[topic] = _Wish(self._last_request, subscribed)

    def due(self, now: float) -> Iterator[Subscribe | Unsubscribe]:
        """Yield the requests to send now."""
        settings = self._settings
        for topic, wish in self._wishes.items():
            if wish.due <= now:
                wish.wait_s = min(
                    2 * wish.wait_s or settings.first_retry_s, settings.longest_retry_s
                )
                wish.due = now + wish.wait_s
                request = Subscribe if wish.subscribed else Unsubscribe
                yield request(wish.request, topic)

    def confirm(self, confirm: Confirm) -> Confirmed | None:
        """Take an answer; None when it is not the first one to a current request."""
        for topic, wish in self._wishes.items():
            if wish.request == confirm.request and wish.due < float("inf"):
                if wish.subscribed and confirm.accepted:
                    wish.due = float("inf")
                else:
                    del self._wishes[topic]
                return Confirmed(topic, wish.subscribed, confirm.accepted, confirm.reason)
        return None

    def restart(self) -> None:
        """Ask for everything again: the session is a new one."""
        for wish in self._wishes.values():
            wish.due, wish.wait_s = float("-inf"), 0.0

    def next_due(self) -> float:
        """Return when `due` yields something again."""
        return min((wish.due for wish in self._wishes.values()), default=float("inf"))
