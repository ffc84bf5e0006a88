"""The manager's store: what was saved is there, whatever happened to the process or the file."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nearcast.errors import ConfigError, OutputError
from nearcast.runtime import client_counts
from nearcast.runtime.manager_store import ManagerStore
from nearcast.runtime.next_plan import plan_rows
from nearcast.server.enrolment import EnrolledClient
from nearcast.server.manager_state import (
    ManagerState,
    PlanVersion,
    SiteServer,
    with_revocations,
    with_site,
)
from nearcast.server.orders_from_plan import DELEGATED, PlannedClient, PlannedTopic, SitePlan
from nearcast.server.site_orders import ClientOrder, ServerOrder
from nearcast.trust.revocations import Revocation
from nearcast.trust.rights import Rights

SERVERS = {
    "e2": SiteServer(
        ServerOrder("e2", "::1", 7002, b"2" * 32, "::2", 7102, b"signed"),
        (0.1, -2.5),
        640.0,
        3200.0,
        100,
    ),
    "e1": SiteServer(ServerOrder("e1", "10.0.0.1", 7001, b"1" * 32), (4.0, 5.0)),
    "cloud": SiteServer(ServerOrder("cloud", "", 0, b"c" * 32, "cloud.example", 7100)),
}
PLAN = SitePlan(
    topics=(
        PlannedTopic("z", 7, ("e2", "e1"), True, "digest"),
        PlannedTopic("a topic", 1, (), True),
    ),
    clients=[
        PlannedClient("b", "e2", {"z": "e1", "a topic": DELEGATED}, ("z", "a topic")),
        PlannedClient("ä", "e1", {}, ("z",)),
    ],
)
NEW = EnrolledClient("new", b"n" * 32, "e1", (1.0, 1.0), 7, 99, Rights(("a/#",)), b"signed")


def version(number: int) -> PlanVersion:
    return PlanVersion(number, 1e9 + number, "ratio", "reloc", 4.25, {"Y1": 1.5, "Y2": None})


def full_state() -> ManagerState:
    state = with_site(None, SERVERS, PLAN, version(1))
    return with_revocations(state, [Revocation("client", "thief", 3, 2_000)], 1_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "manager.db"


def test_a_new_store_has_no_state(path: Path) -> None:
    store = ManagerStore(path)
    assert store.load() is None
    assert store.fact("source") is None
    store.close()


def test_all_that_was_saved_comes_back(path: Path) -> None:
    state = full_state()
    store = ManagerStore(path)
    store.save_site(state, PLAN, source="abc", settings="def")
    store.save_revocations(state)
    store.close()
    store = ManagerStore(path)
    loaded = store.load()
    assert loaded == state
    assert list(loaded.servers) == list(state.servers)
    assert loaded.servers["e1"].storage == math.inf
    assert (store.fact("source"), store.fact("settings")) == ("abc", "def")
    store.close()


def test_later_changes_come_back(path: Path) -> None:
    store = ManagerStore(path)
    state = full_state()
    store.save_site(state, PLAN, source="abc")
    store.save_clients([NEW], state)
    assert store.load() == state
    assert store.clients.enrolled("new") == NEW
    assert store.clients.owner_of(b"n" * 32) == "new"
    other = replace(PLAN, topics=PLAN.topics[:1])
    state = with_site(state, SERVERS, other, version(2))
    store.save_site(state, other)
    moved = {**SERVERS, "e1": replace(SERVERS["e1"], order=ServerOrder("e1", "h", 1, b"0" * 32))}
    state = replace(state, servers=moved, revision=state.revision + 1)
    store.save_servers(state)
    assert store.load() == state
    store.save_revision(99)
    assert store.load() == replace(state, revision=99)
    assert store.fact("source") == "abc"
    store.close()
    assert path.stat().st_mode & 0o077 == 0


def test_a_server_is_told_its_own_clients_and_topics(path: Path) -> None:
    store = ManagerStore(path)
    store.save_site(full_state(), PLAN)
    store.save_clients([NEW, EnrolledClient("b", b"b" * 32, "e2")], full_state())
    clients = store.clients
    b = ClientOrder("b", "e2", {"z": "e1", "a topic": DELEGATED})
    assert list(clients.clients_of("e2")) == [b]
    assert list(clients.clients_of("e1")) == [
        ClientOrder("ä", "e1"),
        b,  # it publishes here
        ClientOrder("new", "e1"),
    ]
    assert list(clients.clients_of("cloud")) == []
    assert (clients.topics_of("e1"), clients.topics_of("cloud")) == ({"z"}, set())
    assert (clients.find("b"), clients.find("nobody")) == (b, None)
    found = clients.find("new")
    assert found is not None
    assert (found.home, clients.counts()) == ("e1", (2, 2))
    store.close()


def test_another_plan_moves_clients_and_those_whose_home_is_gone(path: Path) -> None:
    store = ManagerStore(path)
    state = full_state()
    store.save_site(state, PLAN)
    store.save_clients([NEW], state)
    servers = {name: SERVERS[name] for name in ("e2", "cloud")}
    plan = SitePlan((), [PlannedClient("b", "e2", {}), PlannedClient("ä", "e2", {})])
    state = with_site(state, servers, plan, version(2))
    store.save_site(state, plan)
    clients = store.clients
    assert (clients.left("e1"), clients.left("e2")) == ({"ä": "e2"}, {})
    assert {one.client for one in clients.clients_of("e2")} == {"b", "ä", "new"}
    store.save_site(with_site(state, SERVERS, plan, version(3)), plan)
    assert clients.left("e1") == {}
    store.close()


def test_a_change_that_fails_changes_nothing(path: Path) -> None:
    store = ManagerStore(path)
    state = full_state()
    store.save_site(state, PLAN)
    store.save_clients([NEW], state)
    records = [EnrolledClient("x", b"x" * 32, "e1"), EnrolledClient("y", b"n" * 32, "e1")]
    with pytest.raises(OutputError, match=r"manager.db: the change cannot be written: UNIQUE"):
        store.save_clients(records, replace(state, revision=50))
    assert store.load() == state
    assert store.clients.counts() == (2, 1)
    store.close()


OTHER = SitePlan(
    topics=(PlannedTopic("z", 7, ("e1",), False, "other"),),
    clients=[PlannedClient("b", "e1", {}, ("z",)), PlannedClient("new", "e1", {}, ("z",))],
)


def test_a_plan_is_in_force_wholly_or_not_at_all(path: Path) -> None:
    store = ManagerStore(path)
    before = with_site(None, SERVERS, PLAN, version(1))
    store.save_site(before, PLAN)
    after = with_site(before, SERVERS, OTHER, version(2))
    for _ in range(2):  # what an attempt that ended early has left does not disturb the next
        written = store.begin_plan(2)
        written.add_topics(after.topics)
        for rows in plan_rows(OTHER.clients):
            written.add(rows)
        while written.count_enrolled():
            pass
        assert store.load() == before
        assert {one.client for one in store.clients.clients_of("e2")} == {"b"}
        store.close()
        store = ManagerStore(path)  # as after a crash
        assert store.load() == before
        assert store.clients.counts() == (2, 0)
        while store.sweep():
            pass
    store.save_site(after, OTHER)
    while store.sweep():
        pass
    assert store.load() == after
    assert (store.clients.left("e2"), store.clients.counts()) == ({"b": "e1"}, (2, 0))
    store.close()
    database = sqlite3.connect(path)
    for table in ("homes", "visits", "topics_at", "topics"):
        assert database.execute(f"SELECT count(*) FROM {table} WHERE plan <> 2").fetchone() == (0,)
    database.close()


@pytest.mark.parametrize("slices", range(6))
def test_clients_that_enrol_while_a_plan_is_written_are_counted_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, slices: int
) -> None:
    monkeypatch.setattr(client_counts, "_ROWS_AT_ONCE", 2)
    store = ManagerStore(path)
    state = full_state()
    store.save_site(state, PLAN)

    def client(name: str, home: str) -> EnrolledClient:
        return EnrolledClient(name, name.encode() * 16, home, (1.0, 1.0))

    names = ("b", "c1", "c2", "c3", "c4", "c5", "new", "ä")
    store.save_clients([client(name, "e1") for name in names], state)
    written = store.begin_plan(2)
    for rows in plan_rows(OTHER.clients):
        written.add(rows)
    for _ in range(slices):
        written.count_enrolled()
    store.save_clients([client(name, "e2") for name in ("c1", "c5", "b", "c9")], state)
    with pytest.raises(OutputError):  # counts nobody
        store.save_clients(
            [client("d1", "e2"), replace(NEW, client="c1", public_key=b"c2" * 16)], state
        )
    while written.count_enrolled():
        pass
    store.save_clients([client("d2", "e2"), client("d2", "e1")], state)
    store.adopt(with_site(state, SERVERS, OTHER, version(2)), written)
    taken = +written.counts.taken
    store.close()
    store = ManagerStore(path)
    assert taken == store.clients.home_choice(SERVERS)._taken == {"e1": 2 + 5, "e2": 3}
    assert store.clients.counts() == (2, 10)
    store.close()


_CHILD = """
import sys
from pathlib import Path
from nearcast.runtime.manager_store import ManagerStore
from dataclasses import replace
from nearcast.server.enrolment import EnrolledClient
store = ManagerStore(Path(sys.argv[1]))
state = store.load()
number = 0
while True:
    number += 1
    client = EnrolledClient(f"c{number}", number.to_bytes(32, "big"), "e1")
    store.save_clients([client], replace(state, revision=number))
    print(number, flush=True)
"""


def test_what_a_killed_manager_confirmed_is_there(path: Path) -> None:
    store = ManagerStore(path)
    store.save_site(with_site(None, SERVERS, PLAN, version(1)), PLAN)
    store.close()
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        confirmed = 0
        while confirmed < 30:
            confirmed = int(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
        confirmed = max([confirmed, *(int(line) for line in child.stdout if line.endswith("\n"))])
    store = ManagerStore(path)
    state = store.load()
    assert state is not None
    # one more may have been written, and not yet confirmed
    assert state.revision in (confirmed, confirmed + 1)
    for number in range(1, state.revision + 1):
        assert store.clients.enrolled(f"c{number}") is not None
    assert store.clients.counts() == (2, state.revision)
    store.close()


def test_a_second_manager_is_refused(path: Path) -> None:
    store = ManagerStore(path)
    with pytest.raises(ConfigError, match=r"manager.db: another manager uses this store"):
        ManagerStore(path)
    store.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"something else entirely\n" * 100)
    with pytest.raises(ConfigError, match=r"manager.db: no usable store of a manager"):
        ManagerStore(path)
    assert path.read_bytes() == b"something else entirely\n" * 100


def test_a_damaged_store_is_refused(path: Path) -> None:
    store = ManagerStore(path)
    store.save_site(full_state(), PLAN)
    store.close()
    content = bytearray(path.read_bytes())
    content[5000:-100] = b"\xaa" * (len(content) - 5100)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"manager.db: no usable store of a manager"):
        ManagerStore(path)


def test_another_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE clients (name TEXT)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"manager.db: a database, but not a store"):
        ManagerStore(path)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_nearcast_is_refused(path: Path) -> None:
    ManagerStore(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 999")
    database.close()
    with pytest.raises(ConfigError, match=r"written by a newer nearcast \(schema 999"):
        ManagerStore(path)


def test_a_place_where_no_file_can_be_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file/manager.db: the manager's store cannot be opened"):
        ManagerStore(tmp_path / "file" / "manager.db")
