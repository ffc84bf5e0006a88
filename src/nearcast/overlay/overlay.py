"""The Protocol of an overlay as one peer sees it, and what comes out of its calls.

An overlay orders keys on a ring. A key's *responsible* node is the one with the largest key that
does not exceed it (of equal keys the last; before the first key of all, the last of all). Each
call takes `now` in seconds and returns what is to be done: messages to send and events to hear.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from nearcast.overlay.nodes import Node

__all__ = [
    "Action",
    "Delivered",
    "Found",
    "KeyAbandoned",
    "KeyAdded",
    "KeyRemoved",
    "NotFound",
    "Overlay",
    "RangeEnded",
    "Rule",
    "Send",
    "Undeliverable",
]


class Rule(StrEnum):
    """By which way `route` and `lookup` go to a key left of their source."""

    RING = "ring"
    """Always clockwise: fewest hops, but the way may leave the interval between both keys."""
    LINEAR = "linear"
    """Leftward if the key is left of the source: every hop stays between source and target."""


@dataclass(frozen=True, slots=True)
class Send:
    """Bring a message to another peer's `on_message`; it may be lost."""

    peer: str
    message: Any


@dataclass(frozen=True, slots=True)
class KeyAdded:
    """An own key is on the ring from now on."""

    node: Node


@dataclass(frozen=True, slots=True)
class KeyAbandoned:
    """An own key could not be added; it may be added again."""

    key: Any
    reason: str


@dataclass(frozen=True, slots=True)
class KeyRemoved:
    """An own key left the ring."""

    node: Node


@dataclass(frozen=True, slots=True)
class Delivered:
    """A payload reached an own node: the one responsible for its target, or one in its range."""

    node: Node
    target: Any
    """The key that was routed to; of a range its lower end."""
    payload: Any
    origin: str
    """The peer that sent it."""
    hops: int
    path: tuple[Node, ...] = ()
    """Nodes that forwarded it, the source first, where the overlay traces."""


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """A peer on the way gave up a payload; it happens at that peer."""

    target: Any
    payload: Any
    origin: str
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """Answer to `lookup`."""

    query: int
    target: Any
    node: Node
    """The responsible node."""
    right: Node
    """The node after it."""
    hops: int
    path: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class NotFound:
    """No answer to `lookup` came in time."""

    query: int
    target: Any


@dataclass(frozen=True, slots=True)
class RangeEnded:
    """What `multicast` reached; `complete` says that no part of the range is in doubt."""

    query: int
    nodes: tuple[Node, ...]
    complete: bool


Action: TypeAlias = (
    Send
    | KeyAdded
    | KeyAbandoned
    | KeyRemoved
    | Delivered
    | Undeliverable
    | Found
    | NotFound
    | RangeEnded
)


class Overlay(Protocol):
    """One peer's part of an overlay; a pure state machine."""

    @property
    def peer(self) -> str:
        """The peer's id."""

    @property
    def nodes(self) -> Collection[Node]:
        """Own nodes that are on the ring."""

    def add_key(self, key: Any, now: float) -> list[Action]:
        """Begin to add a key; KeyAdded or KeyAbandoned follows. One that is there stays."""

    def remove_key(self, key: Any, now: float) -> list[Action]:
        """Begin to remove an own key; KeyRemoved follows. No such key: nothing happens."""

    def route(self, target: Any, payload: Any, now: float, rule: Rule = Rule.RING) -> list[Action]:
        """Bring a payload to the node responsible for a key; Delivered happens at its peer.

        It starts at the own node nearest before the target, or at another peer's if there is
        none. It arrives at most once, and exactly once if nothing fails.
        """

    def lookup(self, target: Any, now: float, rule: Rule = Rule.RING) -> tuple[int, list[Action]]:
        """Ask for the node responsible for a key; returns the query's number.

        Found or NotFound follows with that number.
        """

    def multicast(self, low: Any, high: Any, payload: Any, now: float) -> tuple[int, list[Action]]:
        """Bring a payload to each node with its key in [low, high), low < high.

        Returns the query's number. Delivered happens at each of them once; RangeEnded follows.
        """

    def on_message(self, sender: str, message: Any, now: float) -> list[Action]:
        """Take a message of another peer; what it says is checked."""

    def on_timer(self, now: float) -> list[Action]:
        """Do what is due; may be called early or twice."""

    def next_wakeup(self) -> float:
        """Return when `on_timer` has something to do; infinity for never."""
