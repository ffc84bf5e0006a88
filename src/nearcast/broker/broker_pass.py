"""What a pass of the server has brought to its broker so far."""

from __future__ import annotations

from nearcast.broker.actions import Actions
from nearcast.broker.topic_broker import TopicBroker

__all__ = ["BrokerPass"]


class BrokerPass:
    """Topics that have to be run at its end, and what follows before they are."""

    def __init__(self) -> None:
        self.actions = Actions()
        self.has_answers = False
        """Whether there is something in `actions` besides what topics that are due put there."""
        self.has_urgent = False
        """Whether some of it is urgent: then topics run by urgency."""
        self.due: list[TopicBroker] = []
        """Topics that have to be run."""

    def mark_due(self, topic: TopicBroker) -> None:
        """Have a topic run at the end."""
        if not topic.is_due:
            topic.is_due = True
            self.due.append(topic)

    def take(self) -> tuple[Actions, list[TopicBroker]]:
        """End the pass: return the actions and the topics to run; the next one begins."""
        actions, self.actions = self.actions, Actions()
        due, self.due = self.due, []
        if self.has_urgent:
            self.has_urgent = False
            due.sort(key=lambda topic: -topic.urgency)
        self.has_answers = False
        for topic in due:
            topic.is_due = False
        return actions, due
