"""Lookups while a part of an overlay's peers crashes at once: availability over time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from random import Random

from nearcast.overlay.overlay import Found, NotFound
from nearcast.overlay.params import SuzakuParams
from nearcast.testing.overlay_ring import OverlayRing

__all__ = ["PARAMS", "ChurnSecond", "run"]

PARAMS = SuzakuParams(ping_s=2.0, finger_s=10.0, reply_s=0.3, lookup_s=3.0, suspicion_s=20.0)
_LOOKUPS_PER_S = 50
_CRASHED = 0.2
_SECONDS = 40


@dataclass(slots=True)
class ChurnSecond:
    """Lookups that began in one second after the crash."""

    second: int
    is_repaired: bool
    """Whether the ring of the live nodes was whole when the second began."""
    asked: int = 0
    right: int = 0
    wrong: int = 0
    unanswered: int = 0
    longest_wait_s: float = 0.0


def run(count: int, seed: int) -> list[ChurnSecond]:
    """Crash a fifth of the peers of a converged ring at once, and go on asking."""
    rng = Random(seed)
    ring = OverlayRing(PARAMS, seed=seed)
    for key in rng.sample(range(count), count):
        ring.add(key)
        ring.world.run(0.1)
    ring.world.run(5 * PARAMS.finger_s)
    for key in rng.sample(range(count), round(_CRASHED * count)):
        ring.crash(f"p{key}")
    keys = sorted(int(name[1:]) for name in ring.peers)
    started = ring.world.now
    ring.world.events.clear()
    asked: dict[tuple[str, int], tuple[float, int]] = {}
    seconds = []
    for number in range(_SECONDS):
        second = ChurnSecond(number, _is_whole(ring), _LOOKUPS_PER_S)
        seconds.append(second)
        for _ in range(_LOOKUPS_PER_S):
            peer = ring.peers[f"p{rng.choice(keys)}"]
            target = rng.randrange(keys[0], count)
            query, actions = peer.lookup(target, ring.world.now)
            asked[peer.peer, query] = (ring.world.now, target)
            ring.world.act(peer.peer, actions)
            ring.world.run(1 / _LOOKUPS_PER_S)
    ring.world.run(4 * PARAMS.lookup_s)
    for when, name, event in ring.world.events:
        if isinstance(event, Found | NotFound):
            began, target = asked.pop((name, event.query))
            second = seconds[min(int(began - started + 1e-6), _SECONDS - 1)]
            second.longest_wait_s = max(second.longest_wait_s, when - began)
            if isinstance(event, NotFound):
                second.unanswered += 1
            elif event.node.key == keys[bisect_right(keys, target) - 1]:
                second.right += 1
            else:
                second.wrong += 1
    return seconds


def _is_whole(ring: OverlayRing) -> bool:
    try:
        ring.check_settled()
    except (AssertionError, KeyError):
        return False
    return True
