"""Questions of one peer: the node responsible for a place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nearcast.overlay.context import Context
from nearcast.overlay.forwarding import Forwarder
from nearcast.overlay.messages import Answer, Route, RouteKind
from nearcast.overlay.nodes import Place, owns
from nearcast.overlay.overlay import Rule

__all__ = ["Lookups"]

_TRIES = 3


class Lookups:
    """Lookups that wait for their answer."""

    __slots__ = ("_context", "_forwarder", "_open")

    def __init__(self, context: Context, forwarder: Forwarder) -> None:
        self._context, self._forwarder = context, forwarder
        self._open: dict[int, tuple[Place, Callable[[Answer[Any] | None], None]]] = {}

    def ask(
        self,
        place: Place,
        rule: Rule,
        answered: Callable[[Answer[Any] | None], None],
        through: str = "",
    ) -> int:
        """Ask; `answered` is called once, with None when no answer came.

        `through` names a peer that is asked first, whatever the own tables say.
        """
        number = self._context.number()
        self._open[number] = (place, answered)
        self._send(number, rule, 1, through)
        return number

    def on_answer(self, answer: Answer[Any]) -> None:
        """Take an answer; one that contradicts itself does not count."""
        asked = self._open.get(answer.number)
        if asked is None:
            return
        if not owns(answer.node, answer.right, asked[0]):
            self._context.counters["unsound_messages"] += 1
            return
        del self._open[answer.number]
        asked[1](answer)

    def _send(self, number: int, rule: Rule, tries: int, through: str = "") -> None:
        asked = self._open.get(number)
        if asked is None:
            return
        if tries > _TRIES:
            del self._open[number]
            asked[1](None)
            return
        self._context.after(self._context.params.lookup_s, self._send, number, rule, tries + 1)
        route: Route[Any] = Route(
            None, 0, self._context.peer, number, RouteKind.LOOKUP, asked[0], None, rule, 0
        )
        self._forwarder.start(route, through)
