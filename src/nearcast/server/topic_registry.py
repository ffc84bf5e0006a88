"""The topics that a server manages: as ordered, or because something of them came here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from nearcast.broker.actions import Actions
from nearcast.broker.broker import Broker
from nearcast.broker.registry import check_allowed
from nearcast.broker.topic_settings import TopicSettings
from nearcast.errors import NearcastError
from nearcast.server.processor_rules import ProcessorRule, rule_for
from nearcast.server.server_settings import ServerSettings
from nearcast.server.site_orders import Orders, TopicOrder
from nearcast.spool.changes import Group, LiveTopic
from nearcast.trust.topic_pattern import is_pattern, matches

__all__ = ["TopicRegistry"]

_KNOWN_FACTOR = 10
"""Topics elsewhere that are remembered, in relation to those that may be here."""
_REFUSED_LIMIT = 1_000
"""Refusals that are remembered, so that each is reported once."""


class TopicRegistry:
    """Keeps a broker's topics as the orders want them.

    What the plan no longer wants here stays readable: its messages were acknowledged.

    Parameters
    ----------
    recovered
        What the spool's log found, by topic.
    refuse
        Is told of a topic that cannot be managed as ordered, and why.
    """

    def __init__(
        self,
        settings: ServerSettings,
        broker: Broker,
        recovered: Mapping[str, LiveTopic],
        refuse: Callable[[str, str], None],
    ) -> None:
        self._settings, self._broker, self._refuse = settings, broker, refuse
        self._recovered = dict(recovered)
        self._orders: dict[str, TopicOrder] = {}
        self._rules: tuple[ProcessorRule, ...] = ()
        self._cloud = ""
        self._second = ""
        """Where copies go that have to be somewhere besides here."""
        self._wanted: dict[str, TopicSettings] = {}
        """As asked for; what is in force may differ, when that was not possible."""
        self._volunteers: dict[str, dict[str, None]] = {}
        """Servers that manage a topic though no orders say so, as they told."""
        self._past: dict[str, dict[str, None]] = {}
        """Servers that managed a topic once, as they told."""
        self.announced: dict[str, None] = {}
        """Topics that this server manages though no orders say so."""
        self.refused: dict[str, str] = {}
        """Topics that the orders want otherwise than is possible here, and why."""
        self._farewells: list[tuple[str, str]] = []
        self._newcomers: list[tuple[str, str]] = []

    def obey(self, orders: Orders) -> list[Actions]:
        """Take new orders."""
        before, self._orders = self._orders, {one.topic: one for one in orders.topics}
        self._rules, self._cloud = orders.processors, orders.cloud
        edges = sorted(one.server for one in orders.servers if one.server != orders.cloud)
        seconds = (orders.cloud, *edges)
        self._second = next((one for one in seconds if one and one != self._settings.server), "")
        self.refused.clear()
        servers = {one.server for one in orders.servers}
        for told in (*self._volunteers.values(), *self._past.values()):
            for server in told.keys() - servers:
                del told[server]
        for topic in [one for one in self.announced if self._is_ordered_here(one)]:
            del self.announced[topic]
        for topic in self._recovered:  # made by its publishers: goes on without orders
            if topic not in self._orders:
                self.announced[topic] = None
        here = [one.topic for one in orders.topics if self._is_ordered_here(one.topic)]
        topics = dict.fromkeys([*here, *self._recovered, *self.announced, *self._broker.topics])
        doubtful = [one for one in topics if one in before or one in self._recovered]
        actions = [one for topic in topics for one in self._manage(topic)]
        strangers = tuple(sorted(servers - {self._settings.server}))
        for topic in doubtful:
            if topic not in self._orders:  # who else manages it is no longer said, or never was
                self._suspect(topic, strangers)
        for topic in self._broker.topics:
            if self.is_past(topic) and self._orders[topic] != before.get(topic):
                self._farewells += [(one, topic) for one in self._others(topic)]
        return actions

    @property
    def here(self) -> Collection[str]:
        """All topics that this server has something of."""
        return self._broker.topics.keys()

    def is_known(self, topic: str) -> bool:
        """Tell whether the other servers know that this one manages a topic."""
        return topic in self.announced or self._is_ordered_here(topic)

    @property
    def elsewhere(self) -> int:
        """Topics that other servers manage or managed without orders, as they told."""
        return len(self._volunteers.keys() | self._past.keys())

    @property
    def is_full(self) -> bool:
        """Whether no more topics are managed here than orders name."""
        return len(self._broker.topics) >= self._settings.topic_limit

    def volunteer(self, topic: str, strangers: Iterable[str]) -> list[Actions]:
        """Begin to manage a topic that nobody ordered here, if possible; others may do so too."""
        if self.is_full:
            return []
        actions = self._manage(topic)
        if topic in self._broker.topics:
            self.announced[topic] = None
            self._suspect(topic, tuple(strangers))
        return actions

    def _suspect(self, topic: str, strangers: tuple[str, ...]) -> None:
        """Have all these servers asked for streams of a topic, until they have answered."""
        managed = self._broker.topics.get(topic)
        if managed is not None:
            managed.settings = replace(managed.settings, strangers=strangers)

    def on_manages(self, server: str, topic: str, *, past: bool) -> bool:
        """Note that another server manages a topic, or did; tell whether it has to hear of us."""
        kept, left = self._volunteers, self._past
        if past:
            kept, left = left, kept
        if topic not in kept and len(kept) >= _KNOWN_FACTOR * self._settings.topic_limit:
            return False
        is_new = server not in kept.get(topic, {})
        kept.setdefault(topic, {})[server] = None
        left.get(topic, {}).pop(server, None)
        self._refresh(topic)
        return is_new and not past and topic in self._broker.topics

    def on_forgets(self, server: str, topic: str) -> None:
        """Note that another server has nothing of a topic any more."""
        for table in (self._volunteers, self._past):
            servers = table.get(topic, {})
            servers.pop(server, None)
            if not servers:
                table.pop(topic, None)
        self._refresh(topic)

    def forget(self, topic: str) -> None:
        """Forget a topic that is managed here no more and that orders do not name."""
        self.announced.pop(topic, None)
        self._wanted.pop(topic, None)

    def is_ordered(self, topic: str) -> bool:
        """Tell whether orders name a topic."""
        return topic in self._orders

    def is_named(self, server: str, topic: str, *, past: bool = False) -> bool:
        """Tell whether a server manages a topic by the orders: any one if they do not name it.

        With `past` also one that did by earlier orders.
        """
        order = self._orders.get(topic)
        if order is None or server in order.brokers or server == self._cloud:
            return True
        return past and server in order.moved_from

    def version(self, topic: str) -> int:
        """Return the version of a topic's assignment; 0 where the orders do not name it."""
        order = self._orders.get(topic)
        return order.version if order is not None else 0

    def is_past(self, topic: str) -> bool:
        """Tell whether a topic is only kept here: other servers were ordered to manage it."""
        return (
            topic in self._broker.topics
            and topic in self._orders
            and topic not in self.announced
            and not self._is_ordered_here(topic)
        )

    def take_farewells(self) -> list[tuple[str, str]]:
        """Return (server, topic) pairs: brokers to be told that this one is none any more."""
        found, self._farewells = self._farewells, []
        return found

    def shared_with(self, server: str) -> list[str]:
        """Return the topics here that a server should know of when it claims their streams."""
        return [
            topic
            for topic, managed in self._broker.topics.items()
            if topic in self.announced or server in managed.settings.asked
        ]

    def on_restarted(self, server: str) -> None:
        """Note that a server began anew: it may miss what is spooled here."""
        self._newcomers += [
            (server, topic)
            for topic, managed in self._broker.topics.items()
            if server in managed.settings.other_brokers
        ]

    def brokers_of(self, topic: str) -> list[str]:
        """Return all servers that manage a topic, as far as this one knows."""
        order = self._orders.get(topic)
        known = dict.fromkeys(order.brokers if order is not None else ())
        known.update(self._volunteers.get(topic, {}))
        if topic in self._broker.topics:
            known[self._settings.server] = None
        return list(known)

    def is_broker(self, server: str, topic: str) -> bool:
        """Tell whether a server manages a topic or did so, as far as this one knows."""
        return server in self.brokers_of(topic) or server in self._past_others(topic)

    def concerns(self, wanted: str) -> bool:
        """Tell whether a subscription concerns any topic here."""
        topics = self._broker.topics
        if not is_pattern(wanted):
            return wanted in topics
        return any(matches(wanted, topic) for topic in topics)

    def ends(self, wanted: str) -> dict[str, int]:
        """Return the highest offsets of the topics here that a subscription concerns."""
        topics = self._broker.topics
        if not is_pattern(wanted):
            return {wanted: topics[wanted].end} if wanted in topics else {}
        return {topic: one.end for topic, one in topics.items() if matches(wanted, topic)}

    def take_newcomers(self) -> list[tuple[str, str]]:
        """Return (server, topic) pairs: brokers that may miss what is spooled here."""
        found, self._newcomers = self._newcomers, []
        return found

    def _is_ordered_here(self, topic: str) -> bool:
        order = self._orders.get(topic)
        return order is not None and self._settings.server in order.brokers

    def _manage(self, topic: str) -> list[Actions]:
        """Manage a topic as the orders say, or by default when they do not name it."""
        try:
            settings = self._settings_of(topic)
        except NearcastError as error:
            self._note_refused(topic, str(error))
            return []
        managed, wanted = self._broker.topics.get(topic), self._wanted.get(topic)
        self._wanted[topic] = settings
        if managed is None:
            live = self._recovered.get(topic)
            added = self._add([settings], live, stored=live is not None)
            if added is None:
                return []
            self._recovered.pop(topic, None)
            self._newcomers += [(server, topic) for server in settings.other_brokers]
            return [added]
        if wanted is not None and _as_managed(wanted) == _as_managed(settings):
            self._refresh(topic)
            return []
        actions = self._begin_anew(managed.settings, settings)
        self._refresh(topic)
        return actions

    def _note_refused(self, topic: str, reason: str) -> None:
        if topic not in self.refused and len(self.refused) < _REFUSED_LIMIT:
            self.refused[topic] = reason
            self._refuse(topic, reason)

    def _begin_anew(self, old: TopicSettings, settings: TopicSettings) -> list[Actions]:
        """Manage a topic otherwise, with all that it has; on the disk it is one change."""
        live = self._broker.export_topic(old.topic)
        if (old.processor, old.options) != (settings.processor, settings.options):
            live.state = None  # another processor's
        removed = self._broker.remove_topic(old.topic)
        added = self._add([settings, old], live, stored=False)
        if added is None or removed.to_store is None or added.to_store is None:
            raise RuntimeError(f"topic {old.topic!r} could not be kept")
        changes = (*removed.to_store.changes, *added.to_store.changes)
        added.to_store = Group(added.to_store.ticket, changes)
        self._broker.on_committed([removed.to_store.ticket])  # nothing waits for it
        removed.to_store = None
        return [removed, added]

    def _add(
        self, candidates: Iterable[TopicSettings], live: LiveTopic | None, *, stored: bool
    ) -> Actions | None:
        """Add a topic by the first settings that are possible, if any."""
        for wanted in candidates:
            plain = replace(wanted, processor="forward", options={}, inline=True)
            for settings in (wanted, plain):
                try:
                    return self._broker.add_topic(settings, live, stored=stored)
                except NearcastError as error:  # a processor that refuses its options, say
                    self._refuse(wanted.topic, str(error))
        return None

    def _refresh(self, topic: str) -> None:
        """Let a topic's broker know the others."""
        managed = self._broker.topics.get(topic)
        if managed is not None:
            known = managed.settings.other_brokers
            others = self._others(topic)
            managed.settings = replace(
                managed.settings,
                other_brokers=others,
                past_brokers=self._past_others(topic),
                version=self.version(topic),
            )
            self._newcomers += [(server, topic) for server in others if server not in known]

    def _others(self, topic: str) -> tuple[str, ...]:
        return tuple(one for one in self.brokers_of(topic) if one != self._settings.server)

    def _past_others(self, topic: str) -> tuple[str, ...]:
        order = self._orders.get(topic)
        known = dict.fromkeys(order.moved_from if order is not None else ())
        known.update(self._past.get(topic, {}))
        present = self.brokers_of(topic)
        return tuple(one for one in known if one not in present and one != self._settings.server)

    def _settings_of(self, topic: str) -> TopicSettings:
        order = self._orders.get(topic)
        rule = rule_for(self._rules, topic)
        if order is not None and order.processor:
            rule = ProcessorRule(
                topic, order.processor, order.options, order.notify_after_sync, order.acknowledge
            )
        check_allowed(rule.processor, self._settings.allowed_processors)
        return TopicSettings(
            topic,
            order.spool if order is not None else self._settings.default_spool,
            order.spool_bytes if order is not None else None,
            rule.processor,
            rule.options,
            rule.notify_after_sync,
            self._others(topic),
            self._past_others(topic),
            level=2 if rule.acknowledge == "two" else 1,
            second=self._second,
            version=self.version(topic),
            guard=self._settings.guard,
            stream_limit=self._settings.stream_limit,
            stream_idle_s=self._settings.stream_idle_s,
            inline=rule.processor in self._settings.inline_processors,
        )


def _as_managed(settings: TopicSettings) -> TopicSettings:
    """Return what a topic has to begin anew for when it changes."""
    return replace(settings, other_brokers=(), past_brokers=(), strangers=(), version=0)
