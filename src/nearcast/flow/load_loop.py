"""When a server has too much to do, what it gives away; when it has little, what it takes or returns.

A pure state machine: it is told loads and what became of its wishes, and says what to try next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearcast.flow.messages import Part
from nearcast.flow.shedding import InstanceLoad, Shed, choose_shed
from nearcast.routing.keys import CLOUD, NetPath

__all__ = [
    "Decision",
    "GiveBack",
    "LoadLoop",
    "LoadSettings",
    "NoRoom",
    "OfferRoom",
    "SeekRoom",
    "ServerLoad",
]


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """When a server counts as overloaded or underloaded, and how patient it is.

    The distance between `overloaded` and `underloaded` is what keeps parts from wandering to and
    fro: a server that takes half of another's work must not be overloaded by it.
    """

    overloaded: float = 0.85
    """Share of a core, from which on something is given away."""
    underloaded: float = 0.4
    """Share of a core, up to which there is room for more."""
    idle: float = 0.1
    """Share of a core of an instance that goes back to where its component began."""
    queue_age_s: float = 0.5
    """Messages that wait so long mean overload, whatever the share."""
    lasting_s: float = 2.0
    """How long it has to last."""
    idle_s: float = 30.0
    """How long an instance has to be idle."""
    rest_s: float = 5.0
    """After something was given, taken or not found: loads have to settle first."""
    seek_s: float = 5.0
    """How long a search for room may take."""


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """How busy a server is."""

    busy_share: float
    """CPU time of its loop over the time that passed."""
    loop_lag_s: float


@dataclass(frozen=True, slots=True)
class OfferRoom:
    """Say that there is room here, or that there is none any more."""

    is_offered: bool


@dataclass(frozen=True, slots=True)
class SeekRoom:
    """Look for a server with room in a net; `on_room` gets the answer."""

    number: int
    net: NetPath


@dataclass(frozen=True, slots=True)
class Give:
    """Hand a part over."""

    flow: str
    component: str
    part: Part
    to: str
    why: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Hand all that is held here of a component back to where it began."""

    flow: str
    component: str
    parts: Sequence[Part]
    to: str
    why: str


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Tell that nobody has room for what should be given; once until that changes."""

    flow: str
    component: str
    part: Part
    nets: Sequence[NetPath]
    """Where it was looked for."""
    why: str


Decision = OfferRoom | SeekRoom | Give | GiveBack | NoRoom


class LoadLoop:
    """Decides for one server; `on_loads` wants to be called about every half second."""

    def __init__(self, net: NetPath, settings: LoadSettings | None = None) -> None:
        self._net, self._settings = net, settings or LoadSettings()
        self._over_since_s: float | None = None
        self._under_since_s: float | None = None
        self._idle_since_s: dict[tuple[str, str], float] = {}
        self._rests_until_s = 0.0
        self._is_offered = False
        self._number = 0
        self._sought: tuple[Shed, tuple[NetPath, ...], float] | None = None
        """What is to be given, in which nets room is still to be looked for, and until when."""
        self._has_no_room = False
        """Whether nobody had room when it was last looked for, which was told."""

    def on_loads(
        self, server: ServerLoad, instances: Sequence[InstanceLoad], now: float
    ) -> list[Decision]:
        """Take what was measured since the last call."""
        is_over = self._is_over(server, instances)
        is_under = server.busy_share <= self._settings.underloaded and not is_over
        self._has_no_room &= is_over
        self._over_since_s = _since(self._over_since_s, is_over, now)
        self._under_since_s = _since(self._under_since_s, is_under, now)
        decisions = self._offer(now)
        if self._sought is not None:
            if now >= self._sought[2]:
                decisions += self._seek_next(now)
        elif now >= self._rests_until_s:
            decisions += self._give_back(instances, now) or self._shed(instances, now)
        return decisions

    def on_room(self, number: int, server: str | None, now: float) -> list[Decision]:
        """Take the answer to a search: a server with room, or none in that net."""
        if self._sought is None or number != self._number:
            return []
        if server is None:
            return self._seek_next(now)
        shed, self._sought = self._sought[0], None
        self._has_no_room = False
        self._rest(now)
        return [Give(shed.flow, shed.component, shed.part, server, shed.why)]

    def on_moved(self, now: float) -> None:
        """Note that a part came or went: the loads before say nothing any more."""
        self._rest(now)

    def _rest(self, now: float) -> None:
        self._rests_until_s = now + self._settings.rest_s
        self._over_since_s = self._under_since_s = None
        self._idle_since_s.clear()

    def _is_over(self, server: ServerLoad, instances: Sequence[InstanceLoad]) -> bool:
        limit_s = self._settings.queue_age_s
        return (
            server.busy_share >= self._settings.overloaded
            or server.loop_lag_s >= limit_s
            or any(one.queue_age_s >= limit_s for one in instances)
        )

    def _offer(self, now: float) -> list[Decision]:
        has_room = _lasts(self._under_since_s, self._settings.lasting_s, now)
        if has_room == self._is_offered or (has_room and now < self._rests_until_s):
            return []
        self._is_offered = has_room
        return [OfferRoom(has_room)]

    def _give_back(self, instances: Sequence[InstanceLoad], now: float) -> list[Decision]:
        """Return one instance that has had nothing to do for long."""
        for one in instances:
            name = (one.flow, one.component)
            is_idle = bool(one.began_at) and one.busy_share <= self._settings.idle
            since_s = _since(self._idle_since_s.get(name), is_idle, now)
            if since_s is None:
                self._idle_since_s.pop(name, None)
                continue
            self._idle_since_s[name] = since_s
            if _lasts(since_s, self._settings.idle_s, now):
                self._rest(now)
                why = f"{one.busy_share:.0%} of a core for {self._settings.idle_s:g} s"
                return [GiveBack(one.flow, one.component, one.held, one.began_at, why)]
        return []

    def _shed(self, instances: Sequence[InstanceLoad], now: float) -> list[Decision]:
        if not _lasts(self._over_since_s, self._settings.lasting_s, now):
            return []
        shed = choose_shed(instances)
        if shed is None:
            return []
        self._sought = (shed, self._nets_for(shed), now)
        return self._seek_next(now)

    def _nets_for(self, shed: Shed) -> tuple[NetPath, ...]:
        if shed.part.net is not None:
            return (shed.net,)
        return tuple(dict.fromkeys((shed.net, self._net, CLOUD)))

    def _seek_next(self, now: float) -> list[Decision]:
        """Look in the next net: where the messages come from, then here, then in the cloud."""
        assert self._sought is not None
        shed, nets, _ = self._sought
        if not nets:
            self._sought = None
            self._rest(now)
            if self._has_no_room:
                return []
            self._has_no_room = True
            about = (shed.flow, shed.component, shed.part, self._nets_for(shed), shed.why)
            return [NoRoom(*about)]
        self._number += 1
        self._sought = (shed, nets[1:], now + self._settings.seek_s)
        return [SeekRoom(self._number, nets[0])]


def _since(since_s: float | None, is_so: bool, now: float) -> float | None:
    if not is_so:
        return None
    return now if since_s is None else since_s


def _lasts(since_s: float | None, lasting_s: float, now: float) -> bool:
    return since_s is not None and now - since_s >= lasting_s
