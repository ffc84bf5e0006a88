"""The baseline: for every message the sender asks one master where to send it."""

from __future__ import annotations

from collections.abc import Mapping

from nearcast.errors import ConfigError
from nearcast.routing.chance import Chance
from nearcast.routing.index_mapping import IndexMapping, ShuffleMapping
from nearcast.routing.keys import INDEX_END, NetPath, check_range
from nearcast.routing.route_actions import Deliver, Reject, RouteAction, SendPeer
from nearcast.routing.route_messages import Ask, Assign, Data, Destination, RouteMessage
from nearcast.routing.router import RoutingCounts, RoutingSettings

__all__ = ["Master", "MasterSlaveRouter"]


class Master:
    """Knows who takes which range of each topic; the last who said so counts."""

    def __init__(self, max_ranges: int = 10_000) -> None:
        self._ranges: dict[str, list[tuple[int, int, str]]] = {}
        self._max_ranges = max_ranges
        self.refused = 0

    def on_message(self, sender: str, message: RouteMessage) -> list[RouteAction]:
        """Answer a question, or note a range."""
        match message:
            case Ask(request, topic, index):
                return [SendPeer(sender, Destination(request, self._owner(topic, index)))]
            case Assign(topic, low, high, peer) if 0 <= low < high <= INDEX_END:
                kept = [
                    part
                    for one in self._ranges.get(topic, [])
                    for part in ((one[0], min(one[1], low), one[2]), (max(one[0], high), *one[1:]))
                    if part[0] < part[1]
                ]
                if sum(map(len, self._ranges.values())) < self._max_ranges:
                    self._ranges[topic] = [*kept, (low, high, peer)]
                    return []
        self.refused += 1
        return []

    def _owner(self, topic: str, index: int) -> str:
        found = (peer for low, high, peer in self._ranges.get(topic, []) if low <= index < high)
        return next(found, "")


class MasterSlaveRouter:
    """A slave: asks, waits for the answer, and sends directly."""

    def __init__(
        self,
        peer: str,
        net: NetPath,
        master: str,
        rng: Chance,
        settings: RoutingSettings | None = None,
        mappings: Mapping[str, IndexMapping] | None = None,
    ) -> None:
        self.peer = peer
        self.counts = RoutingCounts()
        self._net, self._master, self._rng = net, master, rng
        self._settings, self._mappings = settings or RoutingSettings(), dict(mappings or {})
        self._waiting: dict[int, tuple[Data, float]] = {}
        """Messages without an answer, and when to ask again."""
        self._number = rng.getrandbits(62)

    def publish(self, topic: str, body: bytes, now: float) -> list[RouteAction]:
        """Ask the master for the destination of a message."""
        if len(self._waiting) >= self._settings.max_backlog:
            self.counts.backlog_full += 1
            return [Reject(topic, "too many messages wait for the master")]
        mapped = self._mappings.get(topic, ShuffleMapping()).index_of(body, self._rng)
        self.counts.mapping_errors += bool(mapped.error)
        self.counts.published += 1
        self._number += 1
        data = Data(topic, self._net, mapped.index, self.peer, self._number, body)
        return self._ask(data, now)

    def subscribe(self, topic: str, low: int, high: int, now: float) -> list[RouteAction]:
        """Tell the master that a component here takes a range."""
        check_range(low, high)
        return [SendPeer(self._master, Assign(topic, low, high, self.peer))]

    def hand_over(self, topic: str, low: int, high: int, replica: str) -> list[RouteAction]:
        """Tell the master that a replica takes a range from now on."""
        check_range(low, high)
        if not replica:
            raise ConfigError("a replica needs a name")
        return [SendPeer(self._master, Assign(topic, low, high, replica))]

    def on_message(self, sender: str, message: RouteMessage, now: float) -> list[RouteAction]:
        """Send what has its destination; deliver what arrives."""
        if isinstance(message, Data):
            self.counts.delivered += 1
            return [Deliver(message)]
        if isinstance(message, Destination) and sender == self._master:
            waiting = self._waiting.pop(message.request, None)
            if waiting is None:
                self.counts.duplicates += 1  # the answer to a question asked twice
                return []
            if message.peer:
                return [SendPeer(message.peer, waiting[0])]
            self.counts.undeliverable += 1
            return [Reject(waiting[0].topic, "no component has the topic")]
        self.counts.refused += 1
        return []

    def on_timer(self, now: float) -> list[RouteAction]:
        """Ask again what was not answered."""
        late = [data for data, again_s in self._waiting.values() if now >= again_s]
        return [action for data in late for action in self._ask(data, now)]

    def _ask(self, data: Data, now: float) -> list[RouteAction]:
        self._waiting[data.number] = (data, now + self._settings.reply_s)
        return [SendPeer(self._master, Ask(data.number, data.topic, data.index))]
