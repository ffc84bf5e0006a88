"""What all parts of a peer share: time, outgoing messages, timers, open requests, suspicion."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from nearcast.overlay.messages import Message
from nearcast.overlay.nodes import Node
from nearcast.overlay.overlay import Action, Send
from nearcast.overlay.params import SuzakuParams

__all__ = ["Chance", "Context", "Timer"]

Timer: TypeAlias = list[Any]
"""When, a count, what to call (None: cancelled), its arguments."""

_MOST_SUSPECTS = 4096


class Chance(Protocol):
    """Where random numbers come from; `random.Random` is one."""

    def getrandbits(self, k: int, /) -> int:
        """Return a number below 2^k."""

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number from a to b."""


class Context:
    """The surroundings of a peer's nodes.

    Messages between nodes of one peer wait in `local`, so no handler runs inside another.
    """

    __slots__ = (
        "_count", "_requests", "_suspects", "_timers", "counters", "local", "now", "out",
        "params", "peer", "rng",
    )  # fmt: skip

    def __init__(self, peer: str, params: SuzakuParams, rng: Chance) -> None:
        self.peer, self.params, self.rng = peer, params, rng
        self.now = 0.0
        self.out: list[Action] = []
        self.local: deque[Message[Any]] = deque()
        self.counters: Counter[str] = Counter()
        self._count = 0
        self._timers: list[Timer] = []
        self._requests: dict[
            int, tuple[Node, Callable[[Any], None], Callable[[], None], Timer]
        ] = {}
        self._suspects: dict[Node, float] = {}

    def send(self, to: Node, message: Message[Any]) -> None:
        """Bring a message to a node, here or elsewhere."""
        if to.peer == self.peer:
            self.local.append(message)
        else:
            self.out.append(Send(to.peer, message))

    def number(self) -> int:
        """Return a fresh number that others cannot guess."""
        return self.rng.getrandbits(62) + 1

    # --- timers ---

    def after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> Timer:
        """Call something after a while; infinity: never."""
        timer: Timer = [self.now + seconds, self._count, call, arguments]
        if seconds != float("inf"):
            self._count += 1
            heapq.heappush(self._timers, timer)
        return timer

    def run_timers(self) -> None:
        """Call what is due."""
        while self._timers and self._timers[0][0] <= self.now:
            _, _, call, arguments = heapq.heappop(self._timers)
            if call is not None:
                call(*arguments)

    def next_wakeup(self) -> float:
        """Return when a timer is due."""
        timers = self._timers
        while timers and timers[0][2] is None:
            heapq.heappop(timers)
        return float(timers[0][0]) if timers else float("inf")

    # --- requests ---

    def request(
        self,
        to: Node,
        on_answer: Callable[[Any], None],
        on_failure: Callable[[], None],
        again: int = 0,
    ) -> int:
        """Return the number of a request that is about to be sent to a node.

        `on_failure` is called when no answer comes in time (the node is suspected then), or when
        the node is not at its peer. `again` is the number of a request that is repeated.
        """
        number = again or self.number()
        timer = self.after(self.params.reply_s, self._expire, number)
        self._requests[number] = (to, on_answer, on_failure, timer)
        return number

    def answer(self, sender: str, number: int, message: Any) -> None:
        """Give an answer to who asked; None: the node is not there."""
        asked = self._requests.get(number)
        if asked is None or asked[0].peer != sender:
            self.counters["late_answers"] += 1
            return
        to, on_answer, on_failure, timer = self._requests.pop(number)
        timer[2] = None
        if message is None:
            self.suspect(to)
            on_failure()
        else:
            self._suspects.pop(to, None)
            on_answer(message)

    def _expire(self, number: int) -> None:
        to, _, on_failure, _ = self._requests.pop(number)
        self.suspect(to)
        on_failure()

    # --- suspicion ---

    def suspect(self, node: Node) -> None:
        """Pass a node over for a while."""
        self._suspects.pop(node, None)
        if len(self._suspects) >= _MOST_SUSPECTS:
            self._suspects.pop(next(iter(self._suspects)))
        self._suspects[node] = self.now + self.params.suspicion_s

    def is_suspected(self, node: Node) -> bool:
        """Return whether a node did not answer lately."""
        if not self._suspects:
            return False
        until = self._suspects.get(node)
        if until is None:
            return False
        if until <= self.now:
            del self._suspects[node]
            return False
        return True

    def trust(self, node: Node) -> None:
        """End a node's suspicion: it was heard."""
        self._suspects.pop(node, None)
