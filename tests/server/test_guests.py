"""Guests and presence: what a server asks about clients that belong elsewhere."""

from __future__ import annotations

from random import Random

import pytest

from nearcast.server.directory import Directory
from nearcast.server.effects import Effects
from nearcast.server.guests import Guests
from nearcast.server.mesh_messages import ClientIs, MeshMessage, WhereIs, decode_mesh, encode_mesh
from nearcast.server.mesh_messages import Presence as Question
from nearcast.server.overlay_part import OverlayPart
from nearcast.server.peer_channel import PeerFrame, decode_frame, encode_frame
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.peers import Peers
from nearcast.server.presence import Presence
from nearcast.server.shown_orders import ShownOrders
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.server.stream_targets import Capacity, StreamTargets
from nearcast.testing.authority import SmallAuthority

AUTHORITY = SmallAuthority()


class Mesh:
    """The peers of a server called e1, and what it says to them."""

    def __init__(self) -> None:
        self.effects = Effects()
        self.peers = Peers("e1", "manager", PeerChannels(1), self.effects)
        self.peers.learn(["e1", "e2", "e3"])
        self._numbers: dict[str, int] = {}

    def said(self, now: float) -> list[tuple[str, MeshMessage]]:
        found = []
        for server, data in self.peers.poll(now):
            frame = decode_frame(data)
            assert frame is not None
            found += [(server, decode_mesh(one)) for one in frame.messages]
        return found

    def say(self, server: str, message: MeshMessage, now: float) -> None:
        self.peers.dispatch(server, [encode_mesh(message)], now)

    def acknowledge(self, server: str, through: int, now: float) -> None:
        frame = encode_frame(PeerFrame(1, False, 1, 1, [], 1, through))
        self.peers.receive(server, frame, now)


def test_a_guest_is_asked_about_until_the_manager_answers() -> None:
    mesh = Mesh()
    learned: list[tuple[ClientOrder, float]] = []
    overlay = OverlayPart(mesh.peers, Random(1))
    guests = Guests(
        mesh.peers,
        lambda order, now: learned.append((order, now)),
        ShownOrders(mesh.peers, AUTHORITY.trust()),
        Directory(mesh.peers, overlay),
    )
    guests.arrived("car", 0.0)
    assert mesh.said(0.0) == [("manager", WhereIs("car"))]
    guests.on_timer(20.0)
    assert len(mesh.peers._channels._peers["manager"].ordinary.waiting) == 1  # it is repeated
    mesh.acknowledge("manager", 1, 20.0)
    guests.on_timer(30.0)
    assert ("manager", WhereIs("car")) in mesh.said(30.0)
    order = ClientOrder("car", "e2")
    mesh.say("e2", ClientIs("car", order), 31.0)  # not the manager
    mesh.say("manager", ClientIs("bus", order), 31.0)  # not asked
    assert not learned
    assert mesh.effects.counts["mesh_refused"] == 1
    mesh.say("manager", ClientIs("car", order), 32.0)
    mesh.say("manager", ClientIs("car", order), 33.0)
    assert learned == [(order, 32.0)]
    assert len(guests) == 0
    guests.arrived("sign", 40.0)
    guests.left("sign")
    mesh.say("manager", ClientIs("sign", ClientOrder("sign", "e2")), 41.0)
    assert len(learned) == 1


def test_a_server_is_there_when_it_has_answered_lately() -> None:
    mesh = Mesh()
    answered: list[tuple[str, float]] = []
    presence = Presence(mesh.peers, lambda server, now: answered.append((server, now)))
    assert not presence.is_there("e2", 0.0)
    assert not presence.is_there("e2", 0.5)
    assert mesh.said(0.5) == [("e2", Question())]  # once
    mesh.say("e3", Question(answer=True), 0.6)  # nobody asked it
    assert not presence.is_there("e3", 0.6)
    mesh.say("e2", Question(answer=True), 0.6)
    assert answered == [("e2", 0.6)]
    assert presence.is_there("e2", 0.7)
    assert presence.is_there("e2", 2.0)  # and is asked again
    assert presence.is_there("e2", 4.5)
    assert not presence.is_there("e2", 4.7)
    mesh.say("e3", Question(), 5.0)
    assert ("e3", Question(answer=True)) in mesh.said(5.0)


@pytest.mark.parametrize("is_named", [True, False])
def test_the_streams_of_a_guest_go_where_the_manager_says(is_named: bool) -> None:
    targets = StreamTargets("e1", Capacity(), 10)
    topics = (TopicOrder("road", 10, ("e1", "e2")), TopicOrder("air", 10, ("e1",)))
    targets.obey(Orders(1, 1, "cloud", (), topics, ()))
    assert targets.target("road", "car") == targets.target("air", "car") == "e1"
    targets.learn(ClientOrder("car", "e2", {"road": "e2", "air": "e1"}))
    assert (targets.target("road", "car"), targets.target("air", "car")) == ("e2", "e1")
    named = (ClientOrder("car", "e1", {"road": "e1"}),) if is_named else ()
    targets.obey(Orders(2, 1, "cloud", (), topics, named))
    assert targets.target("road", "car") == ("e1" if is_named else "e2")
    targets.guest_left("car")
    targets.obey(Orders(3, 1, "cloud", (), topics, named))
    assert targets.target("road", "car") == "e1"
