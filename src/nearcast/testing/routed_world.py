"""Virtual time for routers and overlays: peers, the network between them, and their work."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Protocol

from nearcast.overlay.overlay import Send
from nearcast.routing.overlay_node import Outcome

__all__ = ["RoutedPeer", "RoutedWorld"]


class RoutedPeer(Protocol):
    """A peer as the world runs it."""

    def on_message(self, sender: str, message: Any, now: float) -> list[Send | Outcome]:
        """Take a message."""

    def on_timer(self, now: float) -> list[Send | Outcome]:
        """Let time pass."""

    def next_wakeup(self) -> float:
        """Return when time should pass next."""


class RoutedWorld:
    """A clock that jumps from event to event.

    Parameters
    ----------
    delay_s : how long a message takes from one peer to another.
    service_s : how long a peer is busy with a message; it takes one after the other.
    """

    def __init__(
        self,
        delay_s: Callable[[str, str, Any], float],
        service_s: Callable[[str, Any], float] = lambda _peer, _message: 0.0,
    ) -> None:
        self.now = 0.0
        self.peers: dict[str, RoutedPeer] = {}
        self.outcomes: list[tuple[float, str, Outcome]] = []
        """What peers were told, by whom and when."""
        self.on_outcome: Callable[[float, str, Outcome], None] = self._note
        self.after_event: Callable[[], None] = lambda: None
        self.messages = 0
        self._delay_s, self._service_s = delay_s, service_s
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._free_s: dict[str, float] = {}
        self._wakeup_s: dict[str, float] = {}
        self._last_s: dict[tuple[str, str], float] = {}

    def add(self, name: str, peer: RoutedPeer) -> None:
        """Let a peer take part."""
        self.peers[name] = peer
        self._wake(name)

    def crash(self, name: str) -> None:
        """End a peer; what is on its way to it is lost."""
        del self.peers[name]

    def at(self, when_s: float, call: Callable[..., None], *arguments: Any) -> None:
        """Call something at a time."""
        self._count += 1
        heapq.heappush(self._heap, (when_s, self._count, call, arguments))

    def do(self, name: str, told: list[Send | Outcome]) -> None:
        """Carry out what came out of a peer."""
        for one in told:
            if isinstance(one, Send):
                self.messages += 1
                delay_s = self._delay_s(name, one.peer, one.message)
                pair = (name, one.peer)
                # One connection a pair: what is sent later does not arrive earlier.
                arrival_s = max(self.now + delay_s, self._last_s.get(pair, 0.0))
                self._last_s[pair] = arrival_s
                self.at(arrival_s, self._arrive, name, one.peer, one.message)
            else:
                self.on_outcome(self.now, name, one)
        self._wake(name)

    def run(self, until_s: float) -> None:
        """Let time pass."""
        while self._heap and self._heap[0][0] <= until_s:
            self.now, _, call, arguments = heapq.heappop(self._heap)
            call(*arguments)
            self.after_event()
        self.now = max(self.now, until_s)

    def _note(self, now: float, name: str, outcome: Outcome) -> None:
        self.outcomes.append((now, name, outcome))

    def _arrive(self, sender: str, receiver: str, message: Any) -> None:
        service_s = self._service_s(receiver, message)
        if service_s == 0.0:
            self._handle(sender, receiver, message)
            return
        self._free_s[receiver] = max(self.now, self._free_s.get(receiver, 0.0)) + service_s
        self.at(self._free_s[receiver], self._handle, sender, receiver, message)

    def _handle(self, sender: str, receiver: str, message: Any) -> None:
        peer = self.peers.get(receiver)
        if peer is not None:
            self.do(receiver, peer.on_message(sender, message, self.now))

    def _wake(self, name: str) -> None:
        peer = self.peers.get(name)
        if peer is None:
            return
        wakeup_s = peer.next_wakeup()
        if wakeup_s < self._wakeup_s.get(name, float("inf")):
            self._wakeup_s[name] = wakeup_s
            self.at(max(wakeup_s, self.now), self._on_timer, name, wakeup_s)

    def _on_timer(self, name: str, due_s: float) -> None:
        peer = self.peers.get(name)
        if peer is None or self._wakeup_s.get(name) != due_s:
            return
        del self._wakeup_s[name]
        self.do(name, peer.on_timer(self.now))
