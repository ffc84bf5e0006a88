"""Hand-overs: parts of a component's indexes move durably from one server to another.

The giver stores that a part is under way, with all that goes with it, and sends it until the taker
has stored it. Until then only the giver may take it back, when the taker refuses. Before the first
commit everything is the giver's, after the second everything is the taker's, between the two
nobody processes the part: its messages wait in their outboxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import structs

from nearcast.flow.hand_over_times import HandOverTimes
from nearcast.flow.instance import Instance
from nearcast.flow.ledger import Ledger, covers, describe_part
from nearcast.flow.messages import (
    Floor,
    FloorWanted,
    HandOver,
    Owner,
    Part,
    PlacedPart,
    Refuse,
    Settled,
    TakenFrom,
    Took,
    where_of,
)
from nearcast.flow.queued import Source
from nearcast.flow.running_flow import RunningFlow
from nearcast.flow.stored import StoredInstance, Taking, UnderWay

__all__ = ["HandOvers"]

_NEVER = float("inf")
_REPEAT_S = 5.0


class HandOvers:
    """All hand-overs of one flow at this server, given and taken."""

    def __init__(self, flow: RunningFlow) -> None:
        self._flow, self._server = flow, flow.server
        self._attempts: dict[int, int] = {}
        """The last attempt of each hand-over that is under way."""
        self._unstored: set[int] = set()
        """Hand-overs that were given, taken or settled here, while that is not durable."""
        self.pending: set[int] = set()
        """Hand-overs whose states are being taken in."""
        self._times = HandOverTimes(flow.clock)
        self._repeat_at = 0.0
        """When to say again what was not answered; at once after a start."""

    # Giving

    def give(self, component: str, part: Part, to: str) -> str:
        """Begin to hand a part over; return why not, empty when it has begun.

        A processor in the host process has to finish first what it has begun: what is against it
        then is an incident, ``not moved``.
        """
        instance = self._flow.instances.get(component)
        problem = self._against(instance, part, to)
        if problem or instance is None:
            return problem
        problems, is_told, asked_s = list[str](), False, self._flow.clock()

        def go_on(is_possible: bool, state: bytes | None) -> bool:
            reason = self._against(instance, part, to) or self._against_state(is_possible, state)
            if not reason:
                self._times.begin(self._begin(instance, part, to, state), asked_s)
            elif is_told:
                detail = f"{describe_part(part)} to {to}: {reason}"
                self._flow.incident(component, "not moved", detail)
            else:
                problems.append(reason)
            return not reason

        instance.take_off(part, go_on)
        is_told = True
        return "".join(problems)

    def _against(self, instance: Instance | None, part: Part, to: str) -> str:
        """Return why a part cannot be handed over, whatever its state is."""
        flow = self._flow
        if to == self._server or to not in flow.effects.servers:
            return f"{to!r} is not another server of the site"
        if instance is None or part.low >= part.high:
            return "nothing of it is here"
        if not instance.ledger.holds(part, self._server):
            return "not all of it is held here"
        if len(instance.under_way) >= flow.settings.hand_overs:
            return "too many hand-overs are under way"
        if len(instance.ledger) + 2 > flow.settings.ledger_parts:
            return "the component is split into too many parts"
        if instance.gives(part):
            return "some of it, for one net, is under way"
        return ""

    def _against_state(self, is_possible: bool, state: bytes | None) -> str:
        if not is_possible:
            return (
                "its processor keeps a state that it cannot split: it moves as a whole only"
                " (a splitting one: for all nets only)"
            )
        if len(state or b"") > self._flow.settings.hand_over_bytes:  # no channel would carry it
            return f"its state of {len(state or b'')} bytes is too large to be sent"
        return ""

    def _begin(self, instance: Instance, part: Part, to: str, state: bytes | None) -> int:
        flow, component = self._flow, instance.where[2]
        others = [one for one in instance.ledger.exceptions(part) if one.server != self._server]
        number, taken = flow.rng.getrandbits(62), instance.all_taken(part)
        message = HandOver(*instance.where, number, 0, part, state, taken, tuple(others))
        output = flow.order.flow.components[component].output
        drain = {one: flow.outbox(one, output).last for one in flow.order.flow.readers(output)}
        instance.ledger.place(part, to)
        instance.load.forget(partial(covers, part))
        instance.under_way[number] = UnderWay(to, message, drain)
        instance.waiting[number] = instance.drop_queued(part)
        self._store(instance, number, partial(self._send, instance, number))
        return number

    def _send(self, instance: Instance, number: int) -> None:
        one = instance.under_way.get(number)
        if one is not None and not one.is_taken and number not in self._unstored:
            attempt = self._attempts[number] = self._flow.rng.getrandbits(62)
            self._flow.effects.send(one.to, structs.replace(one.message, attempt=attempt))

    def on_took(self, sender: str, message: Took) -> None:
        """Let go of a part that is durable at its taker."""
        instance = self._flow.instances.get(message.component)
        if message.number in self._unstored or message.component in self._flow.refusals:
            return  # said again while it is being stored, or nothing is known of it now
        one = instance.under_way.get(message.number) if instance is not None else None
        if instance is None or one is None:
            self._flow.effects.send(sender, Settled(*where_of(message), message.number))
        elif one.to != sender:
            self._flow.effects.not_entitled += 1
        elif not one.is_taken:
            number, bare = message.number, structs.replace(one.message, state=None, taken=())
            instance.under_way[number] = structs.replace(one, message=bare, is_taken=True)
            self._attempts.pop(number, None)
            self._times.end_hold_up(number)
            instance.has_change = True
            self._tell_waiting(instance, message.number, one.message.part, sender)

    def on_refuse(self, sender: str, message: Refuse) -> None:
        """Take a part back that its taker does not want."""
        instance = self._flow.instances.get(message.component)
        one = instance.under_way.get(message.number) if instance is not None else None
        if instance is None or one is None or one.to != sender:
            self._flow.effects.not_entitled += 1
        elif not one.is_taken and message.attempt == self._attempts.get(message.number):
            self.take_back(instance, one, f"{sender} refused: {message.reason}")

    def take_back(self, instance: Instance, one: UnderWay, reason: str) -> None:
        """Hold a part again that was under way, with its state."""
        number, attempt = one.message.number, self._attempts.get(one.message.number)

        def go_on(is_possible: bool) -> bool:
            if instance.under_way.get(number) is not one or self._attempts.get(number) != attempt:
                return False  # it was taken or sent again meanwhile
            if not is_possible:  # it stays under way, and is offered again
                self._flow.incident(instance.where[2], "not taken back", reason)
                return False
            self._taken_back(instance, one, reason)
            return True

        instance.take_in(one.message.state, go_on)

    def _taken_back(self, instance: Instance, one: UnderWay, reason: str) -> None:
        component, part, number = instance.where[2], one.message.part, one.message.number
        self._place(instance, one.message)
        del instance.under_way[number]
        self._attempts.pop(number, None)
        detail = f"{describe_part(part)}: {reason}{self._times.tell(number)}"
        self._flow.incident(component, "taken back", detail)
        self._tell_waiting(instance, number, part, self._server)
        self._store(instance, number, partial(self._flow.tell_finder, component))

    def _tell_waiting(self, instance: Instance, number: int, part: Part, server: str) -> None:
        for one in instance.waiting.pop(number, ()):
            self._flow.effects.send(one, Owner(*instance.where, part, server))

    def _settle_drained(self, instance: Instance) -> None:
        """Settle what is taken once all that the part caused here is done: it comes first."""
        flow, output = self._flow, self._flow.order.flow.components[instance.where[2]].output
        for number, one in list(instance.under_way.items()):
            is_drained = all(
                flow.outbox(reader, output).floor > last for reader, last in one.drain.items()
            )
            if one.is_taken and is_drained:
                del instance.under_way[number]
                self._store(instance, number, partial(self._tell_settled, instance, one))

    def _tell_settled(self, instance: Instance, one: UnderWay) -> None:
        part, number = one.message.part, one.message.number
        self._flow.effects.send(one.to, Settled(*instance.where, number))
        detail = f"{describe_part(part)} to {one.to}{self._times.tell(number)}"
        self._flow.incident(instance.where[2], "handed over", detail)

    # Taking

    def on_hand_over(self, sender: str, message: HandOver) -> None:
        """Take a part, or refuse it."""
        flow, number = self._flow, message.number
        instance = flow.instances.get(message.component)
        if number in self._unstored or number in self.pending:
            return  # said when it is stored
        if instance is not None and number in instance.takings:
            if instance.takings[number].giver == sender:
                flow.effects.send(sender, Took(*instance.where, number))
            return
        if instance is None:
            instance = flow.make_instance(message.component, StoredInstance(None, ()))
        reason = self._objection(instance, sender, message)
        if instance is None or reason:
            self._refuse(sender, message, reason)
            return

        def go_on(is_possible: bool) -> bool:
            self.pending.discard(number)
            reason = "its state cannot be taken in"
            if is_possible:
                reason = self._objection(instance, sender, message)
            if reason:
                self._refuse(sender, message, reason)
            else:
                self._take(instance, sender, message)
            return not reason

        self.pending.add(number)
        self._times.arrive(number)
        instance.take_in(message.state, go_on)

    def _refuse(self, sender: str, message: HandOver, reason: str) -> None:
        refuse = Refuse(*where_of(message), message.number, message.attempt, reason)
        self._flow.effects.send(sender, refuse)

    def _take(self, instance: Instance, sender: str, message: HandOver) -> None:
        number, part = message.number, message.part
        self._place(instance, message)
        instance.inherit(part, self._known_sources(message))
        instance.takings[number] = Taking(number, sender, part)
        self._flow.unsettled.add(number)
        self._store(instance, number, partial(self._tell_taken, instance, number))

    def _objection(self, instance: Instance | None, sender: str, message: HandOver) -> str:
        """Return why a hand-over is refused, whatever its state is."""
        settings, part = self._flow.settings, message.part
        if instance is None:
            return self._flow.refusals.get(message.component, "it does not run here")
        own = [one for one in instance.ledger.exceptions(part) if one.server == self._server]
        excepted = Ledger(PlacedPart(one.part, sender) for one in message.exceptions)
        if (
            part.low >= part.high
            or instance.ledger.has_any(part, self._server)
            or not all(excepted.holds(one.part, sender) for one in own)
            or instance.gives(part)
        ):
            self._flow.effects.not_entitled += 1
            return "what is handed over is held here"
        if (
            len(instance.ledger) + len(message.exceptions) + 2 > settings.ledger_parts
            or len(instance.inherited) >= settings.inherited_parts
            or len(instance.takings) + len(self.pending) >= settings.hand_overs
        ):
            return "no room"
        if instance.worker.wake_at < _NEVER:  # the part would wait as long as it rests
            return "its processor rests"
        if sender not in self._flow.effects.servers:
            return "it is no longer known here"
        return ""

    def _place(self, instance: Instance, message: HandOver) -> None:
        """Hold a part, and know who has the exceptions; of its own this server knows best."""
        before = Ledger(instance.ledger.placed())
        instance.ledger.place(message.part, self._server)
        for one in message.exceptions:
            for piece, server in before.pieces(one.part):
                if server != self._server and one.server != self._server:
                    server = one.server
                instance.ledger.place(piece, server or self._server)

    def _known_sources(self, message: HandOver) -> Iterator[TakenFrom]:
        inputs = self._flow.order.flow.components[message.component].inputs
        for one in message.taken:
            if one.server in self._flow.effects.servers and one.topic in inputs:
                yield structs.replace(one, numbers=tuple(sorted(one.numbers)))

    def _tell_taken(self, instance: Instance, number: int) -> None:
        taking = instance.takings.get(number)
        if taking is not None:
            self._flow.effects.send(taking.giver, Took(*instance.where, number))
            detail = f"{describe_part(taking.part)} from {taking.giver}{self._times.tell(number)}"
            self._flow.incident(instance.where[2], "taken", detail)
        self._flow.tell_finder(instance.where[2])

    def on_settled(self, sender: str, message: Settled) -> None:
        """Forget a hand-over that its giver has let go of; what waited for that is sent."""
        instance = self._flow.instances.get(message.component)
        taking = instance.takings.get(message.number) if instance is not None else None
        if instance is not None and taking is not None and taking.giver == sender:
            self._settle(instance, message.number)

    def _settle(self, instance: Instance, number: int) -> None:
        del instance.takings[number]
        instance.has_change = True
        self._flow.unsettled.discard(number)
        for outbox in self._flow.outboxes.values():
            outbox.on_settled(number)

    # What earlier holders have processed

    def on_floor_wanted(self, sender: str, message: FloorWanted) -> None:
        """Tell how far an outbox of this server is done."""
        outbox = self._flow.outboxes.get((message.component, message.topic))
        if outbox is not None:
            about = (*where_of(message), message.topic, outbox.birth, outbox.floor)
            self._flow.effects.send(sender, Floor(*about))

    def on_floor(self, sender: str, message: Floor) -> None:
        """Hear how far an outbox is done."""
        instance = self._flow.instances.get(message.component)
        if instance is not None and (sender, message.topic) in instance.inherited_sources:
            instance.on_floor(Source(sender, message.topic, message.birth), message.floor)

    # Times

    def on_orders(self) -> None:
        """Forget hand-overs with servers that are no longer in the orders.

        Of what they may have taken `Orphans` finds out where it is.
        """
        servers = self._flow.effects.servers
        for instance in self._flow.instances.values():
            for number, one in list(instance.under_way.items()):
                if one.to not in servers and one.is_taken:
                    del instance.under_way[number]
                    instance.has_change = True
            for taking in list(instance.takings.values()):
                if taking.giver not in servers:
                    self._settle(instance, taking.number)
            instance.forget_sources(servers)

    def on_restarted(self, server: str) -> None:
        """Say again what a server may have forgotten."""
        for instance in self._flow.instances.values():
            self._repeat(instance, server)

    def on_timer(self, now: float) -> None:
        """Say again what was not answered."""
        if now >= self._repeat_at:
            self._repeat_at = now + _REPEAT_S
            for instance in self._flow.instances.values():
                self._repeat(instance, None)

    @property
    def next_wakeup(self) -> float:
        """When `on_timer` has to be called at the latest."""
        has_open = any(
            one.under_way or one.takings or one.inherited for one in self._flow.instances.values()
        )
        return self._repeat_at if has_open else _NEVER

    def end_pass(self) -> None:
        """Settle what can be settled now."""
        for instance in self._flow.instances.values():
            if instance.under_way:
                self._settle_drained(instance)

    def _repeat(self, instance: Instance, server: str | None) -> None:
        for taking in instance.takings.values():  # first: what was taken may be on its way back
            if server in (None, taking.giver) and taking.number not in self._unstored:
                self._flow.effects.send(taking.giver, Took(*instance.where, taking.number))
        for number, one in instance.under_way.items():
            if server in (None, one.to):
                self._send(instance, number)
        for name, topic in sorted(instance.inherited_sources):
            if server in (None, name):
                self._flow.effects.send(name, FloorWanted(*instance.where, topic))

    def _store(self, instance: Instance, number: int, then: partial[None]) -> None:
        """Store an instance; call something when that is durable."""
        instance.has_change = True
        self._unstored.add(number)

        def on_durable() -> None:
            self._unstored.discard(number)
            then()

        self._flow.effects.after_commit(on_durable)
