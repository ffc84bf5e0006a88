"""All flows that run at a server: events in, `FlowActions` out at the end of a pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from nearcast.broker.processor import ProcessorWatch
from nearcast.broker.requests import ProcessResult
from nearcast.flow.effects import Effects
from nearcast.flow.finder import Finder
from nearcast.flow.flow_actions import FlowActions
from nearcast.flow.flow_orders import FlowOrder
from nearcast.flow.flow_report import FlowReport, report_of
from nearcast.flow.flow_settings import FlowSettings
from nearcast.flow.handovers import HandOvers
from nearcast.flow.messages import (
    Done,
    Floor,
    FloorWanted,
    FlowMessage,
    HandOver,
    Held,
    HeldWanted,
    Owner,
    Part,
    Refuse,
    Settled,
    Took,
    Work,
)
from nearcast.flow.orphans import Orphans
from nearcast.flow.running_flow import MakeRunner, RunningFlow
from nearcast.flow.shedding import InstanceLoad
from nearcast.flow.stored import FLOW_TOPICS, StoredName
from nearcast.routing.chance import Chance
from nearcast.routing.keys import INDEX_END, NetPath
from nearcast.spool.changes import Group, LiveTopic, TopicChange
from nearcast.wire.publication import Publication

__all__ = ["FlowRuntime"]

_NEVER = float("inf")
_TRIM_S = 1.0
"""After which messages that are done are discarded from the log, if nothing else is written."""
_TRIMS = 256
"""How many are discarded sooner."""


class FlowRuntime:
    """Runs this server's part of all flows.

    Events only gather; call `take_actions` at the end of each pass. Its group, and the changes
    that `tap` returns, must come into the log in the order in which they were made: each says how
    many messages of an outbox are left.

    Parameters
    ----------
    server, net
        This server, and where it is.
    recovered
        What the log has: topics whose names do not begin with `FLOW_TOPICS` are passed over.
    next_ticket
        Returns a ticket that no other group of this server has.
    rng
        Decides the indexes of shuffled messages and the numbers of hand-overs.
    clock
        The time now: to measure what processing takes.
    watch
        Is told when a function of a mapping runs.
    """

    def __init__(
        self,
        server: str,
        net: NetPath,
        make_runner: MakeRunner,
        finder: Finder | None,
        settings: FlowSettings,
        recovered: Mapping[str, LiveTopic],
        next_ticket: Callable[[], int],
        rng: Chance,
        clock: Callable[[], float],
        watch: ProcessorWatch | None = None,
    ) -> None:
        self._clock, self._watch = clock, watch
        self._server, self._net, self._settings = server, net, settings
        self._make_runner, self._finder = make_runner, finder
        self._next_ticket, self._rng = next_ticket, rng
        self._recovered = {
            StoredName.parse(name): live
            for name, live in recovered.items()
            if name.startswith(FLOW_TOPICS)
        }
        self._flows: dict[str, RunningFlow] = {}
        self._hand_overs: dict[str, HandOvers] = {}
        self._orphans: dict[str, Orphans] = {}
        self._effects = Effects(server)
        self._ended: list[str] = []
        """Pseudo-topics to be dropped."""
        self._on_commit: dict[int, list[Callable[[], None]]] = {}
        self._trim_at = _NEVER
        self.unexpected = 0
        """Messages of servers or for components that the orders do not name."""

    def obey(
        self, orders: Iterable[FlowOrder], servers: Collection[str], revision: int, now: float
    ) -> None:
        """Run these flows and no others.

        Parameters
        ----------
        servers
            All of the site; what others say is not heard.
        revision
            Of the orders.
        """
        self._effects.servers = frozenset((*servers, self._server))
        wanted = {order.flow.name: order for order in orders}
        for name, flow in list(self._flows.items()):
            if name not in wanted or wanted[name].number != flow.order.number:
                del self._hand_overs[name], self._orphans[name]
                self._end(self._flows.pop(name), name in wanted)
        for name, order in wanted.items():
            if name not in self._flows:
                self._begin(order)
        for name, running in self._flows.items():
            for outbox in running.outboxes.values():
                outbox.on_orders(self._effects.servers)
            self._hand_overs[name].on_orders()
            self._orphans[name].on_orders(revision)
        self._ended += map(str, self._recovered)
        for stored in self._recovered:
            self._effects.incident(stored.flow, stored.component, "ended", "dropped what it stored")
        self._recovered.clear()

    def _begin(self, order: FlowOrder) -> None:
        ours = [one for one in self._recovered if one[:2] == (order.flow.name, order.number)]
        flow = RunningFlow(
            self._server,
            self._net,
            order,
            self._settings,
            self._make_runner,
            self._finder,
            self._rng,
            {one: self._recovered.pop(one) for one in ours},
            self._effects,
            self._clock,
            self._watch,
        )
        self._flows[order.flow.name] = flow
        hand_overs = self._hand_overs[order.flow.name] = HandOvers(flow)
        self._orphans[order.flow.name] = Orphans(flow, hand_overs)

    def _end(self, flow: RunningFlow, runs_anew: bool) -> None:
        flow.close()
        self._ended += flow.names()
        detail = "runs anew" if runs_anew else "no longer in the orders"
        for component in flow.order.flow.components:
            flow.incident(component, "ended", detail)
            if self._finder is not None:
                self._finder.hold(flow.order.flow.name, component, ())

    # Sources

    def tap(
        self, topic: str, publications: Sequence[Publication], ticket: int
    ) -> tuple[TopicChange, ...]:
        """Take publications of a source; return what goes into the group that stores them.

        They are sent when `on_committed` has the ticket of that group.
        """
        changes = []
        for flow in self._flows.values():
            if topic in flow.order.flow.sources:
                for change, call in flow.tap(topic, publications):
                    changes.append(change)
                    self._on_commit.setdefault(ticket, []).append(call)
        return tuple(changes)

    def is_full(self, topic: str) -> bool:
        """Tell whether a source has to wait: publishers are to be told that it is busy."""
        return any(
            topic in flow.order.flow.sources and flow.is_full(topic)
            for flow in self._flows.values()
        )

    # Events

    def on_message(self, sender: str, message: FlowMessage, now: float) -> None:
        """Hear what another server says."""
        flow = self._flows.get(message.flow)
        if (
            flow is None
            or message.run != flow.order.number
            or message.component not in flow.order.flow.components
            or sender not in self._effects.servers
        ):
            self.unexpected += 1
            return
        hand_overs = self._hand_overs[message.flow]
        match message:
            case Work():
                flow.on_work(sender, message)
            case Done():
                flow.on_done(sender, message, now)
            case Owner():
                flow.on_owner(sender, message)
            case HandOver():
                hand_overs.on_hand_over(sender, message)
                self._orphans[message.flow].look()  # it may name servers that are gone by now
            case Took():
                hand_overs.on_took(sender, message)
            case Refuse():
                hand_overs.on_refuse(sender, message)
            case Settled():
                hand_overs.on_settled(sender, message)
            case FloorWanted():
                hand_overs.on_floor_wanted(sender, message)
            case Floor():
                hand_overs.on_floor(sender, message)
            case HeldWanted():
                self._orphans[message.flow].on_held_wanted(sender, message)
            case Held():
                self._orphans[message.flow].on_held(sender, message)

    def hand_over(
        self,
        flow: str,
        component: str,
        net: NetPath | None,
        low: int,
        high: int,
        to: str,
        now: float,
    ) -> str:
        """Begin to hand a part that is held here to another server.

        Returns
        -------
        str
            Why it cannot be done; empty when it has begun. How it ends is an incident: ``handed
            over``, or ``taken back``.
        """
        found = self._hand_overs.get(flow)
        if found is None:
            return f"flow {flow!r} does not run"
        if not 0 <= low < high <= INDEX_END:
            return f"[{low}, {high}) is not a range of indexes"
        return found.give(component, Part(net, low, high), to)

    def on_restarted(self, server: str, now: float) -> None:
        """Note that a server may not have got what was sent to it last."""
        for flow in self._flows.values():
            for outbox in flow.outboxes.values():
                outbox.on_restarted(server)
        for hand_overs in self._hand_overs.values():
            hand_overs.on_restarted(server)

    def on_committed(self, tickets: Iterable[int], now: float) -> None:
        """Note that groups are durable; tickets of others are passed over."""
        for ticket in tickets:
            for call in self._on_commit.pop(ticket, ()):
                call()

    def on_processed(self, result: ProcessResult) -> None:
        """Take what the host process made of something; of flows that have ended nothing counts."""
        name = StoredName.parse(result.topic)
        flow = self._flows.get(name.flow)
        if flow is not None and flow.order.number == name.run:
            is_taking = bool(self._hand_overs[name.flow].pending)
            flow.on_result(name.component, result)
            if is_taking:
                self._orphans[name.flow].look()  # as after a hand-over that is taken at once

    def on_published(self, topic: str, publisher: str, epoch: int, through: int) -> None:
        """Note how far the broker of an output topic has its publications durably."""
        for flow in self._flows.values():
            for outputs in flow.outputs.values():
                if (outputs.topic, outputs.publisher) == (topic, publisher):
                    outputs.on_published(epoch, through)

    def on_timer(self, now: float) -> None:
        """Do what is due; see `next_wakeup`."""
        for flow in self._flows.values():
            for outbox in flow.outboxes.values():
                outbox.on_timer(now)
            for instance in flow.instances.values():
                instance.worker.pursue()
        for hand_overs in self._hand_overs.values():
            hand_overs.on_timer(now)
        for orphans in self._orphans.values():
            orphans.on_timer(now)

    def run(self, now: float) -> None:
        """Let each instance process a batch; call it again while there is time and `has_work`."""
        for flow in self._flows.values():
            flow.process()

    @property
    def not_entitled(self) -> int:
        """How many messages about hand-overs their senders had no right to send."""
        return self._effects.not_entitled

    @property
    def is_idle(self) -> bool:
        """Whether nothing comes of any event before the next `obey`, once actions were taken."""
        return not self._flows and not self._on_commit

    @property
    def has_work(self) -> bool:
        """Whether messages wait that may be processed now."""
        return any(flow.has_work for flow in self._flows.values())

    @property
    def next_wakeup(self) -> float:
        """When `on_timer` has to be called at the latest."""
        retries = (box.retry_at for flow in self._flows.values() for box in flow.outboxes.values())
        repeats = (one.next_wakeup for one in self._hand_overs.values())
        searches = (one.next_wakeup for one in self._orphans.values())
        rests = (flow.wake_at for flow in self._flows.values())
        return min((self._trim_at, *retries, *repeats, *searches, *rests))

    def take_loads(self) -> list[InstanceLoad]:
        """Return how busy the instances were since the last call."""
        return [
            InstanceLoad(
                name,
                component,
                begins_at if (begins_at := flow.order.begins_at[component]) != self._server else "",
                instance.splits,
                instance.load.take_busy_share(),
                0.0 if instance.worker.is_troubled else instance.queue_age_s,
                instance.ledger.parts_of(self._server),
                instance.load.recent,
                instance.worker.is_hosted,
            )
            for name, flow in self._flows.items()
            for component, instance in flow.instances.items()
            if instance.ledger.parts_of(self._server)
        ]

    def report(self) -> list[FlowReport]:
        """Return how the flows are doing."""
        return [report_of(flow) for flow in self._flows.values()]

    # Actions

    def take_actions(self, now: float) -> FlowActions:
        """Return what is to be done after the events of a pass."""
        self._exchange(now)
        for hand_overs in self._hand_overs.values():
            hand_overs.end_pass()
        trims = 1 if now >= self._trim_at else _TRIMS
        changes = [TopicChange(name, ended=True) for name in self._ended]
        self._ended.clear()
        for flow in self._flows.values():
            changes += flow.changes(trims)
            flow.report_failures()
        group = None
        if changes:  # nothing waits for a commit that changed nothing
            group = Group(self._next_ticket(), tuple(changes))
            self._on_commit[group.ticket] = self._effects.take_after_commit()
        has_trims = any(flow.has_trims for flow in self._flows.values())
        self._trim_at = min(self._trim_at, now + _TRIM_S) if has_trims else _NEVER
        actions = self._effects.take_actions()
        actions.to_store = group
        return actions

    def _exchange(self, now: float) -> None:
        """Send what may be sent; what stays here arrives at once."""
        while True:
            for flow in self._flows.values():
                flow.send(now)
            if not self._effects.local:
                return
            while self._effects.local:
                self.on_message(self._server, self._effects.local.popleft(), now)
