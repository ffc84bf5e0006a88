"""Rings for tests, and a look at all their pointers after each event."""

from __future__ import annotations

from random import Random

from nearcast.overlay.nodes import LinkSeq, Node, is_between
from nearcast.overlay.overlay_node import OverlayNode
from nearcast.overlay.params import SuzakuParams
from nearcast.overlay.ring import Status
from nearcast.testing.overlay_ring import OverlayRing
from nearcast.testing.simulated_network import Network

__all__ = ["PINGING", "Watch", "check_left", "quiet_ring", "responsible", "uneven"]

PINGING = SuzakuParams(ping_s=1.0, finger_s=1.0, reply_s=0.2, suspicion_s=5.0)


def uneven(seed: int) -> Network:
    """Delays of a pair are its own, so messages of different pairs overtake each other."""

    def delay_s(sender: str, receiver: str) -> float:
        return Random(f"{seed} {sender} {receiver}").uniform(0.001, 0.05)

    return Network(delay_s=delay_s, jitter_s=0.01)


class Watch:
    """Looks at the ring after each event."""

    def __init__(self, ring: OverlayRing) -> None:
        self.ring = ring
        self.lseqs: dict[Node, LinkSeq] = {}
        self.rights: dict[Node, Node] = {}
        self.open: dict[tuple[str, int], tuple[int, set[Node]]] = {}

    def look(self) -> None:
        ring = self.ring.walk()
        for node in self.ring.all_nodes():
            assert node.ring.lseq >= self.lseqs.get(node.me, LinkSeq(0, 0))
            self.lseqs[node.me] = node.ring.lseq
        self.look_right()
        for target, answers in self.open.values():
            answers.add(responsible(ring, target))

    def look_right(self) -> None:
        """See that no right pointer moves further past a node that is neither leaving nor gone."""
        status = {node.me: node.ring.status for node in self.ring.all_nodes()}
        for node in self.ring.all_nodes():
            new = node.ring.right
            old = self.rights.get(node.me, new)
            if node.ring.status in (Status.IN, Status.DEL):
                self.rights[node.me] = new
            if old in (new, node.me) or is_between(node.me, new, old):
                continue
            assert status.get(old) in (Status.DEL, Status.OUT, None), (node.me, old, new)
            skipped = [one for one in status if one != new and is_between(old, one, new)]
            assert all(status[one] is not Status.IN for one in skipped), (node.me, skipped)


def responsible(ring: list[Node], target: int) -> Node:
    return max((node for node in ring if node.key <= target), default=ring[-1])


def quiet_ring(*keys: int) -> OverlayRing:
    ring = OverlayRing()
    ring.fill(keys)
    return ring


def check_left(ring: OverlayRing, node: OverlayNode) -> None:
    peer, now = ring.peers[node.me.peer], ring.world.now
    ring.world.act(peer.peer, peer.on_timer(now))
    node.repair.start()
    ring.world.act(peer.peer, peer.on_timer(now))
