"""The topics that a server manages: as ordered, or because something of them came here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from nearcast.broker.actions import Actions
from nearcast.broker.broker import Broker
from nearcast.broker.registry import check_allowed
from nearcast.broker.topic_settings import TopicSettings
from nearcast.errors import NearcastError
from nearcast.server.flow_makers import FlowMakers
from nearcast.server.processor_rules import ProcessorRule, rule_for
from nearcast.server.server_settings import ServerSettings
from nearcast.server.site_orders import Orders, TopicOrder
from nearcast.server.tables import Tables
from nearcast.server.told_brokers import Told, ToldBrokers
from nearcast.spool.changes import Group, LiveTopic

__all__ = ["TopicRegistry"]

_KNOWN_FACTOR = 10
"""Topics elsewhere that are remembered, in relation to those that may be here."""
_RUMOUR_LIMIT = 16
"""Servers that are asked for streams of a topic because a third one says so."""
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
        tables: Tables,
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
        self._plan_version = 0
        self.makers = FlowMakers()
        known = _KNOWN_FACTOR * settings.topic_limit
        told = tables.add("topics_elsewhere", known, lambda: self._told.topics)
        self._told = ToldBrokers(told)
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
        self._plan_version = orders.plan_version
        self.makers = FlowMakers(orders.flows)
        edges = sorted(one.server for one in orders.servers if one.server != orders.cloud)
        seconds = (orders.cloud, *edges)
        self._second = next((one for one in seconds if one and one != self._settings.server), "")
        self.refused.clear()
        servers = {one.server for one in orders.servers}
        told = self._told
        told.keep_only(servers)
        for topic in [one for one in told.volunteers if one in self._orders]:
            for server in [one for one in told.volunteers[topic] if not self.is_named(one, topic)]:
                self._note(told.stand_ins, server, topic)
        for topic in [one for one in told.stand_ins if self._is_made_by_flow(one)]:
            for server in list(told.stand_ins[topic]):
                self.prove(server, topic)
        for topic in [one for one in self.announced if self._is_ordered_here(one)]:
            del self.announced[topic]
        # made by their publishers: these go on without orders
        self.announced |= {one: None for one in self._recovered if one not in self._orders}
        here = [one.topic for one in orders.topics if self._is_ordered_here(one.topic)]
        topics = dict.fromkeys([*here, *self._recovered, *self.announced, *self._broker.topics])
        doubtful = [one for one in topics if one in before or one in self._recovered]
        actions = [one for topic in topics for one in self._manage(topic)]
        unordered = [one for one in doubtful if one not in self._orders]
        # who else manages them is no longer said, or never was
        self.suspect(unordered, sorted(servers - {self._settings.server}))
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
        return self._told.topics

    @property
    def is_full(self) -> bool:
        """Whether no more topics are managed here than orders name."""
        return len(self._broker.topics) >= self._settings.topic_limit

    def volunteer(self, topic: str, strangers: Collection[str]) -> list[Actions]:
        """Begin to manage a topic that nobody ordered here, if possible; others may do so too."""
        if self.is_full:
            return []
        actions = self._manage(topic)
        if topic in self._broker.topics:
            self.announced[topic] = None
            self.suspect((topic,), strangers)
        return actions

    def suspect(self, topics: Iterable[str], servers: Collection[str]) -> None:
        """Have all these servers asked for streams of topics, until they have answered."""
        for managed in filter(None, map(self._broker.topics.get, topics)):
            managed.settings = managed.settings.with_strangers(servers)

    def acquit(self, server: str, topics: Iterable[str]) -> None:
        """Note that a server has said which of these topics it manages."""
        for managed in filter(None, map(self._broker.topics.get, topics)):
            managed.settings = managed.settings.without_strangers(((server,),))

    def on_manages(self, server: str, topic: str, *, past: bool) -> bool:
        """Note that another server says that it manages a topic, or did.

        Tells whether it has to hear of us. Without a proof it may have streams of the topic, which
        have to be claimed from it, but is sent nothing of it.
        """
        is_proved = self.is_proved(server, topic)
        if past and (is_proved or topic not in self._orders):
            self._note(self._told.past, server, topic)
            return False
        is_volunteer = is_proved or self._is_made_by_flow(topic)
        kept = self._told.volunteers if is_volunteer else self._told.stand_ins
        is_new = self._note(kept, server, topic)
        return is_new and not past and topic in self._broker.topics

    def on_rumour(self, server: str, topic: str) -> bool:
        """Hear from others that a server may have streams of a topic; tell whether it is asked."""
        managed, heard = self._broker.topics.get(topic), self._told.stand_ins.get(topic, {})
        if managed is None or server in managed.settings.known:
            return True
        return len(heard) < _RUMOUR_LIMIT and self._note(self._told.stand_ins, server, topic)

    def rumours(self, topics: Iterable[str], asker: str) -> dict[str, tuple[str, ...]]:
        """Return by topic the servers that may have streams of it, though no orders say so."""
        found = {}
        for topic in topics:
            managed, order = self._broker.topics.get(topic), self._orders.get(topic)
            claimers = managed.claims.claimers if managed is not None else ()
            ordered = (asker, *order.brokers, *order.moved_from) if order is not None else (asker,)
            known = dict.fromkeys((*self._told.of(topic), *claimers))
            servers = tuple(one for one in known if one not in ordered)
            if servers:
                found[topic] = servers
        return found

    def prove(self, server: str, topic: str) -> None:
        """Note that a server has shown that it manages a topic."""
        self._note(self._told.volunteers, server, topic)

    def _note(self, kept: Told, server: str, topic: str) -> bool:
        """Keep a server in one of the tables, and in no other; tell whether that is new."""
        if server in kept.get(topic, {}):
            return False
        is_kept = self._told.note(kept, server, topic)
        self._refresh(topic)
        return is_kept

    def on_forgets(self, server: str, topic: str) -> None:
        """Note that another server has nothing of a topic any more."""
        self._told.drop(server, topic)
        self._refresh(topic)

    def forget(self, topic: str) -> None:
        """Forget a topic that is managed here no more and that orders do not name."""
        self.announced.pop(topic, None)
        self._wanted.pop(topic, None)

    def is_ordered(self, topic: str) -> bool:
        """Tell whether orders name a topic."""
        return topic in self._orders

    def is_named(self, server: str, topic: str, *, past: bool = False) -> bool:
        """Tell whether a server may manage a topic by the orders; the cloud server may each one.

        With `past` also one that did by earlier orders.
        """
        order = self._orders.get(topic)
        brokers = () if order is None else order.brokers + past * order.moved_from
        return server == self._cloud or server in brokers

    def _is_made_by_flow(self, topic: str) -> bool:
        """Tell whether a topic without orders may have brokers wherever components of flows are."""
        return topic in self.makers and topic not in self._orders

    def is_proved(self, server: str, topic: str) -> bool:
        """Tell whether a server has more than its own word that it manages a topic, or did."""
        volunteers = self._told.volunteers.get(topic, {})
        return server in volunteers or self.is_named(server, topic, past=True)

    def version(self, topic: str) -> int:
        """Return the version of a topic's assignment; 0 where the orders do not name it."""
        order = self._orders.get(topic)
        return order.version if order is not None else 0

    def highest_version(self, topic: str) -> int:
        """Return the highest version of an assignment of a topic that there can be by the orders."""
        order = self._orders.get(topic)
        return order.version if order is not None else self._plan_version

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
        """Return all servers that manage a topic, as far as this one knows, or as they say."""
        known = dict.fromkeys((*self._proved(topic), *self._told.stand_ins.get(topic, {})))
        if topic in self._broker.topics:
            known[self._settings.server] = None
        return list(known)

    def _proved(self, topic: str) -> list[str]:
        order = self._orders.get(topic)
        brokers = order.brokers if order is not None else ()
        return list(dict.fromkeys((*brokers, *self._told.volunteers.get(topic, {}))))

    def is_broker(self, server: str, topic: str) -> bool:
        """Tell whether a server manages a topic or did so, as far as this one knows."""
        return server in self.brokers_of(topic) or server in self._past_others(topic)

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
        if wanted is not None and wanted.as_managed() == settings.as_managed():
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
        settings = replace(settings, strangers=old.strangers)
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
                stand_ins=tuple(self._told.stand_ins.get(topic, {})),
                version=self.version(topic),
            )
            self._newcomers += [(server, topic) for server in others if server not in known]

    def _others(self, topic: str) -> tuple[str, ...]:
        return tuple(one for one in self._proved(topic) if one != self._settings.server)

    def _past_others(self, topic: str) -> tuple[str, ...]:
        order = self._orders.get(topic)
        moved_from = order.moved_from if order else ()
        known = dict.fromkeys((*moved_from, *self._told.past.get(topic, ())))
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
        spool = self._settings.unordered_spool(topic in self.makers)
        return TopicSettings(
            topic,
            order.spool if order is not None else spool,
            order.spool_bytes if order is not None else None,
            rule.processor,
            rule.options,
            rule.notify_after_sync,
            self._others(topic),
            self._past_others(topic),
            stand_ins=tuple(self._told.stand_ins.get(topic, {})),
            level=2 if rule.acknowledge == "two" else 1,
            second=self._second,
            version=self.version(topic),
            guard=self._settings.guard,
            stream_limit=self._settings.stream_limit,
            stream_idle_s=self._settings.stream_idle_s,
            inline=rule.processor in self._settings.inline_processors,
        )
