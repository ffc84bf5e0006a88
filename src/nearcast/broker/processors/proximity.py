"""Proximity: two movers on collision course, told to the two of them, once per encounter.

The papers' motivating case. From position and velocity of both the closest point of approach
follows: at dt = -(dp . dv) / |dv|^2, kept within now and the horizon, the distance is smallest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import floor, hypot, inf

from nearcast.broker.notifications import NamedClients, Notification
from nearcast.broker.payloads import Motion, read_motion, write_object
from nearcast.broker.topic_spool import SpoolView
from nearcast.errors import ConfigError
from nearcast.wire.publication import Publication

__all__ = ["Proximity", "closest_approach"]

Cell = tuple[int, int]


def closest_approach(
    one: Motion, other: Motion, now_s: float, horizon_s: float
) -> tuple[float, float]:
    """Return in how many seconds two movers are closest within the horizon, and how close (km)."""
    one_x, one_y = one.position_at(now_s)
    other_x, other_y = other.position_at(now_s)
    x, y = other_x - one_x, other_y - one_y
    vx = other.vx_km_per_s - one.vx_km_per_s
    vy = other.vy_km_per_s - one.vy_km_per_s
    speed_squared = vx * vx + vy * vy
    in_s = 0.0
    if speed_squared > 0.0:
        in_s = min(horizon_s, max(0.0, -(x * vx + y * vy) / speed_squared))
    return in_s, hypot(x + vx * in_s, y + vy * in_s)


class Proximity:
    """Alerts two movers whose ways will bring them too close.

    An encounter ends when the two are no longer on course to come within twice the distance, or
    nothing was heard of it for `stale_s`.

    Parameters
    ----------
    distance_km
        Closer than this is too close.
    horizon_s
        How far ahead to look.
    stale_s
        A report older than this is not trusted any more.
    fastest_kmh
        Faster reports are not believed; it also bounds how far around a mover others matter.
    """

    def __init__(
        self,
        distance_km: float = 0.01,
        horizon_s: float = 5.0,
        stale_s: float = 3.0,
        fastest_kmh: float = 130.0,
    ) -> None:
        if min(distance_km, horizon_s, stale_s, fastest_kmh) <= 0:
            raise ConfigError("distances, times and speeds of proximity must be positive")
        self._distance_km, self._horizon_s, self._stale_s = distance_km, horizon_s, stale_s
        self._fastest_km_per_s = fastest_kmh / 3600
        # two that are further apart, with reports of stale_s, cannot meet within the horizon
        self._cell_km = 2 * distance_km + 2 * self._fastest_km_per_s * (horizon_s + stale_s)
        self._motions: dict[str, Motion] = {}
        self._cells: dict[Cell, dict[str, None]] = {}
        self._encounters: dict[tuple[str, str], float] = {}
        """Pairs that were told, and when they were last seen in danger."""
        self._seen = 0
        self._cleaned_s = 0.0
        self.malformed = 0
        """Messages without position, direction and speed, or too fast."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return an alert for each new encounter of a mover of the batch."""
        for message in spool.until(spool.end - len(batch)).since(self._seen):
            self._follow(message)
        self._seen = spool.end
        self._forget_the_old(batch[-1].received_at_s)
        for message in batch:
            if self._follow(message):
                yield from self._alerts(message)

    def state(self) -> bytes:
        """Return the encounters that were told; where everybody is, the spool knows."""
        pairs = [[*pair, last_s] for pair, last_s in sorted(self._encounters.items())]
        return json.dumps(pairs).encode()

    def restore(self, state: bytes) -> None:
        """Remember the encounters that were told, and read the spool again."""
        self._encounters = {(one, other): last_s for one, other, last_s in json.loads(state)}
        self._motions, self._cells, self._seen = {}, {}, 0

    def _follow(self, message: Publication) -> bool:
        motion = read_motion(message)
        if motion is None or hypot(motion.vx_km_per_s, motion.vy_km_per_s) > self._fastest_km_per_s:
            self.malformed += 1
            return False
        mover, old = message.publisher, self._motions.get(message.publisher)
        if old is not None:
            self._leave(mover, old)
        self._motions[mover] = motion
        self._cells.setdefault(self._cell(motion), {})[mover] = None
        return True

    def _alerts(self, message: Publication) -> Iterator[Notification]:
        mover = message.publisher
        motion = self._motions[mover]
        now_s = motion.at_s
        speed = hypot(motion.vx_km_per_s, motion.vy_km_per_s) + self._fastest_km_per_s
        reach_km = 2 * self._distance_km + speed * (self._horizon_s + self._stale_s)
        for other in self._around(motion):
            if other == mover:
                continue
            theirs = self._motions[other]
            if abs(now_s - theirs.at_s) > self._stale_s:
                continue
            pair = (mover, other) if mover < other else (other, mover)
            if (
                abs(theirs.x_km - motion.x_km) > reach_km
                or abs(theirs.y_km - motion.y_km) > reach_km
            ):  # most of them, and this is much quicker
                self._encounters.pop(pair, None)
                continue
            in_s, distance_km = closest_approach(motion, theirs, now_s, self._horizon_s)
            known = now_s - self._encounters.get(pair, -inf) <= self._stale_s
            if distance_km <= self._distance_km or (known and distance_km <= 2 * self._distance_km):
                self._encounters[pair] = now_s
                if not known:
                    yield self._alert(message, pair, in_s, distance_km)
            else:
                self._encounters.pop(pair, None)

    def _alert(
        self, message: Publication, pair: tuple[str, str], in_s: float, distance_km: float
    ) -> Notification:
        at_s = self._motions[message.publisher].at_s + in_s
        x_km, y_km = self._motions[message.publisher].position_at(at_s)
        payload = write_object(
            alert="collision course",
            clients=pair,
            seconds=round(in_s, 3),
            distance_km=round(distance_km, 6),
            position=[round(x_km, 6), round(y_km, 6)],
        )
        return Notification(payload, NamedClients(pair), message)

    def _around(self, motion: Motion) -> list[str]:
        column, row = self._cell(motion)
        return [
            mover
            for x in (column - 1, column, column + 1)
            for y in (row - 1, row, row + 1)
            for mover in self._cells.get((x, y), ())
        ]

    def _cell(self, motion: Motion) -> Cell:
        return floor(motion.x_km / self._cell_km), floor(motion.y_km / self._cell_km)

    def _leave(self, mover: str, motion: Motion) -> None:
        cell = self._cell(motion)
        self._cells[cell].pop(mover)
        if not self._cells[cell]:
            del self._cells[cell]

    def _forget_the_old(self, now_s: float) -> None:
        """Let go of movers that fell silent and of encounters that are over; once in a while."""
        if abs(now_s - self._cleaned_s) <= self._stale_s:
            return
        self._cleaned_s = now_s
        oldest_s = now_s - self._stale_s
        for mover, motion in [*self._motions.items()]:
            if motion.at_s < oldest_s:
                self._leave(mover, motion)
                del self._motions[mover]
        self._encounters = {
            pair: last_s for pair, last_s in self._encounters.items() if last_s >= oldest_s
        }
