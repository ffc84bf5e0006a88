"""The clients whose home a server is: where they are and what they subscribe to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import hypot

from nearcast.trust.topic_pattern import is_pattern, matches
from nearcast.wire.terms import NO_TERMS, Terms

__all__ = ["HomeClients", "Starts"]

Starts = Mapping[tuple[str, str], int]
"""By broker and topic: the offset after which a subscription hears it."""
_MERGED_LIMIT = 10_000
"""Topics whose listeners are kept."""


class HomeClients:
    """Places and subscriptions of connected clients.

    What they subscribe to are topics and patterns of topics; either is called a topic here unless
    it matters.
    """

    def __init__(self) -> None:
        self._places: dict[str, tuple[float, float]] = {}
        self._told_places: dict[str, tuple[float, float]] = {}
        """Where brokers were last told that clients are."""
        self._headings: dict[str, float | None] = {}
        self._topics_of: dict[str, dict[str, Starts]] = {}
        self._subscribers_of: dict[str, dict[str, None]] = {}
        self._patterns: dict[str, None] = {}
        """Those of `_subscribers_of` that are patterns."""
        self._merged: dict[str, dict[str, None]] = {}
        """By topic: its subscribers and those of patterns that match, since the last change."""
        self.selective: dict[str, dict[str, Terms]] = {}
        """Terms by topic and client, of those that do not want everything."""
        self._doubtful: dict[str, tuple[float, dict[str, None]]] = {}
        """By client: what it may no longer want, and until when it may say that it does."""

    def move(
        self,
        client: str,
        x_km: float,
        y_km: float,
        heading_deg: float | None = None,
        least_km: float = 0.0,
    ) -> bool:
        """Note where a client is and where it is heading; tell whether brokers should know."""
        self._places[client] = (x_km, y_km)
        self._headings[client] = heading_deg
        told = self._told_places.setdefault(client, (x_km, y_km))
        # from where it was last told: many small moves are a large one
        if hypot(x_km - told[0], y_km - told[1]) <= least_km:
            return False
        self._told_places[client] = (x_km, y_km)
        return True

    def place(self, client: str) -> tuple[float, float]:
        """Return where a client is, as it last said."""
        return self._places.get(client, (0.0, 0.0))

    def heading(self, client: str) -> float | None:
        """Return where a client is heading, if it said."""
        return self._headings.get(client)

    def begin_session(self, client: str, until: float) -> None:
        """Note that a client has a new session: what it does not ask for again by then is over."""
        if self._topics_of.get(client):
            self._doubtful[client] = (until, dict.fromkeys(self._topics_of[client]))

    def subscribe(self, client: str, topic: str, terms: Terms = NO_TERMS) -> None:
        """Note a subscription; twice is once, and the last terms count."""
        if terms != NO_TERMS:
            self.selective.setdefault(topic, {})[client] = terms
        else:
            self._forget_terms(client, topic)
        self._topics_of.setdefault(client, {}).setdefault(topic, {})
        subscribers = self._subscribers_of.setdefault(topic, {})
        if client not in subscribers:
            subscribers[client] = None
            self._note_change(topic)
        if is_pattern(topic):
            self._patterns[topic] = None
        if client in self._doubtful:
            self._doubtful[client][1].pop(topic, None)

    def unsubscribe(self, client: str, topic: str) -> None:
        """Forget a subscription, if there is one."""
        self._topics_of.get(client, {}).pop(topic, None)
        self._forget_terms(client, topic)
        subscribers = self._subscribers_of.get(topic, {})
        subscribers.pop(client, None)
        self._note_change(topic)
        if not subscribers:
            self._subscribers_of.pop(topic, None)
            self._patterns.pop(topic, None)

    def forget(self, client: str) -> Sequence[str]:
        """Forget a client; return what it subscribed to."""
        topics = list(self._topics_of.get(client, ()))
        for topic in topics:
            self.unsubscribe(client, topic)
        self._topics_of.pop(client, None)
        for known in (self._places, self._told_places, self._headings):
            known.pop(client, None)
        self._doubtful.pop(client, None)
        return topics

    def take_outdated(self, now: float) -> list[tuple[str, list[str]]]:
        """Forget what clients did not ask for again in their new sessions; return it."""
        outdated = []
        for client in [one for one, (until, _) in self._doubtful.items() if until <= now]:
            topics = list(self._doubtful.pop(client)[1])
            for topic in topics:
                self.unsubscribe(client, topic)
            if topics:
                outdated.append((client, topics))
        return outdated

    def terms(self, client: str, topic: str) -> Terms:
        """Return the terms of a subscription."""
        return self.selective.get(topic, {}).get(client, NO_TERMS)

    def terms_of(self, clients: Iterable[str], topic: str) -> dict[str, Terms]:
        """Return the terms of those of some subscribers that have terms."""
        known = self.selective.get(topic)
        return {one: known[one] for one in clients if one in known} if known else {}

    def has_selective(self, topic: str) -> bool:
        """Tell whether a listener of a topic may not want all of it."""
        return any(name in self.selective for name in self.names(topic))

    def terms_to_hear(self, client: str, topic: str) -> tuple[Terms, ...]:
        """Return the terms of which one has to hold for a listener; none: it wants everything."""
        wanted = self._topics_of.get(client, {})
        terms = [self.terms(client, name) for name in self.names(topic) if name in wanted]
        return () if NO_TERMS in terms else tuple(terms)

    def _forget_terms(self, client: str, topic: str) -> None:
        terms = self.selective.get(topic)
        if terms is not None:
            terms.pop(client, None)
            if not terms:
                del self.selective[topic]

    def topics(self, client: str) -> Collection[str]:
        """Return what a client subscribes to."""
        return self._topics_of.get(client, {}).keys()

    def subscribers(self, topic: str) -> Collection[str]:
        """Return the clients here that subscribe to a topic."""
        return self._subscribers_of.get(topic, {}).keys()

    def set_starts(self, client: str, topic: str, starts: Starts) -> None:
        """Note after which offsets a subscription hears its brokers."""
        if topic in self._topics_of.get(client, {}):
            self._topics_of[client][topic] = starts

    def starts(self, client: str, topic: str) -> Starts:
        """Return what `set_starts` noted."""
        return self._topics_of.get(client, {}).get(topic, {})

    def start(self, client: str, broker: str, topic: str) -> int:
        """Return after which offset a client hears a broker of a topic; 0 when nobody said."""
        found = [
            starts.get((broker, topic), 0)
            for wanted, starts in self._topics_of.get(client, {}).items()
            if matches(wanted, topic)
        ]
        return min(found, default=0)

    def hears(self, client: str, topic: str) -> bool:
        """Tell whether a client subscribes to a topic, by its name or by a pattern."""
        wanted = self._topics_of.get(client, {})
        return topic in wanted or any(matches(one, topic) for one in wanted)

    def has_listeners(self, topic: str) -> bool:
        """Tell whether any client here hears a topic."""
        return topic in self._subscribers_of or any(matches(one, topic) for one in self._patterns)

    def listeners(self, topic: str) -> Collection[str]:
        """Return the clients here that hear a topic, by its name or by a pattern."""
        if not self._patterns:
            return self.subscribers(topic)
        found = self._merged.get(topic)
        if found is None:
            found = {}
            for name in self.names(topic):
                found.update(self._subscribers_of.get(name, {}))
            if len(self._merged) >= _MERGED_LIMIT:
                self._merged.clear()
            self._merged[topic] = found
        return found.keys()

    def names(self, topic: str) -> list[str]:
        """Return the topic and the patterns that match it."""
        return [topic, *(one for one in self._patterns if matches(one, topic))]

    def _note_change(self, topic: str) -> None:
        if is_pattern(topic):
            for one in [each for each in self._merged if matches(topic, each)]:
                del self._merged[one]
        else:
            self._merged.pop(topic, None)
