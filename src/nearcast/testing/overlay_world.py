"""Peers of an overlay in virtual time: what they send travels through a made-up network."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from nearcast.overlay.overlay import Action, Overlay, Send
from nearcast.testing.simulated_network import Network

__all__ = ["OverlayWorld"]

_Event = tuple[float, int, Callable[..., object], tuple[Any, ...]]


class OverlayWorld:
    """A clock that jumps from event to event, and the way from peer to peer.

    Messages of one pair of peers arrive in the order in which they were sent, as over one
    connection; those of different pairs overtake each other by their delays.

    Parameters
    ----------
    network
        Delays, loss and cuts by peers' ids.
    seed
        Of loss and jitter.
    on_event
        Hears each event that is no Send: at which peer, what. Default: they are kept in `events`.
    """

    def __init__(
        self,
        network: Network | None = None,
        seed: int = 1,
        on_event: Callable[[str, Action], None] | None = None,
    ) -> None:
        self.network, self.random = network or Network(), Random(seed)
        self.now = 0.0
        self.peers: dict[str, Overlay] = {}
        self.events: list[tuple[float, str, Action]] = []
        self.on_event = on_event or self._keep
        self.on_step: Callable[[], None] | None = None
        """Called after each message and timer, to look at the whole."""
        self.messages = 0
        """Messages that were sent."""
        self._heap: list[_Event] = []
        self._count = 0
        self._wakes: dict[str, float] = {}
        self._last_arrival: dict[tuple[str, str], float] = {}

    def add_peer(self, overlay: Overlay) -> None:
        """Switch a peer on."""
        self.peers[overlay.peer] = overlay
        self._wake(overlay)

    def crash(self, peer: str) -> None:
        """Switch a peer off; what travels to it is lost."""
        del self.peers[peer]
        self._wakes.pop(peer, None)

    def act(self, peer: str, actions: Iterable[Action]) -> None:
        """Carry out what a call of a peer's overlay returned."""
        for action in actions:
            if type(action) is Send:
                self._send(peer, action)
            else:
                self.on_event(peer, action)
        overlay = self.peers.get(peer)
        if overlay is not None:
            self._wake(overlay)

    def at(self, when: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call something at a time."""
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, call, arguments))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            self.step()
        self.now = end

    def settle(self) -> None:
        """Run until nothing travels and no timer runs; only where no peer repeats for ever."""
        while self._heap:
            self.step()

    def step(self) -> None:
        """Let the next event happen."""
        self.now, _, call, arguments = heapq.heappop(self._heap)
        call(*arguments)
        if self.on_step is not None:
            self.on_step()

    def _keep(self, peer: str, event: Action) -> None:
        self.events.append((self.now, peer, event))

    def _send(self, sender: str, send: Send) -> None:
        self.messages += 1
        network, pair = self.network, (sender, send.peer)
        for delay_s in network.arrivals(sender, send.peer, self.random):
            arrival = self.now + delay_s
            if network.jitter_s:
                arrival = max(arrival, self._last_arrival.get(pair, 0.0))
                self._last_arrival[pair] = arrival
            self.at(arrival, self._arrive, sender, send.peer, send.message)

    def _arrive(self, sender: str, receiver: str, message: Any) -> None:
        overlay = self.peers.get(receiver)
        if overlay is not None:
            self.act(receiver, overlay.on_message(sender, message, self.now))

    def _wake(self, overlay: Overlay) -> None:
        when = overlay.next_wakeup()
        if when < self._wakes.get(overlay.peer, float("inf")):
            self._wakes[overlay.peer] = when
            self.at(max(when, self.now), self._on_timer, overlay, when)

    def _on_timer(self, overlay: Overlay, when: float) -> None:
        peer = overlay.peer
        if self.peers.get(peer) is overlay and self._wakes.get(peer) == when:
            del self._wakes[peer]
            self.act(peer, overlay.on_timer(self.now))
