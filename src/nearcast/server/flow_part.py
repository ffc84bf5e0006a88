"""Running flows among the other parts: what they want done goes to servers, broker and log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, get_args

from nearcast.broker.broker import Broker
from nearcast.broker.processing import ProcessorRunner
from nearcast.broker.processor import ProcessorWatch
from nearcast.broker.registry import SHIPPED, check_allowed, load_processor, make_processor
from nearcast.broker.requests import ProcessResult
from nearcast.errors import ProcessorError, WireError
from nearcast.flow.flow import Component, ContentMapping
from nearcast.flow.flow_orders import FlowOrder
from nearcast.flow.flow_runtime import FlowRuntime
from nearcast.flow.flow_settings import FlowSettings
from nearcast.flow.messages import FlowMessage
from nearcast.server.effects import Effects
from nearcast.server.flow_description import describe_flows
from nearcast.server.flow_events import FlowEvents
from nearcast.server.flow_load import FlowLoad
from nearcast.server.flow_messages import MovePart
from nearcast.server.flow_outputs import FlowOutputs
from nearcast.server.flow_watch import FlowWatch
from nearcast.server.peers import Peers
from nearcast.server.ring_part import RingPart
from nearcast.server.router import Router
from nearcast.server.server_settings import ServerSettings
from nearcast.server.site_orders import Orders
from nearcast.spool.changes import LiveTopic, TopicChange
from nearcast.trust.flow_publishers import flow_publisher
from nearcast.wire.publication import Publication

__all__ = ["FlowPart"]

_BUDGET_S = 0.01
"""How long processors may hold up the loop in one pass; one batch is always processed."""
_MOVES = frozenset(("handed over", "taken", "taken back"))
"""Events after which loads have to be measured anew."""


class FlowPart:
    """What one server does for all flows.

    Parameters
    ----------
    recovered
        What the spool's log found, by topic; other topics than those of flows are passed over.
    next_ticket
        Gives the names of groups.
    clock
        The time now, as the `now` of events: to measure what processing takes.
    watch
        Is told when a processor runs.
    ring
        Knows who has an index, and who has room.
    """

    def __init__(
        self,
        settings: ServerSettings,
        peers: Peers,
        effects: Effects,
        recovered: Mapping[str, LiveTopic],
        next_ticket: Callable[[], int],
        clock: Callable[[], float],
        ring: RingPart,
        watch: ProcessorWatch | None = None,
    ) -> None:
        self._settings, self._peers, self._effects = settings, peers, effects
        self._clock, self._processor_watch = clock, watch
        self._runtime = FlowRuntime(
            settings.server,
            settings.net,
            self._make_runner,
            ring.finder,
            FlowSettings(batch_s=_BUDGET_S),
            recovered,
            next_ticket,
            ring.overlay.chance,
            clock,
            watch,
        )
        self.tap: Callable[[str, Sequence[Publication], int], Sequence[TopicChange]]
        self.tap = self._runtime.tap
        self._orders: tuple[FlowOrder, ...] = ()
        self._refused: dict[str, str] = {}
        """Flows that cannot run here, and why: what their sources get would be lost to them."""
        self._loaded: set[str] = set()
        """Processors of the last orders' flows: those that run in the loop are loaded."""
        self._sources: frozenset[str] = frozenset()
        self._held_up: frozenset[str] = frozenset()
        self._is_idle = True
        """Whether there is nothing to do in any pass until orders name flows."""
        self._is_spent = False
        """Whether processors have had their time until the next timer, which comes once all that
        has arrived is taken. Else each arrival would cost a batch, and messages would wait unseen
        in the links, reports and acknowledgements behind them."""
        self._events = FlowEvents()
        self.watch = FlowWatch(peers, effects, settings.report_interval_s, self._runtime.report)
        """How the flows are doing."""
        self.load = FlowLoad(
            peers, ring.overlay, self._runtime, settings.net, settings.flow_load, self._note
        )
        """When parts are given away."""
        self._broker: Broker
        self._outputs: FlowOutputs
        for kind in get_args(FlowMessage):
            peers.on(kind, self._on_message)
        peers.on(MovePart, self._on_move)

    def connect(self, router: Router, broker: Broker) -> None:
        """Take the parts that publications of components go through, and that take those of clients."""
        self._broker = broker
        self._outputs = FlowOutputs(router.publish, self._runtime.on_published)
        router.on_own_acknowledged = self._outputs.acknowledge

    # Events

    def obey(self, orders: Orders, now: float) -> None:
        """Run the flows of new orders, as far as this server may."""
        self._orders, self._refused, self._is_idle = orders.flows, {}, False
        self._sources = frozenset(topic for one in orders.flows for topic in one.flow.sources)
        self._events.keep([one.flow.name for one in orders.flows])
        for order in orders.flows:
            try:
                self._check_mappings(order)
            except ProcessorError as error:
                self._refused[order.flow.name] = str(error)
                self._note(order.flow.name, "", "refused", str(error), now)
        runs = [one for one in orders.flows if one.flow.name not in self._refused]
        self._load_ahead(runs)
        servers = [one.server for one in orders.servers]
        self.watch.queued = self.watch.outgoing = 0
        self.load.obey(bool(runs), now)
        self._runtime.obey(runs, servers, orders.revision, now)
        self._outputs.keep(
            flow_publisher(one.flow.name, component, self._settings.server)
            for one in runs
            for component in one.flow.components
        )

    def on_restarted(self, server: str, now: float) -> None:
        """Note that a server may have missed something."""
        self._runtime.on_restarted(server, now)

    def on_processed(self, result: ProcessResult) -> None:
        """Take what the host of processors made of something."""
        self._runtime.on_processed(result)

    def on_committed(self, tickets: Iterable[int], now: float) -> None:
        """Note that groups are durable."""
        self._runtime.on_committed(tickets, now)

    def on_timer(self, now: float) -> None:
        """Do what is due."""
        self._is_spent = False
        self._runtime.on_timer(now)
        if now >= self._outputs.repeat_at:
            self._outputs.repeat(now)
        if self._orders:
            self.watch.on_timer(now, self._events.all)
            self.load.on_timer(now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        if self._is_idle:
            return float("inf")
        if self._runtime.has_work:
            return float("-inf")
        own = min(self._runtime.next_wakeup, self._outputs.repeat_at, self.load.next_wakeup())
        return min(own, self.watch.next_wakeup()) if self._orders else own

    def finish(self, now: float) -> None:
        """End a pass: process for a while, and do what came of it."""
        if self._is_idle:
            return
        runtime, until = self._runtime, self._clock() + _BUDGET_S
        while runtime.has_work and not self._is_spent:
            runtime.run(now)
            self._is_spent = self._clock() >= until
        actions = runtime.take_actions(now)
        if actions.to_store is not None:
            self._effects.out.to_store.append(actions.to_store)
        self._effects.out.to_process += actions.to_process
        for server, message in actions.sends:
            self._peers.send(server, message)
        self._outputs.send(actions.publications, now)
        for one in actions.incidents:
            self._note(*one, now)
            if one.event in _MOVES:
                self.load.on_moved(now)
        self._hold_up()
        self._is_idle = not self._orders and runtime.is_idle

    def status(self) -> list[dict[str, Any]]:
        """Return the flows as this server sees them."""
        said = self.watch.read(self._events.all())
        return describe_flows(self._orders, {self._settings.server: said})

    # What others say

    def _on_message(self, server: str, message: FlowMessage, now: float) -> None:
        self._runtime.on_message(server, message, now)
        self._effects.counts["flow_unexpected"] = self._runtime.unexpected
        self._effects.counts["flow_not_entitled"] = self._runtime.not_entitled

    def _on_move(self, server: str, move: MovePart, now: float) -> None:
        if server != self._settings.manager:
            raise WireError(f"only {self._settings.manager!r} has parts moved")
        net, low, high = move.part.net, move.part.low, move.part.high
        problem = self._runtime.hand_over(
            move.flow, move.component, net, low, high, move.to_server, now
        )
        if problem:
            self._note(move.flow, move.component, "not moved", problem, now)

    # Within

    def _hold_up(self) -> None:
        """Send publishers of sources back whose messages flows have no room for."""
        full = frozenset(
            topic
            for topic in self._sources
            if self._is_refused(topic) or self._runtime.is_full(topic)
        )
        if full or self._held_up:
            self._broker.hold_up(full)
        self._held_up = full

    def _is_refused(self, topic: str) -> bool:
        return bool(self._refused) and any(
            one.flow.name in self._refused and topic in one.flow.sources for one in self._orders
        )

    def _check_mappings(self, order: FlowOrder) -> None:
        """Raise ProcessorError when a flow names a function that this server may not load."""
        for component in order.flow.components.values():
            if isinstance(component.mapping, ContentMapping) and component.mapping.function:
                function = component.mapping.function
                check_allowed(function, self._settings.allowed_processors)
                if function in self._settings.hung_processors:
                    raise ProcessorError(f"mapping {function!r} has hung this server before")

    def _load_ahead(self, orders: Iterable[FlowOrder]) -> None:
        """Load what may come here: an import at a hand-over would hold up the loop and the part."""
        names = {one.processor for order in orders for one in order.flow.components.values()}
        for name in sorted(names - self._loaded):
            with suppress(ProcessorError):  # told when a component is to run here
                if self._runs_inline(name):
                    load_processor(name)
        self._loaded = names

    def _runs_inline(self, processor: str) -> bool:
        """Tell whether a processor runs in the loop; raise ProcessorError when nowhere here."""
        settings = self._settings
        check_allowed(processor, settings.allowed_processors)
        is_trusted = processor in SHIPPED or processor in settings.inline_processors
        return is_trusted and processor not in settings.hung_processors

    def _make_runner(self, component: Component) -> ProcessorRunner | None:
        """Return a component's processor; None: the host process has it, which may lose it."""
        name = component.processor
        if not self._runs_inline(name):
            return None
        processor = make_processor(name, component.options)
        return ProcessorRunner(processor, self._processor_watch, component.output, name)

    def _note(self, flow: str, component: str, event: str, detail: str, now: float) -> None:
        self._events.note(now, flow, component, event, detail)
        self._effects.incident("flow", flow=flow, component=component, what=event, detail=detail)
