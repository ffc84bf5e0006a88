"""Clients and servers that no longer count: they hear of them, leave them, and do not go there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nearcast.experiments.survive.revoked_home import RevokedHome
from nearcast.server.site_orders import ClientOrder, Orders, TopicOrder
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.trust.credentials import Validity
from nearcast.wire.actions import Connected, Disconnected, SendDatagram
from nearcast.wire.client_handshake import ClientHandshake
from nearcast.wire.client_session import ClientSession
from nearcast.wire.codec import encode
from nearcast.wire.framing import Header, InitKeys, Kind, read_header, write_header
from nearcast.wire.messages import CloseReason, Init, Redirect, Revoked, Route, Way
from nearcast.wire.second_opinion import _Question
from nearcast.wire.settings import WireSettings


class ThreeServers:
    """A car at home at e1 that publishes topic t straight to e2."""

    def __init__(self, network: Network | None = None) -> None:
        self.site = SimulatedSite(5, network)
        for name in ("e1", "e2", "e3"):
            self.site.add_server(name)
        self.car: SimulatedClient = self.site.add_client("car", "e1")
        self.revision = 0
        self.obey()
        self.site.connect([self.car])
        self.site.run(2.0)
        for _ in range(2):
            self.car.publish("t", b"x")
            self.site.run(2.0)

    def obey(self, *revoked: str) -> None:
        """Give all servers orders by which some were revoked."""
        self.revision += 1
        order = ClientOrder("car", "e1", {"t": "e2"})
        topic = TopicOrder("t", 100, ("e2",))
        said = self.site.authority.revoked_servers(*revoked, version=self.revision)
        servers = self.site.server_orders()
        self.site.obey(Orders(self.revision, 1, "", servers, (topic,), (order,), **said))

    def hear(self, told: Redirect | Way | Route) -> None:
        server = self.site.servers["e1"]
        assert server.node is not None
        assert server.node.sessions is not None
        server.node.sessions.tell("car", told)
        server.do(server.node.on_timer(self.site.now))
        self.site.run(1.0)

    def left(self) -> list[str]:
        return [
            event.home.address[0]
            for _, event in self.car.events
            if isinstance(event, Disconnected) and event.reason is CloseReason.UNTRUSTED
        ]

    def homes(self) -> list[str]:
        return [e.home.address[0] for _, e in self.car.events if isinstance(e, Connected)]


@pytest.mark.parametrize("seed", range(4))
def test_a_home_that_was_revoked_and_keeps_silent_is_left(seed: int) -> None:
    assert RevokedHome(seed).violations() == []


def test_a_client_leaves_a_home_as_soon_as_it_hears_that_it_was_revoked() -> None:
    made = ThreeServers()
    made.obey("e1")  # an honest server tells even that
    made.site.run(1.0)
    assert made.left() == ["e1"]
    assert made.car.session.is_connected
    assert made.car.session.home.address[0] == "e2"
    made.car.publish("t", b"y")
    made.site.run(5.0)
    assert made.car.session.unacknowledged == 0


def test_a_visit_to_a_revoked_server_ends_and_its_topics_go_through_the_home() -> None:
    made = ThreeServers()
    assert [one.server.address[0] for one in made.car.session._visits.connections()] == ["e2"]
    made.obey("e2")
    made.site.is_overheard = True
    made.site.run(1.0)
    assert not list(made.car.session._visits.connections())
    heard = len(made.site.overheard)
    made.car.publish("t", b"y")
    made.site.run(30.0)
    assert not [one for _, to, one in made.site.overheard[heard:] if to[0] == "e2"]


def test_a_lost_page_comes_again() -> None:
    made = ThreeServers()
    made.site.network.loss = 1.0
    made.obey("e2")
    made.site.run(0.5)
    made.site.network.loss = 0.0
    made.site.run(25.0)
    assert not list(made.car.session._visits.connections())


def test_a_long_list_is_told_in_pages_and_kept_whole() -> None:
    made = ThreeServers(Network(loss=0.2))
    gone = [f"server-{number}-{'x' * (number % 200)}" for number in range(60)]
    made.obey(*gone, "e3")
    made.site.run(600.0)
    pages = made.site.authority.revoked_servers(*gone, "e3", version=2)["revoked_servers"]
    assert len(pages) >= 10
    assert sorted(made.car.session.revoked) == sorted((one, b"") for one in pages)
    made.obey(*gone, "e3")  # the next version says the same, and takes the place of the last
    made.site.run(600.0)
    pages = made.site.authority.revoked_servers(*gone, "e3", version=3)["revoked_servers"]
    assert sorted(made.car.session.revoked) == sorted((one, b"") for one in pages)


@pytest.mark.parametrize("kind", ["redirect", "way", "route"])
def test_nobody_is_sent_to_a_revoked_server(kind: str) -> None:
    made = ThreeServers()
    made.obey("e3")
    made.site.run(1.0)
    assert {one.address[0] for one in made.car.session.servers} == {"e2"}
    made.site.is_overheard = True
    home = made.site.servers["e3"].home
    where = (*home.address, home.server_key, made.site.authority.server("e3", home.server_key))
    told: dict[str, Redirect | Way | Route] = {
        "redirect": Redirect(*where),
        "way": Way(0, 1, *where),
        "route": Route("u", *where),
    }
    made.hear(told[kind])
    assert made.car.session.drops["untrusted_server"] == 1
    made.site.run(100.0)
    assert not [one for _, to, one in made.site.overheard if to[0] == "e3"]


def test_a_server_that_was_given_a_new_credential_counts_again() -> None:
    made = ThreeServers()
    made.obey("e3")
    made.site.run(1.0)
    home = made.site.servers["e3"].home
    new = made.site.authority.server("e3", home.server_key, serial=2)
    made.hear(Redirect(*home.address, home.server_key, new))
    made.site.run(2.0)
    assert "e3" in made.homes()  # which sent it back, by the orders


def test_what_was_heard_is_saved_and_a_later_program_never_goes_there() -> None:
    made = ThreeServers()
    made.obey("e3", "e1")
    made.site.run(1.0)
    saved, authority = made.car.session.cursors, made.site.authority
    assert len(saved.revoked) == 1
    known = [
        replace(one, credential=authority.server(name, one.server_key))
        for name in ("e1", "e3", "e2")
        for one in [made.site.servers[name].home]
    ]

    def later(revoked: tuple[tuple[bytes, bytes], ...]) -> list[str]:
        session = ClientSession(
            b"k" * 32,
            known[0],
            made.site.random.randbytes,
            servers=known[1:],
            authority=authority.key.public_key,
            revoked=revoked,
        )
        session.connect(made.site.now)
        sent = session.poll(made.site.now)
        return [one.address[0] for one in sent if isinstance(one, SendDatagram)]

    assert later(saved.revoked) == ["e2"]
    assert later(()) == ["e1"]
    assert later(((b"damaged", b""),)) == ["e1"]


def _expire(made: ThreeServers, ends: dict[str, float]) -> None:
    """Tell the car credentials of all servers that end at these times."""
    authority = made.site.authority
    for number, (name, at) in enumerate(ends.items()):
        home = made.site.servers[name].home
        credential = authority.server(name, home.server_key, Validity(0, int(at)), serial=2)
        made.hear(Way(number, len(ends), *home.address, home.server_key, credential))


def test_a_home_whose_credential_has_ended_is_left_if_another_one_counts() -> None:
    made = ThreeServers()
    now = made.site.now
    _expire(made, {"e2": now + 10_000, "e3": now + 10_000, "e1": now + 20})
    for server in made.site.servers.values():
        assert server.node is not None
        assert server.node.clients is not None
        server.node.clients._ways._ways = []  # orders that renew it do not come
    made.site.run(100.0)
    assert made.left() == ["e1"]
    assert set(made.homes()) & {"e2", "e3"}
    assert made.car.session.is_connected


def test_a_client_whose_clock_is_far_ahead_stays_where_it_is() -> None:
    made = ThreeServers()
    now = made.site.now
    _expire(made, {"e2": now + 1_000, "e3": now + 1_000, "e1": now + 1_000})
    for server in made.site.servers.values():
        assert server.node is not None
        assert server.node.clients is not None
        server.node.clients._ways._ways = []
    made.car.clock.jump(5_000.0)
    made.car.clock.begin()
    made.car.go_on()
    made.site.run(200.0)
    assert made.left() == []
    assert made.car.session.is_connected
    assert made.car.session.home.address[0] == "e1"


def test_asking_opens_no_session_and_is_no_amplifier() -> None:
    made = ThreeServers()
    made.obey("gone")
    made.site.is_overheard = True
    made.site.run(300.0)
    server = made.site.servers["e3"]
    assert server.node is not None
    assert server.node.counts["sessions_opened"] == 0
    assert server.node.sessions is not None
    assert len(server.node.sessions) == 0
    asked = [len(one) for _, to, one in made.site.overheard if to[0] == "e3"]
    answered = [len(one) for source, _, one in made.site.overheard if source[0] == "e3"]
    assert len(asked) == len(answered) >= 3
    assert max(answered) <= min(asked)
    sessions = [one for _, one in made.car.events if isinstance(one, Connected)]
    assert len(sessions) == 1


def kinds_to(made: ThreeServers, server: str) -> list[Kind]:
    """Return the kinds of the datagrams for a server that were overheard."""
    return [read_header(one).kind for _, to, one in made.site.overheard if to[0] == server]


def test_a_server_that_was_met_is_asked_without_a_handshake_and_is_heard() -> None:
    made = ThreeServers()
    made.site.is_overheard = True
    made.site.run(200.0)
    first, *later = kinds_to(made, "e3")
    assert first is Kind.INIT, "it has to prove first that it is e3"
    assert set(later) == {Kind.QUESTION}
    made.revision += 1
    said = made.site.authority.revoked_servers("e1", version=made.revision)
    orders = Orders(made.revision, 1, "", made.site.server_orders(), (), (), **said)
    made.site.servers["e3"].obey(orders)  # and nobody else tells
    before = len(made.site.overheard)
    made.site.run(150.0)
    del made.site.overheard[:before]
    assert made.left() == ["e1"]
    assert Kind.INIT not in kinds_to(made, "e3")


def test_an_answer_that_was_forged_says_nothing() -> None:
    made = ThreeServers()
    made.site.is_overheard = True
    made.site.run(200.0)
    question = next(
        one
        for _, to, one in made.site.overheard
        if to[0] == "e3" and read_header(one).kind is Kind.QUESTION
    )
    index = int.from_bytes(question[6:10], "big")
    opinion = made.car.session._trust._opinion
    opinion._question = _Question(
        made.car.session._context, made.site.servers["e3"].home, 1, made.site.now
    )
    opinion._question.index = index
    head = write_header(Header(Kind.OPINION, index))
    drops = made.car.session.drops
    before = sum(drops.values())
    made.car.session.receive([head + encode(Revoked(b"page", b"nobody"))], made.site.now)
    assert sum(drops.values()) == before + 1
    made.car.session.receive([head + b"\xff" * 40], made.site.now)
    made.site.run(2.0)
    assert made.left() == []
    assert made.car.session.is_connected


def test_questions_of_many_clients_behind_one_address_keep_no_newcomer_out() -> None:
    made = ThreeServers()
    server = made.site.servers["e3"]
    assert server.node is not None
    sessions = server.node.sessions
    assert sessions is not None
    key, address = server.home.server_key, ("192.0.2.7", 4000)
    asked = [InitKeys(key).write_question(one, one, 1_200) for one in range(1_500)]
    sessions.receive([(one, address) for one in asked], made.site.now)
    answers = sessions.flush(made.site.now)
    assert len(answers) == 1_500
    assert all(len(one.data) <= 1_200 for one in answers)
    # those that have not met it make a handshake, with a budget of its own
    for _ in range(100):
        asks = ClientHandshake(
            b"k" * 32, server.home, made.site.random.randbytes, WireSettings(), 0.0
        )
        data = asks.write_init(Init(asks=1), made.site.now).data
        sessions.receive([(data, address)], made.site.now)
    assert sessions.drops["cookie_needed"] == 60
    comes = ClientHandshake(b"k" * 32, server.home, made.site.random.randbytes, WireSettings(), 0.0)
    sessions.receive([(comes.write_init(Init(), made.site.now).data, address)], made.site.now)
    assert sessions.drops["cookie_needed"] == 60
    wrong = bytearray(asked[0])
    wrong[20] ^= 1
    sessions.receive([(bytes(wrong), address)], made.site.now)
    assert sessions.drops["init_mac1"] == 1


def test_an_init_that_says_one_thing_outside_and_another_inside_is_refused() -> None:
    made = ThreeServers()
    server = made.site.servers["e3"]
    assert server.node is not None
    assert server.node.sessions is not None
    handshake = ClientHandshake(
        made.car.key, server.home, made.site.random.randbytes, WireSettings(), 0.0
    )
    data = handshake.write_init(Init(credential=made.car.credential), made.site.now).data
    head = data[:5] + b"\1" + data[6:-32]
    forged = head + InitKeys(server.home.server_key).mac1(head) + bytes(16)
    server.node.sessions.receive([(forged, ("192.0.2.7", 1))], made.site.now)
    assert server.node.sessions.drops["malformed"] == 1
