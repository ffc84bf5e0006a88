"""The manager among servers, on a pipe in memory and a clock that the test moves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

from nearcast.server.manager import Manager
from nearcast.server.manager_state import (
    ManagerState,
    PlanVersion,
    SiteServer,
    make_orders,
    with_processors,
    with_revocations,
    with_site,
)
from nearcast.server.mesh_messages import (
    ClientIs,
    ClockTold,
    Hello,
    LoadReport,
    Manages,
    MeshMessage,
    NewOrders,
    WhereIs,
    decode_mesh,
    encode_mesh,
)
from nearcast.server.orders_from_plan import DELEGATED, PlannedClient, PlannedTopic, SitePlan
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.signed_orders import read_orders
from nearcast.server.site_orders import ClientOrder, Orders, ServerOrder, TopicOrder
from nearcast.testing.plan_directory import PlanDirectory
from nearcast.trust.revocations import Revocation
from nearcast.trust.signed import SigningKey
from nearcast.trust.site_trust import SiteTrust

START = 1_000.0
REPORT = LoadReport(1, 3, 2, 20.0, 40.0, 1, 3, 500, 900, 0.001)


def server(name: str, x_km: float, client_limit: float = math.inf) -> SiteServer:
    order = ServerOrder(name, "127.0.0.1", 7000, name.encode() * 16)
    return SiteServer(order, (x_km, 0.0), 100.0, math.inf, client_limit)


SERVERS = {
    "e1": server("e1", 0.0, client_limit=2),
    "e2": server("e2", 10.0, client_limit=2),
    "cloud": SiteServer(ServerOrder("cloud", "", 0, b"")),
}
PLAN = SitePlan(
    topics=(PlannedTopic("t", 5, ("e1",), True, "1"), PlannedTopic("u", 5, ("e2",), False, "1")),
    clients=[
        PlannedClient("a", "e1", {"t": DELEGATED, "u": "e2"}, ("t", "u")),
        PlannedClient("b", "e2", {}, ("u",)),
    ],
)
SIGNER = SigningKey(b"s" * 32)
DIRECTORY = PlanDirectory(PLAN)


def first_state() -> ManagerState:
    return with_site(None, SERVERS, PLAN, PlanVersion(1, START, "ratio", "nearest", 4.2))


class World:
    """A manager with servers that say what the test tells them to."""

    def __init__(self) -> None:
        self.manager = Manager(first_state(), DIRECTORY, SIGNER, cloud="cloud", incarnation=1)
        self.trust = SiteTrust(SIGNER.public_key)
        self.answers: list[ClientIs] = []
        self.times_us: list[int] = []
        self.now = START
        self.servers = {name: PeerChannels(1) for name in SERVERS}
        self.orders: dict[str, list[Orders]] = {name: [] for name in SERVERS}
        self.lose: Callable[[str], bool] = lambda _server: False

    def say(self, name: str, message: MeshMessage) -> None:
        self.servers[name].send("manager", encode_mesh(message))
        self._carry(name)

    def change(self) -> None:
        self.install(with_processors(self.manager.state, ()))

    def install(self, state: ManagerState) -> None:
        self.deliver(self.manager.install(state, self.now))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := min(self._wakeups())) <= end:
            self.now = max(self.now, due)
            self.deliver(self.manager.on_timer(self.now))
            for name in self.servers:
                self._carry(name)
        self.now = end

    def deliver(self, frames: list[tuple[str, bytes]]) -> None:
        for name, frame in frames:
            if self.lose(name):
                continue
            for raw in self.servers[name].receive("manager", frame, self.now):
                message = decode_mesh(raw)
                if isinstance(message, ClockTold):
                    self.times_us.append(message.told_us)
                    continue
                if isinstance(message, ClientIs):
                    self.answers.append(message)
                    continue
                assert isinstance(message, NewOrders)
                self.orders[name].append(read_orders(message.document, self.trust, name))

    def revisions(self, name: str) -> list[int]:
        return [orders.revision for orders in self.orders[name]]

    def _carry(self, name: str) -> None:
        for _, frame in self.servers[name].poll(self.now):
            self.deliver(self.manager.on_mesh(name, frame, self.now))

    def _wakeups(self) -> list[float]:
        channels = [one.next_wakeup() for one in self.servers.values()]
        return [*channels, self.manager.next_wakeup(self.now)]


def test_orders_are_made_one_at_a_time_however_many_servers_ask() -> None:
    world = World()
    for name in SERVERS:
        world.say(name, Hello(0))
    assert not any(world.orders.values())
    for count in range(1, len(SERVERS) + 1):
        assert world.manager.next_wakeup(world.now) <= world.now  # others get their turn between
        world.deliver(world.manager.on_timer(world.now))
        assert sum(map(len, world.orders.values())) == count


def test_a_server_that_starts_gets_the_orders_once() -> None:
    world = World()
    world.say("e1", Hello(0))
    world.run(30)
    expected = make_orders(first_state(), DIRECTORY, "e1", "cloud", START)
    assert world.orders == {"e1": [expected], "e2": [], "cloud": []}


def test_a_server_that_has_the_orders_gets_none() -> None:
    world = World()
    world.say("e1", Hello(1))
    world.say("e1", REPORT)
    world.run(30)
    assert world.orders["e1"] == []


def test_orders_are_repeated_until_they_arrive() -> None:
    world = World()
    lost = iter([True, True, True, False])
    world.lose = lambda _server: next(lost, False)
    world.say("e1", Hello(0))
    world.run(30)
    assert world.revisions("e1") == [1]


def test_a_server_that_reports_an_old_revision_gets_the_orders_at_most_every_few_seconds() -> None:
    world = World()
    for _ in range(20):
        world.say("e1", replace_revision(REPORT, 0))
        world.run(0.5)
    assert world.revisions("e1") == [1, 1, 1]
    assert len(world.times_us) == 20  # each report is told the time


def replace_revision(report: LoadReport, revision: int) -> LoadReport:
    return LoadReport(revision, *(getattr(report, name) for name in report.__struct_fields__[1:]))


def test_changes_within_a_second_go_out_together() -> None:
    world = World()
    world.say("e1", Hello(1))
    world.change()
    for _ in range(3):
        world.change()
        world.run(0.1)
    assert world.revisions("e1") == [2]
    world.run(1)
    assert world.revisions("e1") == [2, 5]


def test_another_plan_goes_to_all_servers_that_are_up() -> None:
    world = World()
    for name in SERVERS:
        world.say(name, Hello(1))
    world.run(10)
    world.say("e1", Hello(1))
    world.say("cloud", Hello(1))
    world.run(10)
    version = PlanVersion(2, world.now, None, None, None)
    world.install(with_site(world.manager.state, SERVERS, replace(PLAN, topics=()), version))
    world.run(5)
    assert {name: world.revisions(name) for name in SERVERS} == {"e1": [2], "e2": [], "cloud": [2]}
    assert world.orders["e1"][0].plan_version == 2
    world.say("e2", Hello(1))
    world.run(5)
    assert world.revisions("e2") == [2]


def test_unknown_servers_and_invalid_messages_are_counted_and_change_nothing() -> None:
    world = World()
    assert world.manager.on_mesh("unknown", b"x", START) == []
    assert world.manager.on_mesh("e1", b"\xc1 nonsense", START) == []
    world.servers["e1"].send("manager", b"no message")
    world.say("e1", Manages("t"))
    world.say("e1", Hello(-1))
    world.say("e1", Hello(1 << 60))
    assert world.manager.status(START)["counts"]["refused_messages"] == 6
    assert world.manager.status(START)["counts"]["servers_up"] == 0


def test_status_says_who_is_up_how_loaded_and_what_is_in_force() -> None:
    world = World()
    world.say("e1", REPORT)
    world.run(2)
    status = world.manager.status(world.now)
    e1, e2, cloud = status["servers"]
    assert (e1["state"], e2["state"], cloud["state"]) == ("up", "away", "away")
    assert (e1["sessions"], e1["local_share"], e1["report_age_s"]) == (3, 0.75, 2.0)
    assert (e1["storage_used"], e1["storage_limit"], e1["compute_limit"]) == (20.0, 100.0, None)
    assert status["plans"][0]["cost"] == 4.2
    assert status["counts"]["clients_planned"] == 2
    assert json.loads(json.dumps(status)) == status
    world.run(13.5)
    assert world.manager.status(world.now)["servers"][0]["state"] == "away"


def test_a_server_ahead_of_a_manager_that_lost_its_store_is_noticed() -> None:
    world = World()
    world.say("e2", Hello(9))
    assert world.manager.highest_revision() == 9


def test_a_lying_server_cannot_use_up_the_revisions() -> None:
    world = World()
    world.say("e2", Hello((1 << 53) - 1))
    assert world.manager.highest_revision() == 0
    assert world.manager.refused == 1


def test_each_server_is_told_what_concerns_it() -> None:
    state = first_state()
    edge, other, cloud = (
        make_orders(state, DIRECTORY, name, "cloud", START) for name in ("e1", "e2", "cloud")
    )
    a = ClientOrder("a", "e1", {"t": "cloud", "u": "e2"})
    b = ClientOrder("b", "e2")
    assert (edge.clients, other.clients, cloud.clients) == ((a,), (a, b), ())
    assert [one.topic for one in edge.topics] == ["t", "u"]  # those of a, whose home it is
    assert [one.topic for one in other.topics] == ["u"]
    assert cloud.topics == (TopicOrder("t", 5, ("e1", "cloud"), version=1),)
    assert (edge.server, edge.issued_s, len(edge.servers)) == ("e1", int(START), 3)


def test_a_topic_knows_when_it_changed_last_and_who_had_it() -> None:
    planned = PLAN.topics[0]
    state = first_state()

    def adopt(topic: PlannedTopic, number: int) -> TopicOrder:
        nonlocal state
        plan = SitePlan((topic,), PLAN.clients)
        state = with_site(state, SERVERS, plan, PlanVersion(number, START, None, None, None))
        return make_orders(state, PlanDirectory(plan), "e1", "cloud", START).topics[0]

    same = adopt(replace(planned, spool=9), 2)
    assert (same.version, same.moved_from, same.spool) == (1, (), 9)
    streams = adopt(replace(planned, streams="2"), 3)
    assert (streams.version, streams.moved_from) == (3, ())
    brokers = adopt(replace(planned, edge_brokers=("e2",), delegates=False), 4)
    assert (brokers.version, brokers.moved_from) == (4, ("e1", "cloud"))
    kept = adopt(replace(planned, edge_brokers=("e2",), delegates=False), 5)
    assert (kept.version, kept.moved_from) == (4, ("e1", "cloud"))


def test_clients_that_left_are_named_with_their_new_homes() -> None:
    directory = PlanDirectory(PLAN)
    directory.replace(SitePlan((), [PlannedClient("a", "e2", {}), PlannedClient("b", "e2", {})]))
    assert make_orders(first_state(), directory, "e1", "cloud", START).moved == {"a": "e2"}


def test_a_server_hears_where_a_guest_belongs() -> None:
    world = World()
    world.say("e2", WhereIs("a"))
    world.say("e2", WhereIs("nobody"))
    world.run(1)
    a = ClientOrder("a", "e1", {"t": "cloud", "u": "e2"})
    assert world.answers == [ClientIs("a", a), ClientIs("nobody", None)]


def test_what_was_revoked_goes_out_at_once_and_signed() -> None:
    world = World()
    for name in SERVERS:
        world.say(name, Hello(1))
    world.change()
    world.run(0.1)
    entry = Revocation("client", "thief", 4, int(START) + 100)
    world.install(with_revocations(world.manager.state, [entry], START))
    world.run(0.1)
    for name in SERVERS:
        assert world.revisions(name) == [2, 3]
        trust = SiteTrust(SIGNER.public_key)
        assert trust.revoke(world.orders[name][-1].revocations) == (entry,)


def test_revocations_only_grow_and_their_version_only_rises() -> None:
    entry = Revocation("client", "thief", 4, 2_000)
    state = with_revocations(first_state(), [entry], 1_000)
    assert (state.revision, state.revocations.version) == (2, 1)
    assert with_revocations(state, [entry], 1_000) is state
    assert with_revocations(state, [Revocation("client", "old", 4, 900)], 1_000) is state
    above = with_revocations(state, [], 1_000, above=7)
    assert (above.revocations.version, above.revocations.entries) == (8, (entry,))
