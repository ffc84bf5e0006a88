"""A server of the site that lies about clients: others go by the clients' own credentials."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec import structs

from nearcast.broker.ownership import NOBODY, Token
from nearcast.broker.sequence_gate import MARK
from nearcast.errors import WireError
from nearcast.server.broker_messages import Advance, Claim, Copies, CopyAck, CopyNack, Denied
from nearcast.server.early_copies import EarlyCopies
from nearcast.server.effects import Effects
from nearcast.server.mesh_messages import (
    Forward,
    ForwardBusy,
    Manages,
    MeshMessage,
    Notice,
    Notices,
    OrdersShown,
    ShowOrders,
    SpoolDamaged,
    Subscribers,
    SubscribersKnown,
    Undelivered,
    Vouch,
    WhoIs,
    decode_mesh,
    encode_mesh,
)
from nearcast.server.server import Server
from nearcast.server.signed_orders import sign_orders
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.server.spool_shares import SpoolShares
from nearcast.spool.changes import Position
from nearcast.testing.authority import SmallAuthority
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.trust.credentials import Validity
from nearcast.trust.revocations import Revocation, RevocationList, issue_revocations, revoke
from nearcast.trust.rights import NOTHING, Rights
from nearcast.wire.actions import Confirmed, Disconnected
from nearcast.wire.codec import encode
from nearcast.wire.hot_frames import encode_notify
from nearcast.wire.messages import CloseReason, Notify
from nearcast.wire.noise import public_key
from nearcast.wire.publication import Publication

TRAFFIC = Rights(("traffic/#",), ("traffic/#",))
STRANGER = SmallAuthority(b"\1" * 32)


class TwoEdges:
    """Car and thief have their home at e2, the sign at e1; e1 is the broker of all topics."""

    def __init__(self) -> None:
        self.site = SimulatedSite(3)
        for name in ("e1", "e2"):
            self.site.add_server(name)
        self.site.add_server("cloud", is_edge=False)
        self.people = {
            "car": self.site.add_client("car", "e2", rights=TRAFFIC),
            "thief": self.site.add_client("thief", "e2", rights=NOTHING),
            "sign": self.site.add_client("sign", "e1", rights=TRAFFIC),
        }
        self.homes = {"car": "e2", "thief": "e2", "sign": "e1"}
        self.obey(1)
        self.site.connect(self.people.values())
        self.site.run(2.0)

    def obey(self, revision: int, revocations: bytes = b"") -> None:
        clients = tuple(
            ClientOrder(name, self.homes[name], {"traffic/north": "e1"})
            for name, one in self.people.items()
        )
        topics = (TopicOrder("traffic/north", 10, ("e1",)),)
        servers = self.site.server_orders()
        self.site.obey(
            Orders(revision, 1, "cloud", servers, topics, clients, revocations=revocations)
        )

    @property
    def broker(self) -> Server:
        node = self.site.servers["e1"].node
        assert node is not None
        return node

    def say(self, message: MeshMessage, liar: str = "e2") -> list[MeshMessage]:
        """Let a server say something to the broker; return what that answers it at once."""
        said: list[MeshMessage] = []
        peers = self.broker._peers
        send = peers.send
        peers.send = lambda server, message: said.append(message)  # type: ignore[method-assign]
        peers.dispatch(liar, [encode_mesh(message)], self.site.now)
        peers.send = send  # type: ignore[method-assign]
        self.site.servers["e1"].do(self.broker.on_timer(self.site.now))
        self.site.run(1.0)
        return said

    def spooled(self) -> dict[str, int]:
        return {name: len(one.spool.view()) for name, one in self.broker.broker.topics.items()}


def _forward(topic: str, publisher: str, durable: bool = True) -> Forward:
    one = Publication(topic, publisher, 1, 1, 1, 2, 0.0, 0.0, b"x", oldest=1)
    return Forward(topic, (one.record(),), (1,), durable)


def test_what_a_home_says_of_its_clients_counts_after_it_has_shown_their_credentials() -> None:
    made = TwoEdges()
    made.people["car"].publish("traffic/north", b"x")
    made.people["car"].subscribe("traffic/north")
    made.people["sign"].publish("traffic/north", b"y")
    made.site.run(2.0)
    assert made.spooled() == {"traffic/north": 2}
    assert made.people["car"].session.unacknowledged == 0
    confirmed = [one for _, one in made.people["car"].events if isinstance(one, Confirmed)]
    assert [one.accepted for one in confirmed] == [True]
    assert made.broker.counts["mesh_not_vouched"] == 0


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize(
    ("topic", "publisher"),
    [("traffic/north", "thief"), ("parking", "car"), ("traffic/north", "nobody")],
)
def test_a_forwarded_publication_without_the_right_has_no_effect(
    topic: str, publisher: str, durable: bool
) -> None:
    made = TwoEdges()
    made.people["car"].subscribe("traffic/north")  # so that both were spoken of
    made.people["sign"].subscribe("traffic/north")
    made.say(Vouch((made.people["thief"].credential,)))
    answers = made.say(_forward(topic, publisher, durable))
    assert answers == ([WhoIs(("nobody",))] if publisher == "nobody" else [])
    assert made.spooled() == {"traffic/north": 0}
    assert made.people["sign"].notified == []
    counter = "mesh_not_vouched" if publisher == "nobody" else "mesh_not_allowed"
    assert made.broker.counts[counter] == 1


@pytest.mark.parametrize("client", ["thief", "nobody"])
def test_a_subscription_without_the_right_is_not_known(client: str) -> None:
    made = TwoEdges()
    made.say(Vouch((made.people["thief"].credential,)))
    answers = made.say(Subscribers("traffic/north", ((client, 0.0, 0.0),), False, request=7))
    assert answers == ([WhoIs(("nobody",))] if client == "nobody" else [])
    assert list(made.broker.subscribers.subscribers("traffic/north")) == []


def test_credentials_that_do_not_count_are_not_believed() -> None:
    made = TwoEdges()
    key = public_key(bytes(range(32)))
    wrong = (
        STRANGER.client("thief", key),
        made.site.authority.client("thief", key, validity=Validity(0, 5)),
        b"nonsense",
    )
    made.say(Vouch(wrong))
    made.say(_forward("traffic/north", "thief"))
    assert made.spooled() == {"traffic/north": 0}
    assert made.broker.counts["mesh_not_vouched"] == len(wrong) + 1


def test_a_server_that_forgot_a_client_asks_and_is_told_its_subscriptions_again() -> None:
    made = TwoEdges()
    made.people["car"].subscribe("traffic/north")
    made.site.run(2.0)
    authoriser = made.broker._authoriser
    authoriser._vouched.clear()
    made.broker.subscribers.forget_client("car", "traffic/north")
    made.people["car"].publish("traffic/north", b"x")
    made.site.run(5.0)
    assert made.spooled() == {"traffic/north": 1}
    assert list(made.broker.subscribers.subscribers("traffic/north")) == ["car"]


def _home(made: TwoEdges) -> Server:
    node = made.site.servers["e2"].node
    assert node is not None
    return node


def _notify(topic: str) -> Notify:
    return Notify(topic, "bus", 1, 1, True, 0, b"lie")


def test_a_broker_notifies_subscribers_only() -> None:
    made = TwoEdges()
    car, thief = made.people["car"], made.people["thief"]
    car.subscribe("traffic/north")
    made.site.run(10.0)
    notices = tuple(
        Notice(encode_notify(_notify(topic)), ("car", "thief"))
        for topic in ("traffic/north", "traffic/south", "parking")
    )
    home = _home(made)
    home._peers.dispatch("e1", [encode_mesh(Notices(notices))], made.site.now)
    made.site.servers["e2"].do(home.on_timer(made.site.now))
    made.site.run(1.0)
    assert [one.topic for one in car.notified] == ["traffic/north"]
    assert thief.notified == []
    assert home.counts["mesh_not_allowed"] == 5


def test_what_another_home_could_not_deliver_is_told_as_far_as_the_rights_go() -> None:
    made = TwoEdges()
    home = _home(made)
    for client in ("car", "thief"):
        frames = tuple(encode(_notify(topic)) for topic in ("traffic/south", "parking"))
        home._peers.dispatch("e1", [encode_mesh(Undelivered(client, frames))], made.site.now)
    made.site.servers["e2"].do(home.on_timer(made.site.now))
    made.site.run(1.0)
    assert [one.topic for one in made.people["car"].notified] == ["traffic/south"]
    assert made.people["thief"].notified == []
    assert home.counts["mesh_not_allowed"] == 3


def _copies(topic: str, publisher: str) -> Copies:
    one = Publication(topic, publisher, 1, 1, 1, 2, 0.0, 0.0, b"x")
    return Copies(topic, (one.record(),))


def test_copies_come_from_brokers_and_of_publishers_that_may_publish() -> None:
    made = TwoEdges()
    for topic in ("traffic/north", "new"):
        made.say(_copies(topic, "car"))  # e2 is no broker of it
    assert made.spooled() == {"traffic/north": 0}
    made.say(CopyNack("traffic/north", "car", 1, ((1, 9),)))
    made.say(Advance("traffic/north", "car", 1, 9))
    assert made.broker.counts["mesh_refused"] == 2
    made.say(Vouch((made.people["car"].credential, made.people["thief"].credential)))
    made.say(Manages("traffic/north"))  # it is one after all: what waited is taken
    assert made.spooled() == {"traffic/north": 1}
    made.say(_copies("traffic/north", "thief"))
    made.say(_copies("traffic/north", "somebody who left long ago"))
    assert made.spooled() == {"traffic/north": 2}
    made.site.run(20.0)
    made.say(_copies("other", "car"))
    assert made.broker.counts["copies_not_expected"] == 1
    assert list(made.broker.broker.topics) == ["traffic/north"]


def test_early_copies_are_bounded() -> None:
    effects = Effects()
    early = EarlyCopies(effects)
    for number in range(100):
        early.keep("e2", Copies(f"t{number}", (bytes(1 << 20),)), 1.0)
    assert effects.counts["copies_not_expected"] == 96
    early.keep("e2", Copies("huge", (bytes(5 << 20),)), 1.0)
    assert not early
    assert early.take(lambda server, topic: True, 1.0) == []


def _owned(made: TwoEdges) -> dict[str, bool]:
    streams = made.broker.broker.topics["traffic/north"].claims._gate.streams
    return {name: one.is_owned for name, one in streams.items() if not name.startswith(MARK)}


def _claim(version: int, *publishers: str, whole: bool = False) -> Claim:
    return Claim("traffic/north", publishers, Token(version, 9, "e2", 1), whole)


def _published() -> TwoEdges:
    """The sign is at e1 and the car publishes through e2, its home by the orders."""
    made = TwoEdges()
    for name in ("car", "sign"):
        made.people[name].publish("traffic/north", b"x")
    made.site.run(2.0)
    assert _owned(made) == {"car": True, "sign": True}
    return made


def test_a_server_that_no_orders_name_claims_no_stream_of_a_publisher_that_is_heard_elsewhere() -> (
    None
):
    made = _published()
    made.people["sign"].publish("traffic/north", b"y")
    made.site.run(0.1)
    made.say(Vouch((made.people["sign"].credential,)))
    answers = made.say(_claim(0, "sign", "nobody", whole=True))
    assert answers == [
        WhoIs(("nobody",)),
        Denied("traffic/north", ("sign",), Token(0, 9, "e2", 1), NOBODY),
    ]
    assert _owned(made) == {"car": True, "sign": True}
    assert made.broker.counts["claims_refused"] == 2
    made.say(_claim(0, "car", whole=True))  # its home may stand in, and gets nothing else
    assert _owned(made) == {"car": False, "sign": True}


def test_a_claim_by_an_assignment_that_is_not_known_here_needs_signed_orders() -> None:
    made = _published()
    claim = _claim(1 << 40, "car", "sign", whole=True)
    assert made.say(claim) == [ShowOrders()]
    newer = Orders(
        9, 9, "cloud", made.site.server_orders(),
        (TopicOrder("traffic/north", 10, ("e2",), version=1 << 40),), (), server="e2",
    )  # fmt: skip
    for liar, document in (
        ("e2", sign_orders(STRANGER.key, newer)),
        ("e2", sign_orders(made.site.authority.key, structs.replace(newer, server="cloud"))),
        ("cloud", sign_orders(made.site.authority.key, newer)),
    ):
        made.say(OrdersShown(document), liar)
        made.say(claim)
    assert _owned(made) == {"car": True, "sign": True}
    assert made.broker.counts["mesh_refused"] == 3
    made.say(OrdersShown(sign_orders(made.site.authority.key, newer)))
    made.say(claim)
    assert _owned(made) == {"car": False, "sign": False}


def test_topics_that_no_orders_name_belong_to_whoever_uses_them() -> None:
    made = TwoEdges()
    made.people["sign"].publish("traffic/new", b"x")
    made.site.run(2.0)
    made.say(Claim("traffic/new", ("sign",), Token(0, 9, "e2", 1)))
    streams = made.broker.broker.topics["traffic/new"].claims._gate.streams
    assert not streams["sign"].is_owned


def test_a_claim_does_not_wait_for_ever_for_a_server_that_no_orders_name() -> None:
    made = TwoEdges()
    made.say(Manages("traffic/north"))
    home = _home(made)
    home._peers.on(Claim, lambda *_: None)  # it takes the question and never answers
    made.people["sign"].publish("traffic/north", b"y")
    made.site.run(5.0)
    assert made.spooled() == {"traffic/north": 0}
    made.site.run(15.0)
    assert made.spooled() == {"traffic/north": 1}
    assert made.broker.counts["streams_taken_over"] == 1


def test_only_who_was_asked_denies_and_only_who_keeps_copies_acknowledges_them() -> None:
    made = _published()
    made.say(Denied("traffic/north", ("car",), NOBODY, Token(1 << 40, 1, "e2", 1)))
    made.say(CopyAck("traffic/north", Position("car", 1, 9)))
    assert made.broker.counts["mesh_refused"] == 2


def test_copies_of_a_stream_that_another_has_are_refused() -> None:
    made = _published()
    made.say(Manages("traffic/north"))
    made.say(_copies("traffic/north", "sign"))
    assert made.broker.counts["mesh_not_allowed"] == 1
    made.say(CopyNack("traffic/north", "sign", 1, ((1, 9),)))
    assert made.broker.counts["mesh_refused"] == 1
    assert made.spooled() == {"traffic/north": 2}


def test_a_server_forwards_nothing_of_a_publisher_that_is_heard_elsewhere() -> None:
    made = _published()
    made.people["sign"].publish("traffic/north", b"y")
    made.site.run(0.1)
    made.say(Vouch((made.people["sign"].credential,)))
    assert made.say(_forward("traffic/north", "sign")) == [
        ForwardBusy("traffic/north", "sign", 0.2)
    ]
    made.people["car"].publish("traffic/north", b"z")
    made.site.run(0.2)
    made.say(_forward("traffic/north", "car"), "cloud")  # its home is e2, which has just spoken
    assert made.broker.counts["mesh_not_home"] == 2


def test_whole_spools_are_sent_as_fast_as_a_link_allows_and_no_faster() -> None:
    effects = Effects()
    shares = SpoolShares(effects, lambda server, topic: 40 << 20 if server == "e2" else None)
    for topic in ("a", "b", "c", "c"):
        shares.ask("e2", topic, bulk=False)
    shares.ask("e3", "a", bulk=True)  # not for it
    assert shares.take(0.0) == [("e2", "a", False), ("e2", "b", False)]
    assert effects.counts["shares_put_off"] == 1
    assert shares.take(1.0) == []
    assert shares.next_wakeup() < 5.0
    assert shares.take(shares.next_wakeup()) == [("e2", "c", False)]
    assert shares.next_wakeup() == float("inf")


def test_a_server_that_asks_for_a_spool_again_and_again_gets_it_a_few_times() -> None:
    made = _published()
    made.say(Manages("traffic/north"))
    sent: list[str] = []
    made.broker._peers.send_copies = lambda server, topic, *_, **__: sent.append(topic)  # type: ignore[method-assign]
    for _ in range(6_000):
        made.broker._peers.dispatch("e2", [encode_mesh(SpoolDamaged("traffic/north"))], 1_000.0)
        made.broker._broker_part.finish(1_000.0)
    assert 0 < len(sent) <= (64 << 20) // (16 << 10) + 1


def _revoked(site: SimulatedSite, client: str, least_serial: int) -> bytes:
    entry = Revocation("client", client, least_serial, 1 << 40)
    return issue_revocations(site.authority.key, revoke(RevocationList(), [entry], 0))


def _ends(events: Iterable[tuple[float, object]]) -> list[CloseReason]:
    return [one.reason for _, one in events if isinstance(one, Disconnected)]


def test_a_revoked_client_is_sent_away_at_once_everywhere() -> None:
    made = TwoEdges()
    made.people["car"].subscribe("traffic/north")
    made.site.run(2.0)
    made.obey(2, _revoked(made.site, "car", 2))
    made.site.run(0.5)
    assert _ends(made.people["car"].events) == [CloseReason.REVOKED]
    assert list(made.broker.subscribers.subscribers("traffic/north")) == []
    answers = made.say(_forward("traffic/north", "car"))  # its home lies
    assert answers == [WhoIs(("car",))]
    made.say(Vouch((made.people["car"].credential,)))
    made.say(_forward("traffic/north", "car"))
    assert made.spooled() == {"traffic/north": 0}
    made.site.connect([made.people["car"]])
    made.site.run(5.0)
    home = made.site.servers["e2"].node
    assert home is not None
    assert home.sessions is not None
    assert "car" not in home.sessions.clients
    assert home.sessions.drops["revoked"] > 0


def test_a_list_that_nobody_may_sign_ends_nothing() -> None:
    made = TwoEdges()
    entry = Revocation("client", "car", 9, 1 << 40)
    forged = issue_revocations(STRANGER.key, revoke(RevocationList(), [entry], 0))
    with pytest.raises(Exception, match="does not know"):
        made.obey(2, forged)
    made.site.run(1.0)
    assert _ends(made.people["car"].events) == []


def _with_short_credential(made: TwoEdges, seconds: int) -> SimulatedClient:
    """Have the car connect with a credential that counts for so long."""
    car = made.people["car"]
    until = int(made.site.now) + seconds
    car.credential = made.site.authority.client(
        "car", public_key(car.key), TRAFFIC, 2, Validity(0, until)
    )
    made.site.restart_client(car)
    car.connect()
    made.site.run(2.0)
    return car


def test_an_expired_credential_ends_its_session() -> None:
    made = TwoEdges()
    car = _with_short_credential(made, 20)
    assert car.session.is_connected
    made.site.run(30.0)
    assert _ends(car.events)[-1] is CloseReason.EXPIRED


def test_a_server_whose_clock_runs_ahead_ends_no_client_for_good() -> None:
    made = TwoEdges()
    car = _with_short_credential(made, 1_000)
    made.site.servers["e2"].kill()
    made.site.servers["e2"].clock.jump(5_000.0)
    made.site.servers["e2"].restart()
    made.site.run(30.0)
    car.publish("traffic/north", b"x")
    made.site.run(5.0)
    assert car.session.unacknowledged == 0  # another server took it in


def test_a_newer_credential_ends_the_session_of_the_old_key_at_another_server() -> None:
    """Somebody has a copy of the old key; the owner has a new one and is at another edge."""
    made = TwoEdges()
    thief = made.people["car"]
    key = bytes(range(32))
    newer = made.site.authority.client("car", public_key(key), TRAFFIC, serial=2)
    home = made.site.servers["e2"].node
    assert home is not None
    home._peers.dispatch("e1", [encode_mesh(Vouch((newer,)))], made.site.now)
    made.site.servers["e2"].do(home.on_timer(made.site.now))
    made.site.run(0.5)
    assert _ends(thief.events) == [CloseReason.REVOKED]
    made.site.connect([thief])
    made.site.run(5.0)
    assert home.sessions is not None
    assert home.sessions.drops["revoked"] > 0
    assert "car" not in home.sessions.clients


def test_rights_that_were_taken_away_end_the_subscriptions_they_had_allowed() -> None:
    made = TwoEdges()
    car = made.people["car"]
    car.subscribe("traffic/north")
    made.site.run(2.0)
    assert list(made.broker.subscribers.subscribers("traffic/north")) == ["car"]
    less = Rights(("traffic/#",), ("parking",))
    car.credential = made.site.authority.client("car", public_key(car.key), less, serial=2)
    made.site.restart_client(car)
    car.connect()
    made.site.run(1.0)
    car.publish("traffic/north", b"x")
    made.site.run(1.0)
    assert list(made.broker.subscribers.subscribers("traffic/north")) == []
    assert decode_mesh(encode_mesh(Vouch((car.credential,)))) == Vouch((car.credential,))


@pytest.mark.parametrize(
    "lie",
    [
        Manages("a/" * 40),
        Copies("x" * 300, ()),
        Subscribers("", (), True),
        SubscribersKnown(1, {"a/" * 40: 7}),
    ],
)
def test_topics_that_no_client_could_be_told_about_never_come_to_be(lie: MeshMessage) -> None:
    with pytest.raises(WireError, match="topic"):
        decode_mesh(encode_mesh(lie))
