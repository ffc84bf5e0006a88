"""What components say to clients, on its way to the broker here: repeated until that has it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from msgspec import structs

from nearcast.server.publisher_messages import ForwardAck
from nearcast.wire.publication import Publication

__all__ = ["FlowOutputs"]

_REPEAT_S = 1.0
_NEVER = float("inf")


class FlowOutputs:
    """Publications of components that are not acknowledged, by topic and publisher.

    Parameters
    ----------
    publish
        Gives one to the broker here.
    on_durable
        Is told topic, publisher, epoch and the last sequence that the broker has durably.
    """

    def __init__(
        self,
        publish: Callable[[Publication, float], None],
        on_durable: Callable[[str, str, int, int], None],
    ) -> None:
        self._publish, self._on_durable = publish, on_durable
        self._waiting: dict[tuple[str, str], deque[Publication]] = {}
        self.repeat_at = _NEVER
        """When to call `repeat`."""

    def send(self, publications: Iterable[Publication], now: float) -> None:
        """Publish what components have made."""
        for one in publications:
            waiting = self._waiting.setdefault((one.topic, one.publisher), deque())
            if waiting and one.epoch > waiting[-1].epoch:
                waiting.clear()  # its flow began anew
            waiting.append(one)
            self._send(one, waiting[0].sequence, now)

    def acknowledge(self, ack: ForwardAck) -> None:
        """Note how far the broker has what a component made."""
        key = ack.topic, ack.publisher
        waiting = self._waiting.get(key, deque())
        while waiting and (waiting[0].epoch, waiting[0].sequence) <= (ack.epoch, ack.through):
            waiting.popleft()
        if not waiting:
            self._waiting.pop(key, None)
        self._on_durable(ack.topic, ack.publisher, ack.epoch, ack.through)
        self.repeat_at = _NEVER if not self._waiting else self.repeat_at

    def keep(self, publishers: Iterable[str]) -> None:
        """Forget what others than these have made: their flows have ended."""
        kept = frozenset(publishers)
        self._waiting = {key: one for key, one in self._waiting.items() if key[1] in kept}

    def repeat(self, now: float) -> None:
        """Publish again what the broker did not take."""
        self.repeat_at = _NEVER
        for waiting in self._waiting.values():
            for one in list(waiting):
                self._send(one, waiting[0].sequence, now)

    def _send(self, one: Publication, oldest: int, now: float) -> None:
        sent = structs.replace(one, oldest=oldest, arrived_us=int(now * 1e6))
        self._publish(sent, now)
        self.repeat_at = min(self.repeat_at, now + _REPEAT_S)
