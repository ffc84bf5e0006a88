"""A server of the site that lies about clients: others go by the clients' own credentials."""

from __future__ import annotations

from collections.abc import Iterable
from unittest.mock import ANY

import pytest
from msgspec import structs

from nearcast.broker.ownership import NOBODY, Token
from nearcast.broker.sequence_gate import MARK
from nearcast.broker.state_transfer import Offer
from nearcast.errors import WireError
from nearcast.flow.flow import Component, Flow
from nearcast.flow.flow_orders import FlowOrder
from nearcast.server.broker_messages import (
    Advance,
    Claim,
    Copies,
    CopyAck,
    CopyNack,
    Denied,
    Rumours,
    StateTaken,
    Yielded,
)
from nearcast.server.early_copies import EarlyCopies
from nearcast.server.effects import Effects
from nearcast.server.mesh_messages import (
    HomeNotice,
    Manages,
    MeshMessage,
    Notices,
    SpoolDamaged,
    Undelivered,
    decode_mesh,
    encode_mesh,
)
from nearcast.server.proof_messages import (
    HomeProved,
    OrdersShown,
    ProveHome,
    ShowOrders,
    Vouch,
    WhoIs,
)
from nearcast.server.publisher_messages import Forward
from nearcast.server.ring_messages import DirectoryClaim, DirectoryWanted
from nearcast.server.server import Server
from nearcast.server.signed_orders import sign_orders
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.server.spool_shares import SpoolShares
from nearcast.server.subscriber_messages import (
    Moved,
    Subscribers,
    SubscribersKnown,
)
from nearcast.spool.changes import Position
from nearcast.testing.authority import SmallAuthority
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.trust.credentials import Validity
from nearcast.trust.revocations import Revocation, RevocationList, issue_revocations, revoke
from nearcast.trust.rights import NOTHING, Rights
from nearcast.wire.actions import Confirmed, Disconnected
from nearcast.wire.codec import encode
from nearcast.wire.home_proof import Prover
from nearcast.wire.hot_frames import encode_notify
from nearcast.wire.messages import CloseReason, Notify, Prove
from nearcast.wire.noise import public_key
from nearcast.wire.publication import Publication
from nearcast.wire.terms import Terms

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
    assert list(made.broker.subscribers.table.subscribers("traffic/north")) == []


def test_credentials_that_do_not_count_are_not_believed() -> None:
    made = TwoEdges()
    key = public_key(bytes(range(32)))
    wrong = (
        STRANGER.client("stranger", key),
        made.site.authority.client("stranger", key, validity=Validity(0, 5)),
        b"nonsense",
    )
    made.say(Vouch(wrong))
    made.say(_forward("traffic/north", "stranger"))
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
    assert list(made.broker.subscribers.table.subscribers("traffic/north")) == ["car"]


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
        HomeNotice(encode_notify(_notify(topic)), ("car", "thief"))
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
        epoch = made.people[client].session.epoch
        lacking = Undelivered(client, frames, epoch=epoch)
        home._peers.dispatch("e1", [encode_mesh(lacking)], made.site.now)
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
    made.say(_copies("traffic/north", "somebody who left long ago"))  # and was never at e2
    assert made.spooled() == {"traffic/north": 1}
    made.site.run(20.0)
    made.say(_copies("other", "car"))
    assert made.broker.counts["copies_not_expected"] == 2
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
    who, prove = made.say(_claim(0, "sign", "nobody", whole=True))
    assert who == WhoIs(("nobody",))
    assert isinstance(prove, ProveHome)
    made.say(HomeProved("sign", prove.nonce))  # it is not there
    assert made.say(_claim(0, "sign")) == [
        ProveHome("sign", ANY),
        Denied("traffic/north", ("sign",), Token(0, 9, "e2", 1), NOBODY),
    ]
    assert _owned(made) == {"car": True, "sign": True}
    assert made.broker.counts["claims_refused"] == 2
    made.say(_claim(0, "car", whole=True))  # its home may stand in, and gets nothing else
    assert _owned(made) == {"car": False, "sign": True}


def test_nobody_claims_or_shows_a_credential_of_what_a_component_of_a_flow_makes() -> None:
    made = _published()
    for claim in (_claim(0, "flow:people/count@e1"), _claim(0, "flow:people/count@e2")):
        assert made.say(claim) == []
    assert made.broker.counts["claims_refused"] == 2
    forged = made.site.authority.client("flow:people/count@e1", b"k" * 32, TRAFFIC)
    made.say(Vouch((forged,)))
    made.say(_forward("traffic/north", "flow:people/count@e1"))
    assert set(_owned(made)) == {"car", "sign"}
    assert made.broker.counts["mesh_not_vouched"] == 2


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


def test_topics_that_no_orders_name_belong_to_the_homes_of_those_who_use_them() -> None:
    made = TwoEdges()
    made.people["sign"].publish("traffic/new", b"x")
    made.site.run(2.0)
    made.say(Vouch((made.people["sign"].credential,)))
    for version in (0, 1 << 40):
        made.say(Claim("traffic/new", ("sign",), Token(version, 9, "e2", 1), whole=True))
    streams = made.broker.broker.topics["traffic/new"].claims._gate.streams
    assert streams["sign"].is_owned
    made.people["car"].publish("traffic/new", b"y")  # it is at e2
    made.site.run(2.0)
    assert made.people["car"].session.unacknowledged == 0
    settings = made.broker.broker.topics["traffic/new"].settings
    assert settings.other_brokers == ("e2",)
    assert streams["sign"].is_owned


@pytest.mark.parametrize("topic", ["traffic/north", "traffic/new"])
def test_a_server_that_says_that_it_manages_a_topic_is_asked_and_told_nothing(topic: str) -> None:
    made = TwoEdges()
    made.people["sign"].publish(topic, b"x")
    made.site.run(2.0)
    answers = made.say(Manages(topic, publisher="sign"))
    made.say(Vouch((made.people["sign"].credential,)))
    made.say(Manages(topic, publisher="sign"))
    made.say(SpoolDamaged(topic))
    made.say(CopyNack(topic, "sign", made.people["sign"].session.epoch, ((1, 1),)))
    sent: list[str] = []
    made.broker._peers.send_copies = lambda server, *_, **__: sent.append(server)  # type: ignore[method-assign]
    made.people["sign"].publish(topic, b"y")
    made.site.run(2.0)
    settings = made.broker.broker.topics[topic].settings
    assert (settings.stand_ins, settings.other_brokers, sent) == (("e2",), (), [])
    assert not any(isinstance(one, Copies) for one in answers)
    assert made.broker.counts["mesh_refused"] == 1


def test_a_claim_cannot_use_up_the_counters() -> None:
    made = _published()
    for counter in (1 << 40, (1 << 62) - 1):
        made.say(Claim("traffic/north", ("car",), Token(0, counter, "e2", 1)))
    assert _owned(made) == {"car": True, "sign": True}
    assert made.broker.counts["mesh_refused"] == 2


def test_a_subscriber_with_terms_that_cannot_be_read_is_not_kept() -> None:
    """Else what its true home says of it later could not be taken either."""
    made = TwoEdges()
    bad = {"car": Terms(where="price <")}
    clients = (("car", 0.0, 0.0),)
    before = made.broker.counts["mesh_refused"]
    made.say(Subscribers("traffic/north", clients, False, terms=bad))
    made.say(Subscribers("traffic/north", (("car", float("inf"), 0.0),), False))
    made.say(Moved((("car", float("nan"), 0.0),)))
    assert made.broker.counts["mesh_refused"] == before + 3
    assert not made.broker.subscribers.homes_of("traffic/north", "car")


def test_a_server_cannot_move_a_subscriber_that_it_never_told_of() -> None:
    """Messages for areas would miss it."""
    made = TwoEdges()
    made.people["sign"].subscribe("traffic/north")
    made.people["car"].subscribe("traffic/north")
    made.site.run(3.0)
    places = made.broker.subscribers.table._places
    before = dict(places)
    assert {"sign", "car"} <= before.keys()
    made.say(Moved((("sign", 900.0, 900.0), ("car", 5.0, 5.0))))
    assert places == before | {"car": (5.0, 5.0)}


def test_a_server_that_no_orders_name_keeps_its_state_and_gives_its_streams() -> None:
    made = TwoEdges()
    made.say(Manages("traffic/north", past=True))
    home = _home(made)
    home._peers.on(Claim, lambda *_: None)  # another answer is the lie
    heard: list[StateTaken] = []
    home._peers.on(StateTaken, lambda _server, one, _now: heard.append(one))
    made.people["sign"].publish("traffic/north", b"x")
    made.site.run(0.5)
    topic = made.broker.broker.topics["traffic/north"]
    claim = topic.claims.ownership.claims["sign"]
    offer = Offer(b"lie", 1, 0)
    made.say(Yielded("traffic/north", claim.token, (Position("sign", 0, 0),), offer))
    made.say(Yielded("traffic/north", NOBODY, (), Offer(number=1)))  # asks what became of it
    made.site.run(0.5)
    assert topic.processing.state != b"lie"
    assert made.broker.counts["states_not_merged"] == 1
    assert heard == [StateTaken("traffic/north", 1, taken=False)] * 2
    assert "sign" not in topic.claims.ownership.claims
    assert made.spooled() == {"traffic/north": 1}


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
    assert made.say(_forward("traffic/north", "sign")) == [ProveHome("sign", ANY)]
    made.people["car"].publish("traffic/north", b"z")
    made.site.run(0.2)
    made.say(_forward("traffic/north", "car"), "cloud")  # its home is e2, which has just spoken
    assert made.broker.counts["mesh_not_home"] == 2


@pytest.mark.parametrize("durable", [True, False])
def test_a_server_forwards_nothing_of_a_publisher_that_is_silent_and_not_there(
    durable: bool,
) -> None:
    made = _published()
    made.people["sign"].session.abandon()
    made.site.run(600.0)
    made.say(Vouch((made.people["sign"].credential,)))
    (prove,) = made.say(_forward("traffic/north", "sign", durable))
    assert isinstance(prove, ProveHome)
    home_key = made.site.servers["e2"].home.server_key
    asker_key = made.site.servers["e1"].home.server_key
    forger = Prover(b"f" * 32).answer(Prove(asker_key, prove.nonce), home_key, 0.0)
    made.say(HomeProved("sign", prove.nonce, forger.tag))
    made.say(HomeProved("sign", prove.nonce, b"\0" * 16))
    # what the client proves to its true home, or to another server, is none for this one
    for asker, home, nonce in (
        (asker_key, asker_key, prove.nonce),
        (home_key, home_key, prove.nonce),
        (asker_key, home_key, b"n" * 16),
    ):
        proof = Prover(made.people["sign"].key).answer(Prove(asker, nonce), home, 0.0)
        made.say(HomeProved("sign", prove.nonce, proof.tag))
    assert made.spooled() == {"traffic/north": 2}
    assert made.broker.counts["mesh_refused"] == 5
    proof = Prover(made.people["sign"].key).answer(Prove(asker_key, prove.nonce), home_key, 0.0)
    made.say(HomeProved("sign", prove.nonce, proof.tag))  # it has gone there after all
    assert made.broker.counts["mesh_refused"] == 5
    assert made.broker._broker_part.proofs._witness.may_speak("e2", "sign", made.site.now)


def test_a_proof_counts_for_a_while_and_until_the_client_is_heard_elsewhere() -> None:
    made = TwoEdges()
    witness = made.broker._broker_part.proofs._witness
    made.homes["car"] = "cloud"  # by the orders; the car is at e2 all the same
    made.obey(2)
    made.people["car"].publish("traffic/north", b"x")
    made.site.run(2.0)
    assert made.spooled() == {"traffic/north": 1}
    assert witness.may_speak("e2", "car", made.site.now)
    witness.note("cloud", "car")
    assert not witness.may_speak("e2", "car", made.site.now)


@pytest.mark.parametrize("silent_s", [61.0, 3_000.0])
def test_a_server_that_a_client_has_left_is_believed_until_it_ought_to_have_proved_it_again(
    silent_s: float,
) -> None:
    made = TwoEdges()
    witness = made.broker._broker_part.proofs._witness
    made.homes["car"] = "cloud"
    made.obey(2)
    made.people["car"].publish("traffic/north", b"x")
    made.site.run(2.0)
    since = made.site.now + silent_s
    assert [witness.may_speak("e2", "car", since + s) for s in (0.0, 0.9, 1.1, 20.0, 20.5)] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert not witness.may_speak("e2", "car", since + 3_600.0)


def test_a_server_that_says_that_a_client_has_left_is_believed_at_once() -> None:
    made = TwoEdges()
    witness = made.broker._broker_part.proofs._witness
    made.homes["car"] = "cloud"
    made.obey(2)
    made.people["car"].publish("traffic/north", b"x")
    made.site.run(600.0)
    made.people["car"].session.abandon()
    assert witness.may_speak("e2", "car", made.site.now)
    (question,) = witness._questions.values()
    made.say(HomeProved("car", question.nonce))
    assert not witness.may_speak("e2", "car", made.site.now)


def test_what_is_held_for_a_proof_is_bounded_and_counted() -> None:
    made = _published()
    made.people["sign"].session.abandon()
    made.site.run(600.0)
    made.say(Vouch((made.people["sign"].credential,)))
    for _ in range(70):
        made.broker._peers.dispatch(
            "e2", [encode_mesh(_forward("traffic/north", "sign", durable=False))], made.site.now
        )
    assert made.broker.counts["unproved_dropped"] == 6
    made.broker._router.on_proved("e2", "sign", made.site.now + 11.0)
    assert made.broker.counts["unproved_dropped"] == 70
    assert made.spooled() == {"traffic/north": 2}


@pytest.mark.parametrize(
    ("publisher", "taken"),
    [("flow:f/c@e2", True), ("flow:f/c@cloud", False), ("flow:f/other@e2", False)],
)
def test_copies_of_what_a_flow_makes_need_no_proof_where_the_orders_have_it(
    publisher: str, taken: bool
) -> None:
    made = _published()
    _with_flow(made, "traffic/north")
    made.say(Manages("traffic/north"))
    one = Publication("traffic/north", publisher, 1, 1, 1, 2, 0.0, 0.0, b"x", oldest=1)
    made.say(Copies("traffic/north", (one.record(),)))
    assert made.spooled() == {"traffic/north": 2 + taken}
    settings = made.broker.broker.topics["traffic/north"].settings
    assert (settings.stand_ins, settings.other_brokers) == (("e2",), ())
    assert not made.broker.counts["home_proofs_asked"]


@pytest.mark.parametrize("orders_first", [True, False])
def test_a_topic_without_orders_that_a_flow_makes_has_brokers_wherever_they_say(
    orders_first: bool,
) -> None:
    made = TwoEdges()
    made.people["sign"].publish("traffic/new", b"x")
    made.site.run(2.0)
    if orders_first:
        _with_flow(made, "traffic/new")
    made.say(Manages("traffic/new"))
    if not orders_first:
        _with_flow(made, "traffic/new")
    settings = made.broker.broker.topics["traffic/new"].settings
    assert (settings.stand_ins, settings.other_brokers) == ((), ("e2",))


def _with_flow(made: TwoEdges, output: str) -> None:
    flow = Flow("f", ("in",), {"c": Component("forward", ("in",), output)})
    orders = made.broker.orders
    assert orders is not None
    flows = (FlowOrder(flow, 1, {"c": "cloud"}),)
    made.site.obey(structs.replace(orders, revision=9, flows=flows, server=""))


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
    made.say(Manages("traffic/north"), "cloud")
    sent: list[str] = []
    made.broker._peers.send_copies = lambda server, topic, *_, **__: sent.append(topic)  # type: ignore[method-assign]
    for _ in range(6_000):
        made.broker._peers.dispatch("cloud", [encode_mesh(SpoolDamaged("traffic/north"))], 1_000.0)
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
    assert list(made.broker.subscribers.table.subscribers("traffic/north")) == []
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
    assert list(made.broker.subscribers.table.subscribers("traffic/north")) == ["car"]
    less = Rights(("traffic/#",), ("parking",))
    car.credential = made.site.authority.client("car", public_key(car.key), less, serial=2)
    made.site.restart_client(car)
    car.connect()
    made.site.run(1.0)
    car.publish("traffic/north", b"x")
    made.site.run(1.0)
    assert list(made.broker.subscribers.table.subscribers("traffic/north")) == []
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


def test_rumours_have_known_servers_asked_and_nobody_else_and_only_a_few() -> None:
    made = TwoEdges()
    made.people["car"].publish("traffic/north", b"x")
    made.site.run(2.0)
    topics = made.broker.topics
    made.say(Rumours({"traffic/north": ("nobody", "e1"), "made/up": ("cloud",)}))
    assert topics._told.of("traffic/north") == []
    assert topics._told.of("made/up") == [], "only topics that are here"
    made.say(Rumours({"traffic/north": ("cloud",)}))
    assert topics._told.of("traffic/north") == ["cloud"]
    made.broker._peers.others.update(dict.fromkeys(f"x{number}" for number in range(100)))
    made.say(Rumours({"traffic/north": tuple(f"x{number}" for number in range(100))}))
    assert len(topics._told.of("traffic/north")) == 16
    assert made.broker.counts["rumours_dropped"] == 85


def test_a_server_that_asks_for_orders_again_and_again_is_shown_them_once_a_second() -> None:
    made = TwoEdges()
    made.broker._shown.obey(b"signed" * 10_000, 1)
    peers, shown = made.broker._peers, list[MeshMessage]()
    send = peers.send
    peers.send = lambda server, message: shown.append(message)  # type: ignore[method-assign]
    for number in range(1_000):
        peers.dispatch("e2", [encode_mesh(ShowOrders())], made.site.now + number / 500)
    peers.send = send  # type: ignore[method-assign]
    assert len(shown) == 2


def test_orders_that_are_shown_count_once_for_each_question() -> None:
    made = TwoEdges()
    looked: list[str] = []
    made.broker._shown.listeners.append(lambda server, orders, now: looked.append(server))
    orders = made.site.servers["e2"].node
    assert orders is not None
    document = orders._shown._document
    refused = made.broker.counts["mesh_refused"]
    made.broker._shown.ask("e2", made.site.now)
    for _ in range(5):
        made.broker._peers.dispatch("e2", [encode_mesh(OrdersShown(document))], made.site.now)
    assert made.broker.counts["mesh_refused"] >= refused + 4
    assert len(looked) <= 1


def test_a_name_in_the_directory_is_no_longer_than_names_are() -> None:
    made = TwoEdges()
    refused = made.broker.counts["mesh_refused"]
    made.say(DirectoryClaim(("x" * 1_101,)))
    made.say(DirectoryWanted("x" * 1_101))
    assert made.broker.counts["mesh_refused"] == refused + 2
    assert len(made.broker.ring.directory) == 0 or all(
        len(name) <= 1_100
        for claims in made.broker.ring.directory._claims.values()
        for name in claims
    )
