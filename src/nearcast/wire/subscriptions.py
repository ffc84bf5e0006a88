"""What a client wants to hear: asked for until the server answers, and again in each session.

An answer may take a while, because the server first tells the brokers of the topic. Repeating a
request does no harm meanwhile: it keeps its number, the server takes it once, and only the first
answer to the latest request of a topic counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nearcast.wire.actions import Confirmed
from nearcast.wire.backoff import next_wait_s
from nearcast.wire.messages import Confirm, Subscribe, Unsubscribe
from nearcast.wire.settings import WireSettings
from nearcast.wire.terms import NO_TERMS, Terms

__all__ = ["Subscriptions"]

_AT_ONCE = float("-inf")


@dataclass(slots=True)
class _Request:
    number: int
    subscribed: bool
    terms: Terms = NO_TERMS
    due: float = _AT_ONCE
    """When to ask (again)."""
    wait_s: float = 0.0


class Subscriptions:
    """The client's wishes by topic; the last one counts."""

    def __init__(self, settings: WireSettings) -> None:
        self._settings = settings
        self._granted: dict[str, Terms] = {}
        """Topics confirmed in this session."""
        self._requests: dict[str, _Request] = {}
        """Requests without an answer yet, by topic."""
        self._last_number = 0

    def want(self, topic: str, subscribed: bool, terms: Terms = NO_TERMS) -> None:
        """Ask for a topic, or for its end."""
        self._last_number = self._last_number + 1 & 0xFFFFFFFF
        self._granted.pop(topic, None)
        self._requests[topic] = _Request(self._last_number, subscribed, terms)

    def due(self, now: float, resumes: Callable[[str], bool]) -> Iterator[Subscribe | Unsubscribe]:
        """Yield the requests to send now; `resumes` tells which were granted before."""
        settings = self._settings
        for topic, request in self._requests.items():
            if request.due <= now:
                request.wait_s = next_wait_s(
                    request.wait_s, settings.longest_retry_s, settings.first_retry_s
                )
                request.due = now + request.wait_s
                if request.subscribed:
                    terms = request.terms
                    yield Subscribe(
                        request.number,
                        topic,
                        resumes(topic),
                        terms.where,
                        terms.area,
                        terms.follows,
                    )
                else:
                    yield Unsubscribe(request.number, topic)

    def topic_of(self, number: int) -> str | None:
        """Return the topic of a request that waits for its answer."""
        found = (topic for topic, one in self._requests.items() if one.number == number)
        return next(found, None)

    def confirm(self, confirm: Confirm) -> Confirmed | None:
        """Take an answer; None when it is not the first one to a current request."""
        for topic, request in self._requests.items():
            if request.number == confirm.request:
                del self._requests[topic]
                if request.subscribed and confirm.accepted:
                    self._granted[topic] = request.terms
                return Confirmed(topic, request.subscribed, confirm.accepted, confirm.reason)
        return None

    def restart(self) -> None:
        """Ask for everything again: the session is a new one."""
        for topic, terms in list(self._granted.items()):
            self.want(topic, True, terms)
        for request in self._requests.values():
            request.due, request.wait_s = _AT_ONCE, 0.0

    def next_due(self) -> float:
        """Return when `due` yields something again."""
        return min((request.due for request in self._requests.values()), default=float("inf"))
