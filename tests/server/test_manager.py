"""The manager among servers, on a pipe in memory and a clock that the test moves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from nearcast.errors import ConfigError
from nearcast.server.manager import Manager
from nearcast.server.manager_state import (
    EnrolledClient,
    Enrolment,
    ManagerState,
    PlanVersion,
    SiteServer,
    enrol,
    make_orders,
    with_site,
)
from nearcast.server.mesh_messages import (
    Hello,
    LoadReport,
    Manages,
    MeshMessage,
    NewOrders,
    decode_mesh,
    encode_mesh,
)
from nearcast.server.orders_from_plan import PlannedTopic, SitePlan
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.site_orders import Orders, ServerOrder

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
    topics=(PlannedTopic("t", 5, ("e1",), True, {"e1": 0.5}),),
    homes={"a": "e1", "b": "e2"},
    publish={"a": {"t": "e2"}},
)


def first_state() -> ManagerState:
    return with_site(None, SERVERS, PLAN, PlanVersion(1, START, "ratio", "nearest", 4.2))


def key(text: str) -> bytes:
    return text.encode().ljust(32, b".")


class World:
    """A manager with servers that say what the test tells them to."""

    def __init__(self) -> None:
        self.manager = Manager(first_state(), cloud="cloud", incarnation=1)
        self.now = START
        self.servers = {name: PeerChannels(1) for name in SERVERS}
        self.orders: dict[str, list[Orders]] = {name: [] for name in SERVERS}
        self.lose: Callable[[str], bool] = lambda _server: False

    def say(self, name: str, message: MeshMessage) -> None:
        self.servers[name].send("manager", encode_mesh(message))
        self._carry(name)

    def enrol(self, *names: str) -> None:
        state, _ = enrol(self.manager.state, [Enrolment(one, key(one)) for one in names])
        self.install(state)

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
                assert isinstance(message, NewOrders)
                self.orders[name].append(message.orders)

    def revisions(self, name: str) -> list[int]:
        return [orders.revision for orders in self.orders[name]]

    def _carry(self, name: str) -> None:
        for _, frame in self.servers[name].poll(self.now):
            self.deliver(self.manager.on_mesh(name, frame, self.now))

    def _wakeups(self) -> list[float]:
        channels = [one.next_wakeup() for one in self.servers.values()]
        return [*channels, self.manager.next_wakeup(self.now)]


def test_a_server_that_starts_gets_the_orders_once() -> None:
    world = World()
    world.say("e1", Hello(0))
    world.run(30)
    expected = make_orders(first_state(), "cloud")
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
    assert world.revisions("e1") == [1, 1, 1, 1]


def replace_revision(report: LoadReport, revision: int) -> LoadReport:
    return LoadReport(revision, *(getattr(report, name) for name in report.__struct_fields__[1:]))


def test_enrolments_within_a_second_go_out_together() -> None:
    world = World()
    world.say("e1", Hello(1))
    world.enrol("a")
    for name in ("b", "a", "b"):
        world.enrol(name)
        world.run(0.1)
    assert world.revisions("e1") == [2]
    world.run(1)
    assert world.revisions("e1") == [2, 5]
    assert [one.client for one in world.orders["e1"][-1].clients] == ["a", "b"]


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
    world.enrol("a")
    world.say("e1", REPORT)
    world.run(2)
    status = world.manager.status(world.now)
    e1, e2, cloud = status["servers"]
    assert (e1["state"], e2["state"], cloud["state"]) == ("up", "away", "away")
    assert (e1["sessions"], e1["local_share"], e1["report_age_s"]) == (3, 0.75, 2.0)
    assert (e1["storage_used"], e1["storage_limit"], e1["compute_limit"]) == (20.0, 100.0, None)
    assert status["plans"][0]["cost"] == 4.2
    assert status["counts"]["clients_enrolled"] == 1
    assert json.loads(json.dumps(status)) == status
    world.run(13.5)
    assert world.manager.status(world.now)["servers"][0]["state"] == "away"


def test_a_server_ahead_of_a_manager_that_lost_its_store_is_noticed() -> None:
    world = World()
    world.say("e2", Hello(9))
    assert world.manager.highest_revision() == 9


def test_a_client_of_the_plan_gets_its_home_there_and_others_the_nearest_with_room() -> None:
    state = first_state()
    asked = [
        Enrolment("a", key("a")),
        Enrolment("n1", key("n1"), (1.0, 0.0)),
        Enrolment("n2", key("n2"), (1.0, 0.0)),
        Enrolment("n3", key("n3"), (1.0, 0.0)),
    ]
    state, enrolled = enrol(state, asked)
    # e1 has room for two: a, who is in the plan, and n1; e2 for b and n2; then all are full
    assert [one.home for one in enrolled] == ["e1", "e1", "e2", "e1"]
    assert state.revision == 2


def test_a_client_that_moves_gives_its_room_to_another() -> None:
    state, _ = enrol(first_state(), [Enrolment("n1", key("n1"), (1.0, 0.0))])
    state, moved = enrol(state, [Enrolment("n1", key("new"), (9.0, 0.0))])
    assert moved == [EnrolledClient("n1", key("new"), "e2", (9.0, 0.0))]
    _, (other,) = enrol(state, [Enrolment("n2", key("n2"), (1.0, 0.0))])
    assert other.home == "e1"


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (Enrolment("n", key("n")), "'n' is not in the scenario: its place is needed"),
        (Enrolment("n", b"short", (0.0, 0.0)), "has 5 bytes, not 32"),
        (Enrolment("", key("n"), (0.0, 0.0)), "1 to 255 bytes"),
        (Enrolment("n", key("n"), (math.nan, 0.0)), "not finite"),
        (Enrolment("b", key("a")), "public key of client 'b' is another client's"),
    ],
)
def test_a_client_that_cannot_be_let_in_is_refused(asked: Enrolment, complaint: str) -> None:
    state, _ = enrol(first_state(), [Enrolment("a", key("a"))])
    with pytest.raises(ConfigError, match=complaint):
        enrol(state, [asked])


def test_enrolled_clients_follow_another_plan_and_leave_servers_that_are_gone() -> None:
    asked = [
        Enrolment("a", key("a")),
        Enrolment("n1", key("n1"), (1.0, 0.0)),
        Enrolment("n2", key("n2"), (9.0, 0.0)),
    ]
    state, _ = enrol(first_state(), asked)
    servers = {"e2": SERVERS["e2"], "e3": server("e3", 2.0), "cloud": SERVERS["cloud"]}
    plan = SitePlan((), {"a": "e2"}, {})
    after = with_site(state, servers, plan, PlanVersion(2, START, None, None, None))
    assert {name: one.home for name, one in after.clients.items()} == {
        "a": "e2",
        "n1": "e3",
        "n2": "e2",
    }
    assert (after.revision, [one.version for one in after.versions]) == (3, [1, 2])
