"""Hops, messages and memory of overlays by the number of keys, each answer checked."""

from __future__ import annotations

import gc
import resource
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log2
from random import Random
from typing import NamedTuple

from matplotlib.figure import Figure

from nearcast.experiments.overlay_tables import converged_ring
from nearcast.links.garbage import without_gc
from nearcast.overlay.chord_sharp import ChordSharp
from nearcast.overlay.overlay import Found, NotFound, Overlay
from nearcast.overlay.simulated import SimulatedOverlay
from nearcast.overlay.skip_graph import SkipGraph
from nearcast.pictures.hop_curve import HopSeries, draw_hop_curve
from nearcast.testing.overlay_ring import OverlayRing
from nearcast.testing.overlay_world import OverlayWorld

__all__ = [
    "CHORD_MOST_JOINS",
    "OVERLAYS",
    "STATES",
    "OverlayPoint",
    "cases",
    "draw",
    "insertion_order",
    "run",
]

OVERLAYS = ("suzaku", "skipgraph", "chordsharp")
STATES = ("converged", "random", "ascending", "descending", "adversarial", "deleted")
CHORD_MOST_JOINS = 1000
"""Right after joins its ways are as long as the ring: more keys would take hours."""
_LOOKUPS = 2000
_MORE_JOINS = 200
"""Of keys that join a converged overlay."""


@dataclass(frozen=True, slots=True)
class OverlayPoint:
    """One overlay with a number of keys, in one state of its tables."""

    overlay: str
    keys: int
    state: str
    mean_hops: float
    max_hops: int
    bound: float | None
    """Of the longest way; proven when converged, else what was seen of such overlays."""
    wrong: int
    """Answers that a sorted list does not give."""
    unanswered: int
    join_messages: float
    """Per key: of all joins, or when converged of some more keys that join then."""
    seconds: float
    memory_mb: float
    """The most that the process took until then."""


def insertion_order(state: str, count: int, rng: Random) -> list[int]:
    """Return the keys 0..count-1 in the order in which they join."""
    keys = list(range(count))
    if state in ("random", "deleted"):
        rng.shuffle(keys)
    elif state == "descending":
        keys.reverse()
    elif state == "adversarial":
        # 1, 0, 2, 4, 3, 5, ...: each join splits the link that the one before made
        keys = [key for first in range(0, count + 2, 3) for key in (first + 1, first, first + 2)]
        keys = [key for key in keys if key < count]
    return keys


def cases(
    counts: Sequence[int], overlays: Sequence[str], states: Sequence[str], most_joins: int
) -> list[tuple[str, int, str]]:
    """Return what is measured; tables made by joins only up to `most_joins` keys."""
    chosen = []
    for count in counts:
        for overlay in overlays:
            limit = min(most_joins, CHORD_MOST_JOINS if overlay == "chordsharp" else most_joins)
            chosen += [
                (overlay, count, state)
                for state in states
                if state == "converged" or count <= limit
            ]
    return chosen


def run(
    chosen: Sequence[tuple[str, int, str]], seed: int, begin: Callable[[str], None]
) -> Iterator[OverlayPoint]:
    """Measure each case."""
    for overlay, count, state in chosen:
        begin(f"{overlay}, {count:,} keys, {state}")
        yield _measure(overlay, count, state, seed)


def _measure(overlay: str, count: int, state: str, seed: int) -> OverlayPoint:
    gc.collect()  # the overlay before: it has cycles, and nobody has searched for them meanwhile
    rng, started = Random(seed), time.perf_counter()
    with without_gc():
        built = _built(overlay, count, state, rng)
        world, per_key = built.world, built.join_messages() / count
        keys = list(range(count))
        if state == "deleted":
            keys = _delete_quarter(world, count)
        is_long = overlay == "chordsharp" and state != "converged"
        hops, wrong, unanswered = _ask(world, keys, rng, _LOOKUPS // 10 if is_long else _LOOKUPS)
        if state == "converged":
            per_key = _join_more(built, count, rng)
    return OverlayPoint(
        overlay,
        count,
        state,
        sum(hops) / len(hops),
        max(hops),
        _bound(overlay, len(keys), state),
        wrong,
        unanswered,
        per_key,
        time.perf_counter() - started,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def _bound(overlay: str, count: int, state: str) -> float | None:
    levels = ceil(log2(max(count, 2)))
    if overlay == "skipgraph":
        return None
    if state == "converged":
        return max(1, levels - 1) if overlay == "suzaku" else levels
    return 2 * levels + 1 if overlay == "suzaku" else None


class _Built(NamedTuple):
    world: OverlayWorld
    join: Callable[[float], None]
    """Adds a key at a peer of its own."""
    join_messages: Callable[[], int]
    """Counts the messages so far; between joins there are none but of lookups."""


def _built(overlay: str, count: int, state: str, rng: Random) -> _Built:
    order = insertion_order(state, count, rng)
    if overlay == "suzaku":
        if state == "converged":
            ring = converged_ring(order)
        else:
            ring = OverlayRing(seed=rng.randrange(2**32), shares_chance=True)
            ring.fill(order)
        return _Built(ring.world, lambda key: ring.fill([key]), lambda: ring.world.messages)
    graph: SkipGraph | ChordSharp = SkipGraph(rng) if overlay == "skipgraph" else ChordSharp()
    world = OverlayWorld()

    def join(key: float, *, looks_up: bool = True) -> None:
        peer = SimulatedOverlay(f"p{key}", graph)
        world.add_peer(peer)
        if isinstance(graph, ChordSharp) and graph.nodes and looks_up:
            # its way in is what a join costs; a Skip Graph counts its own
            world.act(peer.peer, peer.lookup(key, world.now)[1])
            world.settle()
        peer.add_key(key, world.now)
        world.events.clear()

    for key in order:
        join(key, looks_up=state != "converged")
    if isinstance(graph, SkipGraph):  # has nothing that converges: its links are exact at once
        return _Built(world, join, lambda: graph.join_messages)
    if state == "converged":
        graph.converge()
    return _Built(world, join, lambda: world.messages)


def _join_more(built: _Built, count: int, rng: Random) -> float:
    """Let some more keys join between those that are there; return the messages per key."""
    first, *others = rng.sample(range(count), min(_MORE_JOINS + 1, count))
    # tables made at once do not know that neighbours were told already: the first join tells all
    built.join(first + 0.5)
    before = built.join_messages()
    for key in others:
        built.join(key + 0.5)
    return (built.join_messages() - before) / max(1, len(others))


def _delete_quarter(world: OverlayWorld, count: int) -> list[int]:
    gone = range(count // 4, count // 2)
    for key in gone:
        peer = world.peers[f"p{key}"]
        world.act(peer.peer, peer.remove_key(key, world.now))
    world.settle()
    for key in gone:
        world.crash(f"p{key}")
    return [*range(count // 4), *range(count // 2, count)]


def _ask(
    world: OverlayWorld, keys: Sequence[int], rng: Random, lookups: int
) -> tuple[list[int], int, int]:
    hops: list[int] = []
    wrong = unanswered = 0
    for _ in range(lookups):
        peer: Overlay = world.peers[f"p{keys[rng.randrange(len(keys))]}"]
        target = rng.randrange(keys[-1] + 1)
        query, actions = peer.lookup(target, world.now)
        world.act(peer.peer, actions)
        answer = _answer(world, peer.peer, query)
        if isinstance(answer, NotFound):
            unanswered += 1
        elif answer.node.key == keys[bisect_right(keys, target) - 1]:
            hops.append(answer.hops)
        else:
            wrong += 1
    return hops, wrong, unanswered


def _answer(world: OverlayWorld, asker: str, query: int) -> Found | NotFound:
    while True:
        for _, peer, event in world.events:
            if isinstance(event, Found | NotFound) and (peer, event.query) == (asker, query):
                world.events.clear()
                return event
        world.events.clear()
        world.step()


def draw(points: Sequence[OverlayPoint]) -> Figure:
    """Return mean and longest ways against keys: converged, and in the worst other state."""
    series: dict[str, HopSeries] = {}
    for overlay, is_converged in dict.fromkeys((p.overlay, p.state == "converged") for p in points):
        mine = [p for p in points if (p.overlay, p.state == "converged") == (overlay, is_converged)]
        counts = tuple(sorted({point.keys for point in mine}))
        series[f"{overlay}, {'converged' if is_converged else 'worst after joins'}"] = HopSeries(
            counts,
            tuple(max(point.mean_hops for point in mine if point.keys == n) for n in counts),
            tuple(max(point.max_hops for point in mine if point.keys == n) for n in counts),
        )
    return draw_hop_curve(series)
