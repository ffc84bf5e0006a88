"""One run of a flow at one server: its outboxes, instances and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from nearcast.broker.processing import Outcome, ProcessorRunner
from nearcast.broker.processor import ProcessorWatch
from nearcast.broker.requests import Failure, ProcessResult
from nearcast.broker.topic_settings import TopicSettings
from nearcast.errors import ConfigError, ProcessorError
from nearcast.flow.content_index import make_mapping
from nearcast.flow.effects import Effects
from nearcast.flow.finder import Finder
from nearcast.flow.flow import Component
from nearcast.flow.flow_orders import FlowOrder
from nearcast.flow.flow_settings import FlowSettings
from nearcast.flow.hosted_worker import HostedWorker
from nearcast.flow.instance import Instance
from nearcast.flow.ledger import Ledger
from nearcast.flow.messages import Done, Owner, Part, PlacedPart, Work
from nearcast.flow.outbox import Outbox
from nearcast.flow.outputs import Outputs
from nearcast.flow.queued import Queued
from nearcast.flow.stored import StoredInstance, StoredName, decode_instance
from nearcast.flow.worker import InlineWorker, Worker
from nearcast.routing.chance import Chance
from nearcast.routing.index_mapping import ContentMapping, IndexMapping
from nearcast.routing.keys import INDEX_END, NetPath
from nearcast.spool.changes import LiveTopic, TopicChange
from nearcast.trust.flow_publishers import flow_publisher
from nearcast.wire.publication import Publication

__all__ = ["MakeRunner", "RunningFlow"]

MakeRunner = Callable[[Component], ProcessorRunner | None]
"""None: the component's processor runs in the host process. Raises ProcessorError when this server
does not run it."""


class RunningFlow:
    """What this server does for one run of a flow.

    Parameters
    ----------
    net
        Where this server is.
    recovered
        What the log has of this run.
    clock
        The time now: to measure what processing takes.
    watch
        Is told when a function of a mapping runs.
    """

    def __init__(
        self,
        server: str,
        net: NetPath,
        order: FlowOrder,
        settings: FlowSettings,
        make_runner: MakeRunner,
        finder: Finder | None,
        rng: Chance,
        recovered: Mapping[StoredName, LiveTopic],
        effects: Effects,
        clock: Callable[[], float],
        watch: ProcessorWatch | None = None,
    ) -> None:
        self.clock, self._watch = clock, watch
        self.server, self.order, self.settings, self.effects = server, order, settings, effects
        self._net, self._make_runner, self._finder, self.rng = net, make_runner, finder, rng
        self._recovered = dict(recovered)
        self.instances: dict[str, Instance] = {}
        self.outboxes: dict[tuple[str, str], Outbox] = {}
        """By component and the topic that it reads."""
        self.outputs: dict[str, Outputs] = {}
        self.refusals: dict[str, str] = {}
        """Why components do not run here, by component."""
        self.unsettled: set[int] = set()
        """Hand-overs that were taken here and are not settled."""
        self.mapping_errors = Counter[str]()
        """Messages for which a mapping was of no use, by the component that they are for."""
        self._owners: dict[str, Ledger] = {}
        self._mappings: dict[str, IndexMapping] = {}
        self._met: set[tuple[str, NetPath]] = set()
        self._told_problems: set[str] = set()
        """Components whose processors the host process cannot make."""
        for name, component in order.flow.components.items():
            self._mappings[name] = self._make_mapping(name, component)
            self._recover(name)
        for stored in list(self._recovered):
            if stored.kind == "outbox":
                self.outbox(stored.component, stored.topic)

    def where(self, component: str) -> tuple[str, int, str]:
        """Return how messages name a component."""
        return self.order.flow.name, self.order.number, component

    # Parts, made when they are needed first

    def outbox(self, component: str, topic: str) -> Outbox:
        """Return the outbox of a topic for a component."""
        found = self.outboxes.get((component, topic))
        if found is None:
            name, live = self._live("outbox", component, topic)
            found = Outbox(name, self.settings, live, self.unsettled, self.rng)
            self.outboxes[component, topic] = found
        return found

    def make_instance(self, component: str, stored: StoredInstance) -> Instance | None:
        """Return a new instance; None when its processor does not run here, see `refusals`."""
        declared = self.order.flow.components[component]
        try:
            runner = self._make_runner(declared)
        except ProcessorError as error:
            self.refusals[component] = str(error)
            self.incident(component, "refused", str(error))
            return None
        make_worker = partial(self._make_worker, component, runner)
        made = Instance(
            self.server, self.where(component), self.settings, make_worker, stored, self.clock
        )
        self.instances[component] = made
        self.unsettled.update(made.takings)
        name, live = self._live("output", component)
        publisher = flow_publisher(self.order.flow.name, component, self.server)
        self.outputs[component] = Outputs(
            name,
            declared.output,
            publisher,
            self.order.number,
            self.settings.outbox_messages,
            live,
        )
        return made

    def _make_worker(
        self,
        component: str,
        runner: ProcessorRunner | None,
        state: bytes | None,
        failures: list[Failure],
    ) -> Worker:
        if runner is not None:
            return InlineWorker(runner, state, self.settings.batch, self.clock, failures)
        name = StoredName(self.order.flow.name, self.order.number, "instance", component)
        declared = self.order.flow.components[component]
        settings = TopicSettings(
            str(name),
            self.settings.batch,
            processor=declared.processor,
            options=declared.options,
            guard=self.settings.guard,
            inline=False,
        )
        return HostedWorker(settings, state, self.effects.ask, self.clock, failures)

    def _recover(self, component: str) -> None:
        name = StoredName(self.order.flow.name, self.order.number, "instance", component)
        live = self._recovered.get(name)
        if live is not None and live.state is not None:
            self.make_instance(component, decode_instance(live.state))
        elif self.order.begins_at.get(component) == self.server:
            whole = PlacedPart(Part(None, 0, INDEX_END), self.server)
            self.make_instance(component, StoredInstance(None, (whole,)))
        self.tell_finder(component)

    def _live(self, kind: str, component: str, topic: str = "") -> tuple[str, LiveTopic]:
        name = StoredName(self.order.flow.name, self.order.number, kind, component, topic)
        return str(name), self._recovered.pop(name, None) or LiveTopic()

    def _make_mapping(self, name: str, component: Component) -> IndexMapping:
        try:
            return make_mapping(component, self._watch)
        except ConfigError as error:
            self.incident(name, "mapping failed", str(error))
            return ContentMapping(lambda body: body)

    # Messages leave

    def tap(
        self, topic: str, publications: Sequence[Publication]
    ) -> Iterator[tuple[TopicChange, Callable[[], None]]]:
        """Put publications into the outboxes of all that read their topic.

        Each outbox has something to store, and something to call when that is durable.
        """
        for component in self.order.flow.readers(topic):
            for one in publications:
                self._post(component, topic, one, 0)
            outbox = self.outbox(component, topic)
            change, fresh = outbox.take_change()
            yield change, partial(outbox.on_durable, fresh)

    def is_full(self, topic: str) -> bool:
        """Tell whether an outbox of a topic has no room."""
        readers = self.order.flow.readers(topic)
        return any(self.outbox(component, topic).is_full for component in readers)

    def send(self, now: float) -> None:
        """Send what may be sent."""
        for (component, topic), outbox in self.outboxes.items():
            for parcel in outbox.send(now, self._finding(component)):
                about = (*self.where(component), topic, outbox.birth, parcel.net)
                work = Work(*about, outbox.floor, tuple(parcel.items))
                self.effects.send(parcel.server, work)
        for outputs in self.outputs.values():
            self.effects.publications += outputs.take_unsent()

    def _post(self, component: str, topic: str, made: Publication, waits_for: int) -> None:
        mapped = self._mappings[component].index_of(made.payload, self.rng)
        if mapped.error:
            if not self.mapping_errors[component]:  # later ones are counted only
                self.incident(component, "mapping failed", mapped.error)
            self.mapping_errors[component] += 1
        self.outbox(component, topic).append(self._net, mapped.index, made.record(), waits_for)

    def _finding(self, component: str) -> Callable[[NetPath, int, bool], str]:
        begins_at = self.order.begins_at.get(component, "")
        flow, owners, finder = self.order.flow.name, self._owners.get(component), self._finder

        def find(net: NetPath, index: int, is_astray: bool) -> str:
            if is_astray:
                return begins_at
            known = owners.server_of(net, index) if owners else ""
            if not known and finder is not None:
                known = finder.find(flow, component, net, index) or ""
            return known if known in self.effects.servers else begins_at

        return find

    def _learn(self, component: str, part: Part, server: str) -> None:
        owners = self._owners.get(component)
        if owners is None or len(owners) >= self.settings.owners:
            owners = self._owners[component] = Ledger()
        owners.place(part, server)

    # Messages come

    def on_work(self, sender: str, message: Work) -> None:
        """Take messages for a component, or say who should have them."""
        instance = self.instances.get(message.component)
        if message.topic not in self.order.flow.components[message.component].inputs:
            return
        if instance is not None:
            for answer in instance.on_work(sender, message):
                self.effects.send(sender, answer)
            self._meet(message.component, message.net)
        elif message.component not in self.refusals:
            whole = Part(None, 0, INDEX_END)
            self.effects.send(sender, Owner(*self.where(message.component), whole, ""))

    def on_done(self, sender: str, message: Done, now: float) -> None:
        """Drop what is done, and remember who did it."""
        outbox = self.outboxes.get((message.component, message.topic))
        if outbox is None or outbox.birth != message.birth:
            return
        if outbox.on_done(sender, message.numbers, now):
            part = message.part
            if part is not None and part.low < part.high:
                self._learn(message.component, part, sender)

    def on_owner(self, sender: str, message: Owner) -> None:
        """Send what was not processed where it belongs."""
        part, known = message.part, message.server
        is_known = known in self.effects.servers and part.low < part.high
        moved = [
            outbox.on_moved(sender, part, is_known)
            for (component, _), outbox in self.outboxes.items()
            if component == message.component
        ]
        if any(moved) and part.low < part.high:
            self._learn(message.component, part, known if is_known else "")

    def _meet(self, component: str, net: NetPath) -> None:
        if self._finder is not None and (component, net) not in self._met:
            if len(self._met) >= self.settings.nets:  # senders may name any
                self._met.clear()
            self._met.add((component, net))
            self._finder.meet(self.order.flow.name, component, net)

    def tell_finder(self, component: str) -> None:
        """Tell the overlay what is held here."""
        instance = self.instances.get(component)
        if self._finder is not None and instance is not None:
            held = instance.ledger.parts_of(self.server)
            self._finder.hold(self.order.flow.name, component, held)

    # Processing

    def process(self) -> None:
        """Process a batch of each instance."""
        for component, instance in self.instances.items():
            if instance.has_work and not self._is_blocked(component):
                instance.process(partial(self._on_processed, component, instance))

    @property
    def has_work(self) -> bool:
        """Whether something waits for a processor and may be processed."""
        return any(
            instance.has_work and not self._is_blocked(component)
            for component, instance in self.instances.items()
        )

    def _is_blocked(self, component: str) -> bool:
        output = self.order.flow.components[component].output
        return self.outputs[component].is_full or self.is_full(output)

    def on_result(self, component: str, result: ProcessResult) -> None:
        """Take what the host process made of something."""
        instance = self.instances.get(component)
        if instance is not None and isinstance(instance.worker, HostedWorker):
            instance.worker.on_result(result)

    @property
    def wake_at(self) -> float:
        """When `process` has something to do at the latest."""
        return min((one.worker.wake_at for one in self.instances.values()), default=float("inf"))

    def _on_processed(
        self, component: str, instance: Instance, batch: Sequence[Queued], outcome: Outcome
    ) -> None:
        output = self.order.flow.components[component].output
        causes = {id(one.publication): one for one in batch}
        for one in outcome.notifications:
            cause = causes[id(one.cause)]
            made = self.outputs[component].append(one.payload, cause.publication)
            waits_for = instance.unsettled(cause.net, cause.index)
            for reader in self.order.flow.readers(output):
                self._post(reader, output, made, waits_for)
        self.effects.after_commit(partial(self._on_durable, instance, batch))

    def _on_durable(self, instance: Instance, batch: Sequence[Queued]) -> None:
        for server, done in instance.on_durable(batch):
            self.effects.send(server, done)

    # Storing

    def changes(self, trims: int) -> Iterator[TopicChange]:
        """Return what is to be stored now."""
        flow = self.order.flow
        for component, instance in self.instances.items():
            if instance.has_change:
                name = StoredName(flow.name, self.order.number, "instance", component)
                yield TopicChange(str(name), state=instance.take_state())
        for outbox in self.outboxes.values():
            if outbox.has_change(trims):
                change, numbers = outbox.take_change()
                self.effects.after_commit(partial(outbox.on_durable, numbers))
                yield change
        for outputs in self.outputs.values():
            if outputs.has_change(trims):
                change, fresh = outputs.take_change()
                self.effects.after_commit(partial(outputs.on_durable, fresh))
                yield change

    @property
    def has_trims(self) -> bool:
        """Whether the log has messages that are done."""
        return any(one.has_change(1) for one in self.outboxes.values()) or any(
            one.has_change(1) for one in self.outputs.values()
        )

    def names(self) -> Iterator[str]:
        """Return the pseudo-topics that there may be of this run."""
        for component in self.instances:
            yield str(StoredName(*self.where(component)[:2], "instance", component))
        yield from (one.name for one in self.outboxes.values())
        yield from (one.name for one in self.outputs.values())
        yield from map(str, self._recovered)

    def report_failures(self) -> None:
        """Report what went wrong with processors."""
        for component, instance in self.instances.items():
            for failure in instance.failures:
                self.incident(component, "failed", failure.detail)
            instance.failures.clear()
            problem = instance.worker.problem
            if problem and component not in self._told_problems:
                self._told_problems.add(component)
                self.incident(component, "refused", problem)

    def close(self) -> None:
        """Let go of all processors."""
        for instance in self.instances.values():
            instance.worker.close()

    def incident(self, component: str, event: str, detail: str) -> None:
        """Report something about a component."""
        self.effects.incident(self.order.flow.name, component, event, detail)
