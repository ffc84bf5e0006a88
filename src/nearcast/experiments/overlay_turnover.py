"""Lookups while peers of an overlay join, leave and crash all the time: availability over time.

An answer is right if it was true at some moment between question and answer: the node was on the
ring then, or just joining or leaving, and no other that was there all the time lies between it and
the target.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from random import Random

from nearcast.experiments.overlay_churn import PARAMS
from nearcast.overlay.overlay import Action, Found, KeyAbandoned, KeyAdded, KeyRemoved, NotFound
from nearcast.testing.overlay_ring import OverlayRing

__all__ = ["Turnover", "TurnoverSecond", "run"]

_KEYS = 1 << 40
_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Turnover:
    """How many peers come and go, and how long."""

    peers: int = 200
    joins_per_s: float = 1.0
    leaves_per_s: float = 0.5
    crashes_per_s: float = 0.5
    lookups_per_s: int = 50
    churn_s: int = 60
    quiet_s: int = 20
    """Afterwards: nobody comes or goes, and lookups go on."""


@dataclass(slots=True)
class TurnoverSecond:
    """Lookups that began in one second, and who came and went in it."""

    second: int
    joins: int = 0
    leaves: int = 0
    crashes: int = 0
    asked: int = 0
    """Left out: those whose asker went away before it had an answer."""
    right: int = 0
    wrong: int = 0
    wrong_repaired: int = 0
    """Wrong, though the ring was whole when they began and nobody crashed until the answer."""
    unanswered: int = 0
    longest_wait_s: float = 0.0


@dataclass(slots=True)
class _Membership:
    """When a key was on the ring: maybe from `begun` on, surely from `added` on, and so on."""

    key: int
    begun: float
    added: float = _NEVER
    leaves: float = _NEVER
    gone: float = _NEVER


@dataclass(slots=True)
class _Question:
    second: TurnoverSecond
    target: int
    began: float
    is_whole: bool


@dataclass(slots=True)
class _Run:
    """One run: the ring, who was on it when, and what was asked."""

    ring: OverlayRing
    rng: Random
    members: dict[int, _Membership] = field(default_factory=dict)
    keys: list[int] = field(default_factory=list)
    """All that ever were members, in order."""
    settled: list[int] = field(default_factory=list)
    """Those on the ring that do not leave."""
    questions: dict[tuple[str, int], _Question] = field(default_factory=dict)
    crashed_at: float = -1.0

    def join(self) -> None:
        key = self.rng.randrange(_KEYS)
        if key not in self.members:
            self.members[key] = _Membership(key, self.ring.world.now)
            insort(self.keys, key)
            self.ring.add(key)

    def leave(self) -> None:
        key = self._take()
        self.members[key].leaves = self.ring.world.now
        peer = self.ring.peers[f"p{key}"]
        self.ring.world.act(peer.peer, peer.remove_key(key, self.ring.world.now))

    def crash(self) -> None:
        key, now = self._take(), self.ring.world.now
        self.members[key].leaves = self.members[key].gone = self.crashed_at = now
        self._end(f"p{key}")

    def _end(self, peer: str) -> None:
        self.ring.crash(peer)
        for asked in [one for one in self.questions if one[0] == peer]:
            self.questions.pop(asked).second.asked -= 1

    def _take(self) -> int:
        return self.settled.pop(self.rng.randrange(len(self.settled)))

    def ask(self, second: TurnoverSecond) -> None:
        world, target = self.ring.world, self.rng.randrange(_KEYS)
        peer = self.ring.peers[f"p{self.rng.choice(self.settled)}"]
        query, actions = peer.lookup(target, world.now)
        second.asked += 1
        self.questions[peer.peer, query] = _Question(second, target, world.now, self._is_whole())
        world.act(peer.peer, actions)

    def on_event(self, peer: str, event: Action) -> None:
        now = self.ring.world.now
        match event:
            case KeyAdded(node):
                self.members[node.key].added = now
                insort(self.settled, node.key)
            case KeyRemoved(node):
                self.members[node.key].gone = now
                self.ring.world.at(now, self._end, peer)  # it has nothing left to do
            case KeyAbandoned(key):
                self.members[key].gone = now
            case Found() | NotFound():
                question = self.questions.pop((peer, event.query), None)
                if question is not None:
                    self._judge(question, event, now)

    def _judge(self, question: _Question, event: Found | NotFound, now: float) -> None:
        second = question.second
        second.longest_wait_s = max(second.longest_wait_s, now - question.began)
        if isinstance(event, NotFound):
            second.unanswered += 1
        elif self._is_right(event.node.key, question.target, question.began, now):
            second.right += 1
        else:
            second.wrong += 1
            second.wrong_repaired += question.is_whole and self.crashed_at < question.began

    def _is_right(self, found: int, target: int, began: float, now: float) -> bool:
        member = self.members.get(found)
        if member is None or member.begun > now or member.gone < began:
            return False
        at = bisect_right(self.keys, target) - 1
        for step in range(len(self.keys)):  # leftwards from the target, around the ring
            one = self.members[self.keys[at - step]]
            if one is member:
                return True
            if one.added <= began and one.leaves > now:
                return False
        return False

    def _is_whole(self) -> bool:
        try:
            self.ring.walk()
        except (AssertionError, KeyError):
            return False
        return True


def run(turnover: Turnover, seed: int) -> list[TurnoverSecond]:
    """Let peers come and go at random times, and go on asking."""
    rng = Random(seed)
    trial = _Run(OverlayRing(PARAMS, seed=seed), rng)
    world = trial.ring.world
    world.on_event = trial.on_event
    while len(trial.members) < turnover.peers:
        trial.join()
        world.run(0.1)
    world.run(5 * PARAMS.finger_s)
    seconds = []
    for number in range(turnover.churn_s + turnover.quiet_s):
        second = TurnoverSecond(number)
        seconds.append(second)
        if number < turnover.churn_s:
            second.joins = _often(turnover.joins_per_s, rng)
            second.leaves = _often(turnover.leaves_per_s, rng)
            second.crashes = _often(turnover.crashes_per_s, rng)
        for change, count in (
            (trial.join, second.joins),
            (trial.leave, second.leaves),
            (trial.crash, second.crashes),
        ):
            for _ in range(count):
                world.at(world.now + rng.random(), change)
        for _ in range(turnover.lookups_per_s):
            trial.ask(second)
            world.run(1 / turnover.lookups_per_s)
    world.run(4 * PARAMS.lookup_s)
    return seconds


def _often(rate: float, rng: Random) -> int:
    return int(rate) + (rng.random() < rate % 1)
