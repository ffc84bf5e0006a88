"""The testbed of the LASR paper: its settings, and what messages cost on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nearcast.overlay.messages import Route
from nearcast.routing.keys import CLOUD, INDEX_END, NetPath
from nearcast.routing.overlay_node import RouterFrame
from nearcast.routing.route_messages import Ask, Assign, Data

__all__ = ["EDGE_NETS", "MASTER", "REPLICA", "SOURCE", "TARGET", "TOPIC", "JoseTestbed"]

TOPIC = "frames"
EDGE_NETS: tuple[NetPath, NetPath] = (("jp", "ishikawa"), ("jp", "kyoto"))
SOURCE = "s1"
TARGET = "d1"
REPLICA = "r1"
"""The paper's d1'."""
MASTER = "master"


@dataclass(frozen=True, slots=True)
class JoseTestbed:
    """The paper's settings (Sec. 4.2), and ours where it has none."""

    brokers: int = 10
    """In each edge net."""
    devices: int = 10
    """At each broker of the first net."""
    other_devices: int = 10
    """At each broker of the other net."""
    period_s: float = 0.1
    frames: int = 100
    """Of each device."""
    size_bytes: int = 20_000
    cloud_rtt_s: float = 0.0141
    """Between nets; the text has this number for s1 and the master only."""
    edge_rtt_s: float = 0.0005
    """Within a net. Ours."""
    bits_per_s: float = 1e9
    handling_s: float = 0.0001
    """That a host works on a message, one after the other. Ours."""
    query_s: float = 0.0002
    """That the master works on a question or a command, in the order in which they come. Ours: it can
    answer 5,000 a second."""
    setup_s: float = 3.0
    """In which components and the replica's host join, before the first frame."""

    @property
    def command_s(self) -> float:
        """When d1 is declared overloaded."""
        return self.setup_s + self.frames * self.period_s / 2

    @property
    def end_s(self) -> float:
        """When the last frame has long arrived."""
        return self.setup_s + self.frames * self.period_s + 3.0

    def component(self, number: int) -> str:
        """Return the name of a component; broker and component of one number belong together."""
        return f"d{number + 1}"

    def broker(self, number: int) -> str:
        """Return the name of a broker; the first ones are in the first net."""
        return f"s{number + 1}"

    def net_of(self, peer: str) -> NetPath:
        """Return where a host is."""
        if peer == REPLICA:
            return EDGE_NETS[0]
        if peer.startswith("s"):
            return EDGE_NETS[int(peer[1:]) > self.brokers]
        return CLOUD

    def range_of(self, number: int) -> tuple[int, int]:
        """Return the indexes of a broker's messages, which are those of its component."""
        count = 2 * self.brokers
        return INDEX_END * number // count, INDEX_END * (number + 1) // count

    @property
    def split_at(self) -> int:
        """The middle of d1's range: below it, messages are for the replica after the command."""
        low, high = self.range_of(0)
        return (low + high) // 2

    def delay_s(self, sender: str, receiver: str, message: Any) -> float:
        """Return how long a message takes: half a round trip, and its bits."""
        same = self.net_of(sender) == self.net_of(receiver)
        return (self.edge_rtt_s if same else self.cloud_rtt_s) / 2 + self._sending_s(message)

    def service_s(self, receiver: str, message: Any) -> float:
        """Return how long a host is busy with a message."""
        if isinstance(message, RouterFrame) and isinstance(message.message, Ask | Assign):
            return self.query_s
        return self.handling_s if _has_data(message) else 0.0

    def _sending_s(self, message: Any) -> float:
        return 8 * self.size_bytes / self.bits_per_s if _has_data(message) else 0.0


def _has_data(message: Any) -> bool:
    carried = message.message if isinstance(message, RouterFrame) else message
    if isinstance(carried, Route):
        carried = carried.payload
    return isinstance(carried, Data)
