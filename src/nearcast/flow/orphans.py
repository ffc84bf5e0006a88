"""Parts that were given to a server which the orders no longer name are taken back.

It may have given them on. So all servers are asked who has what, twice: when two rounds of answers
are the same, they tell how it was between the two. A part that nobody has is taken back by the
first of the servers that gave it to one that is gone: with its state where the hand-over was still
under way, otherwise without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from nearcast.flow.handovers import HandOvers
from nearcast.flow.instance import Instance
from nearcast.flow.ledger import Ledger, describe_part, overlaps
from nearcast.flow.messages import Held, HeldWanted, Part, PlacedPart
from nearcast.flow.running_flow import RunningFlow
from nearcast.flow.stored import UnderWay
from nearcast.routing.keys import NetPath

__all__ = ["Orphans"]

_NEVER = float("inf")
_REPEAT_S = 5.0


class _Answer(NamedTuple):
    placed: tuple[PlacedPart, ...]
    under_way: tuple[Part, ...]


_Answers = dict[str, _Answer]
"""By server."""


class Orphans:
    """Finds out who has the parts of servers that are gone, for all components of a flow."""

    def __init__(self, flow: RunningFlow, hand_overs: HandOvers) -> None:
        self._flow, self._server, self._hand_overs = flow, flow.server, hand_overs
        self._revision = 0
        self._rounds: dict[str, int] = {}
        """By component whose parts are looked for: the round that is under way."""
        self._answers: dict[str, _Answers] = {}
        """Of that round."""
        self._before: dict[str, _Answers] = {}
        """Of the round before it, whole."""
        self._repeat_at = _NEVER

    def on_orders(self, revision: int) -> None:
        """Look for all parts of servers that are gone."""
        self._revision = revision
        self._rounds.clear()
        self._before.clear()
        self._repeat_at = _NEVER
        self.look()

    def look(self) -> None:
        """Begin to look for such parts where that is not done: orders or a hand-over brought them."""
        for component, instance in self._flow.instances.items():
            if component not in self._rounds and any(self._orphaned(instance)):
                self._rounds[component] = 0
                self._repeat_at = 0.0

    def _orphaned(self, instance: Instance) -> Iterator[Part]:
        for one in instance.ledger.placed():
            if one.server not in self._flow.effects.servers:
                yield one.part

    def on_timer(self, now: float) -> None:
        """Ask all servers, or those again that did not answer."""
        if now < self._repeat_at:
            return
        self._repeat_at = now + _REPEAT_S
        for component, number in self._rounds.items():
            if not number:
                self._begin_round(component)
            else:
                self._ask(component)

    @property
    def next_wakeup(self) -> float:
        """When `on_timer` has to be called at the latest."""
        return self._repeat_at if self._rounds else _NEVER

    def _begin_round(self, component: str) -> None:
        self._rounds[component] = self._flow.rng.getrandbits(62) + 1
        self._answers[component] = {}
        self._ask(component)

    def _ask(self, component: str) -> None:
        about = (*self._flow.where(component), self._revision, self._rounds[component])
        for server in sorted(self._flow.effects.servers):
            if server not in self._answers[component]:
                self._flow.effects.send(server, HeldWanted(*about))

    def on_held_wanted(self, sender: str, message: HeldWanted) -> None:
        """Tell what is held here, unless that is not known or the orders are older."""
        if message.revision > self._revision or message.component in self._flow.refusals:
            return
        instance = self._flow.instances.get(message.component)
        answer = _Answer((), ()) if instance is None else self._answer(instance)
        about = (*self._flow.where(message.component), message.round)
        self._flow.effects.send(sender, Held(*about, *answer))

    def _answer(self, instance: Instance) -> _Answer:
        view = Ledger(instance.ledger.placed())
        for one in instance.under_way.values():
            if not one.is_taken and one.to in self._flow.effects.servers:
                view.place(one.message.part, self._server)
        lost = (one.message.part for one in self._lost(instance))
        return _Answer(view.placed(), tuple(lost))

    def _lost(self, instance: Instance) -> list[UnderWay]:
        """Return what was under way to servers that are gone."""
        servers = self._flow.effects.servers
        given = instance.under_way.values()
        return [one for one in given if not one.is_taken and one.to not in servers]

    def on_held(self, sender: str, message: Held) -> None:
        """Hear what a server holds; go on when all have answered."""
        component = message.component
        if not message.round or message.round != self._rounds.get(component):
            return
        settings = self._flow.settings
        if (
            len(message.placed) > 2 * settings.ledger_parts
            or len(message.under_way) > 2 * settings.hand_overs
        ):
            # no server has so many; to compare them would take long
            self._flow.effects.not_entitled += 1
            return
        answers = self._answers[component]
        answers[sender] = _Answer(message.placed, message.under_way)
        if any(server not in answers for server in self._flow.effects.servers):
            return
        self._rounds[component] = 0
        before, self._before[component] = self._before.get(component), answers
        if before != answers:
            if before is None:
                self._begin_round(component)
            return
        self._resolve(component, answers)

    def _resolve(self, component: str, answers: _Answers) -> None:
        instance = self._flow.instances[component]
        views = {server: Ledger(one.placed) for server, one in answers.items()}
        states = {server: one.under_way for server, one in answers.items()}
        for one in self._lost(instance):
            deciders = {_decide(views, states, piece) for piece in _pieces(one.message.part, views)}
            if deciders == {self._server}:
                self._hand_overs.take_back(instance, one, f"{one.to} is gone")
            elif None not in deciders:  # it was taken: the state is elsewhere, or gone
                del instance.under_way[one.message.number]
        held_up = [one.message.part for one in self._lost(instance)]
        for part in list(self._orphaned(instance)):
            for piece in _pieces(part, views):
                server = _decide(views, states, piece)
                if server is None or any(overlaps(piece, one) for one in held_up):
                    continue
                instance.ledger.place(piece, server)
                instance.has_change = True
                if server == self._server:
                    detail = f"{describe_part(piece)} of a server that is gone, without state"
                    self._flow.incident(component, "taken back", detail)
        if not any(self._orphaned(instance)):
            del self._rounds[component], self._before[component]
            self._flow.effects.after_commit(lambda: self._flow.tell_finder(component))


def _pieces(part: Part, views: Mapping[str, Ledger]) -> Iterator[Part]:
    """Return the pieces of a part that each server says one thing of; those of all nets first."""
    placed = [one.part for view in views.values() for one in view.placed()]
    cuts = {cut for one in placed for cut in (one.low, one.high) if part.low < cut < part.high}
    bounds = sorted({part.low, part.high, *cuts})
    nets: list[NetPath | None] = [part.net]
    if part.net is None:
        nets += sorted({one.net for one in placed if one.net is not None})
    for net in nets:
        for low, high in pairwise(bounds):
            yield Part(net, low, high)


def _decide(
    views: Mapping[str, Ledger], states: Mapping[str, tuple[Part, ...]], piece: Part
) -> str | None:
    """Return who has a piece or has to take it back; None: that cannot be told."""
    said = {server: view.server_of(piece.net, piece.low) for server, view in views.items()}
    holders = [server for server, one in said.items() if one == server]
    if holders:
        return min(holders)
    for start in said:
        at, passed = start, {start}
        while said[at] in said:
            at = said[at]
            if at in passed:
                return None  # it goes to and fro
            passed.add(at)
        if not said[at] and at != start:
            return None  # it comes to one that does not know of it yet
    givers = [server for server, one in said.items() if one and one not in said]
    with_state = [
        server for server in givers if any(overlaps(one, piece) for one in states[server])
    ]
    return min(with_state or givers, default=None)
