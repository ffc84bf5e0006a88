"""Every path x every action, with the right and without it: without, nothing happens (S5).

Clients A (with rights) and B (without) do the same; only what A does may have effects: spooled
records, notifications, known subscribers, topics that come into being.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nearcast.server.broker_messages import Copies
from nearcast.server.mesh_messages import (
    HomeNotice,
    Manages,
    MeshMessage,
    Notices,
    Resume,
    Undelivered,
    encode_mesh,
)
from nearcast.server.proof_messages import Vouch
from nearcast.server.publisher_messages import Forward
from nearcast.server.server import Server
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.server.subscriber_messages import (
    Subscribers,
)
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.trust.rights import NOTHING, Rights
from nearcast.wire.codec import encode
from nearcast.wire.hot_frames import encode_notify
from nearcast.wire.messages import Notify
from nearcast.wire.noise import public_key
from nearcast.wire.publication import Publication

TOPIC = "traffic/north"
ALLOWED = Rights(("traffic/#",), ("traffic/#",))


class Site:
    """A client with its home at e2; e1 is the topic's broker and has a subscriber with rights."""

    def __init__(self, rights: Rights) -> None:
        self.site = SimulatedSite(7)
        for name in ("e1", "e2"):
            self.site.add_server(name)
        self.client = self.site.add_client("one", "e2", rights=rights)
        self.listener = self.site.add_client("listener", "e1", rights=ALLOWED)
        self.speaker = self.site.add_client("speaker", "e1", rights=ALLOWED)
        self.homes = {"one": "e2", "listener": "e1", "speaker": "e1"}
        self.obey(1)
        self.site.connect(self.site.clients.values())
        self.site.run(2.0)
        self.listener.subscribe(TOPIC)
        self.site.run(10.0)

    def obey(self, revision: int) -> None:
        clients = tuple(ClientOrder(name, home, {TOPIC: "e1"}) for name, home in self.homes.items())
        topics = (TopicOrder(TOPIC, 10, ("e1",)),)
        servers = self.site.server_orders()
        self.site.obey(Orders(revision, revision, "", servers, topics, clients))

    def node(self, name: str) -> Server:
        node = self.site.servers[name].node
        assert node is not None
        return node

    def say(self, to_server: str, from_server: str, message: MeshMessage) -> None:
        """Let a server say something, whether it is true or not."""
        node = self.node(to_server)
        node._peers.dispatch(from_server, [encode_mesh(message)], self.site.now)
        self.site.servers[to_server].do(node.on_timer(self.site.now))
        self.site.run(2.0)

    def effects(self) -> dict[str, int]:
        """What the client has brought about."""
        broker = self.node("e1")
        return {
            "spooled": sum(
                one.publisher == "one"
                for topic in broker.broker.topics.values()
                for one in topic.spool.view()
            ),
            "told_others": sum(one.publisher == "one" for one in self.listener.notified),
            "logged": sum(
                row[1] == "one" and row[6] == "publish"
                for server in self.site.servers.values()
                for row in server.publications
            ),
            "subscribed": sum(
                "one" in self.node(name).subscribers.table.subscribers(TOPIC)
                for name in ("e1", "e2")
            ),
            "heard": len(self.client.notified),
            "topics": len(broker.broker.topics) - 1,
        }


def _record() -> bytes:
    return Publication(TOPIC, "one", 1, 1, 1, 2, 0.0, 0.0, b"x", oldest=1).record()


def _notify() -> Notify:
    return Notify(TOPIC, "speaker", 1, 1, True, 0, b"x")


def _publish_directly(site: Site) -> None:
    site.client.publish(TOPIC, b"x")
    site.site.run(2.0)


def _publish_once(site: Site) -> None:
    site.client.publish(TOPIC, b"x", durable=False)
    site.site.run(2.0)


def _publish_to_the_broker_itself(site: Site) -> None:
    site.homes["one"] = "e1"
    site.obey(2)
    site.site.run(5.0)
    _publish_directly(site)


def _publish_forwarded(site: Site) -> None:
    site.say("e1", "e2", Vouch((site.client.credential,)))
    site.say("e1", "e2", Forward(TOPIC, (_record(),), (1,)))


def _publish_copied(site: Site) -> None:
    site.say("e1", "e2", Vouch((site.client.credential,)))
    site.say("e1", "e2", Manages(TOPIC))
    site.say("e1", "e2", Copies(TOPIC, (_record(),)))


def _publish_after_rights_changed(site: Site) -> None:
    """Back in a new session, by a newer credential that says what the matrix's line says."""
    _change_rights(site)
    _publish_directly(site)


def _change_rights(site: Site) -> None:
    client = site.client
    site.site.restart_client(client)
    client.connect()
    site.site.run(3.0)


def _subscribe_directly(site: Site) -> None:
    site.client.subscribe(TOPIC)
    site.site.run(2.0)
    site.speaker.publish(TOPIC, b"y")
    site.site.run(2.0)


def _subscribe_by_pattern(site: Site) -> None:
    site.client.subscribe("traffic/+")
    site.site.run(2.0)
    site.speaker.publish(TOPIC, b"y")
    site.site.run(2.0)


def _subscribe_told_by_its_home(site: Site) -> None:
    site.say("e1", "e2", Vouch((site.client.credential,)))
    site.say("e1", "e2", Subscribers(TOPIC, (("one", 0.0, 0.0),), complete=False))


def _resume_asked_by_its_home(site: Site) -> None:
    site.speaker.publish(TOPIC, b"y")
    site.site.run(2.0)
    site.say("e1", "e2", Vouch((site.client.credential,)))
    site.say("e1", "e2", Resume(TOPIC, "one", 0))


def _notified_by_a_broker(site: Site) -> None:
    site.say("e2", "e1", Notices((HomeNotice(encode_notify(_notify()), ("one",)),)))


def _notified_by_another_home(site: Site) -> None:
    lacking = Undelivered("one", (encode(_notify()),), epoch=site.client.session.epoch)
    site.say("e2", "e1", lacking)


def _subscribe_after_rights_changed(site: Site) -> None:
    _change_rights(site)
    _subscribe_directly(site)


PATHS: list[tuple[Callable[[Site], None], set[str]]] = [
    (_publish_directly, {"spooled", "told_others", "logged"}),
    (_publish_once, {"spooled", "told_others", "logged"}),
    (_publish_to_the_broker_itself, {"spooled", "told_others", "logged"}),
    (_publish_forwarded, {"spooled", "told_others"}),
    (_publish_copied, {"spooled"}),
    (_publish_after_rights_changed, {"spooled", "told_others", "logged"}),
    (_subscribe_directly, {"subscribed", "heard"}),
    (_subscribe_told_by_its_home, {"subscribed"}),
    (_notified_by_another_home, {"heard"}),
    (_subscribe_after_rights_changed, {"subscribed", "heard"}),
]
"""What a client does or somebody says that it does, and what follows if it has the right."""


def _name(value: object) -> str:
    return getattr(value, "__name__", "")


@pytest.mark.parametrize(("path", "effects"), PATHS, ids=_name)
def test_with_the_right_it_happens(path: Callable[[Site], None], effects: set[str]) -> None:
    site = Site(ALLOWED)
    path(site)
    assert {name for name, count in site.effects().items() if count} == effects


WITHOUT = [path for path, _ in PATHS] + [
    _subscribe_by_pattern,
    _resume_asked_by_its_home,
    _notified_by_a_broker,
]


@pytest.mark.parametrize(
    "rights",
    [NOTHING, Rights(("parking/#",), ("parking/#",))],
    ids=["no rights", "rights elsewhere"],
)
@pytest.mark.parametrize("path", WITHOUT, ids=_name)
def test_without_the_right_nothing_happens(path: Callable[[Site], None], rights: Rights) -> None:
    site = Site(rights)
    path(site)
    assert {name: count for name, count in site.effects().items() if count} == {}


@pytest.mark.parametrize(
    "path", [_publish_after_rights_changed, _subscribe_after_rights_changed], ids=_name
)
def test_rights_that_were_taken_away_are_gone_also_for_what_was_going_on(
    path: Callable[[Site], None],
) -> None:
    site = Site(ALLOWED)
    _publish_directly(site)
    _subscribe_directly(site)
    before = site.effects()
    assert before["spooled"] == before["heard"] == 1
    client: SimulatedClient = site.client
    client.credential = site.site.authority.client("one", public_key(client.key), NOTHING, serial=2)
    path(site)
    after = site.effects()
    assert after == {**before, "subscribed": 0}
