"""The load loop of a server, live: loads are measured, room is offered and sought on the ring.

A server with room holds a key of the topic `underloaded` in its net, at a random index; one that
has too much to do looks for such a key near another random index, and asks its server, which keeps
its room for one asker at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nearcast.flow.flow_runtime import FlowRuntime
from nearcast.flow.ledger import describe_part
from nearcast.flow.load_loop import (
    Decision,
    Give,
    GiveBack,
    LoadLoop,
    LoadSettings,
    NoRoom,
    OfferRoom,
    SeekRoom,
    ServerLoad,
)
from nearcast.flow.messages import Part
from nearcast.overlay.overlay import Found
from nearcast.routing.keys import Key, NetPath
from nearcast.routing.underloaded import is_room, room_key, room_target
from nearcast.server.flow_messages import RoomAnswer, RoomWanted
from nearcast.server.overlay_part import OverlayPart
from nearcast.server.peers import Peers

__all__ = ["FlowLoad"]

_TICK_S = 0.5
_KEEP_S = 10.0
"""How long room is kept for a server that asked and has sent nothing yet."""

Note = Callable[[str, str, str, str, float], None]
"""Takes flow, component, event, detail and time."""


class FlowLoad:
    """Brings what a `LoadLoop` decides to the flows, the ring and other servers."""

    def __init__(
        self,
        peers: Peers,
        overlay: OverlayPart,
        runtime: FlowRuntime,
        net: NetPath,
        settings: LoadSettings,
        note: Note,
    ) -> None:
        self._peers, self._overlay, self._runtime, self._net = peers, overlay, runtime, net
        self._loop, self._note = LoadLoop(net, settings), note
        self._is_on = False
        self._next = float("inf")
        self._offer: Key | None = None
        self._kept_for: tuple[str, float] | None = None
        """Who may use the room that is here, and until when."""
        self._sought: dict[int, str] = {}
        """Servers that were asked, by search: only the last search counts."""
        self.busy_share = 0.0
        """Of a core, lately; the shell sets it."""
        self.loop_lag_s = 0.0
        """The longest recent pause of the loop; the shell sets it."""
        peers.on(RoomWanted, self._on_wanted)
        peers.on(RoomAnswer, self._on_answer)

    def obey(self, has_flows: bool, now: float) -> None:
        """Begin when flows run, end when none does."""
        if has_flows != self._is_on:
            self._is_on, self._next = has_flows, now if has_flows else float("inf")
            if not has_flows:
                self._withdraw(now)

    def on_moved(self, now: float) -> None:
        """Note that a part came or went."""
        self._kept_for = None
        self._loop.on_moved(now)

    def on_timer(self, now: float) -> None:
        """Measure, if it is time, and do what is decided."""
        if now < self._next:
            return
        self._next = now + _TICK_S
        instances = self._runtime.take_loads()
        hosted_share = sum(one.busy_share for one in instances if one.is_hosted)
        load = ServerLoad(max(self.busy_share, hosted_share), self.loop_lag_s)
        self._do(self._loop.on_loads(load, instances, now), now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return self._next

    def _do(self, decisions: list[Decision], now: float) -> None:
        for one in decisions:
            match one:
                case OfferRoom(is_offered=True):
                    self._offer_room(now)
                case OfferRoom():
                    self._withdraw(now)
                case SeekRoom():
                    self._look(one, now, is_wrapped=False)
                case Give():
                    self._hand_over(one, one.part, now)
                case GiveBack():
                    for part in one.parts:
                        self._hand_over(one, part, now)
                case NoRoom():
                    nets = ", ".join(".".join(net) or "the cloud" for net in one.nets)
                    detail = f"{describe_part(one.part)}, looked for in {nets}: {one.why}"
                    self._note(one.flow, one.component, "no room", detail, now)

    def _hand_over(self, one: Give | GiveBack, part: Part, now: float) -> None:
        net, low, high = part.net, part.low, part.high
        problem = self._runtime.hand_over(one.flow, one.component, net, low, high, one.to, now)
        event = "not given" if problem else "gives"
        detail = f"{describe_part(part)} to {one.to}: {problem or one.why}"
        self._note(one.flow, one.component, event, detail, now)

    # Room here

    def _offer_room(self, now: float) -> None:
        if self._offer is None:
            key = room_key(self._net, self._overlay.chance)
            if self._overlay.add_key(key, now):
                self._offer = key

    def _withdraw(self, now: float) -> None:
        if self._offer is not None:
            self._overlay.remove_key(self._offer, now)
            self._offer = None

    def _on_wanted(self, server: str, wanted: RoomWanted, now: float) -> None:
        kept_for, until = self._kept_for or (server, now)
        has_room = self._offer is not None and (kept_for == server or until <= now)
        if has_room:
            self._kept_for = (server, now + _KEEP_S)
        self._peers.send(server, RoomAnswer(wanted.number, has_room))

    # Room elsewhere

    def _look(self, seek: SeekRoom, now: float, *, is_wrapped: bool) -> None:
        target = room_target(seek.net, None if is_wrapped else self._overlay.chance)
        self._overlay.lookup(target, partial(self._on_found, seek, is_wrapped), now)

    def _on_found(self, seek: SeekRoom, is_wrapped: bool, found: Found | None, now: float) -> None:
        has_room = found is not None and is_room(found.node.key, seek.net)
        if found is not None and has_room and found.node.peer != self._peers.server:
            self._sought = {seek.number: found.node.peer}
            self._peers.send(found.node.peer, RoomWanted(seek.number))
        elif not has_room and not is_wrapped:
            self._look(seek, now, is_wrapped=True)
        else:
            self._do(self._loop.on_room(seek.number, None, now), now)

    def _on_answer(self, server: str, answer: RoomAnswer, now: float) -> None:
        if self._sought.get(answer.number) != server:
            return
        self._sought = {}
        found = server if answer.has_room else None
        self._do(self._loop.on_room(answer.number, found, now), now)
