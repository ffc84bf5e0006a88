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
from nearcast.runtime.manager_store import ManagerStore
from nearcast.server.manager_state import (
    EnrolledClient,
    Enrolment,
    ManagerState,
    PlanVersion,
    SiteServer,
    enrol,
    with_site,
)
from nearcast.server.orders_from_plan import PlannedTopic, SitePlan
from nearcast.server.site_orders import ServerOrder

SERVERS = {
    "e2": SiteServer(
        ServerOrder("e2", "::1", 7002, b"2" * 32, "::2", 7102), (0.1, -2.5), 640.0, 3200.0, 100
    ),
    "e1": SiteServer(ServerOrder("e1", "10.0.0.1", 7001, b"1" * 32), (4.0, 5.0)),
    "cloud": SiteServer(ServerOrder("cloud", "", 0, b"c" * 32, "cloud.example", 7100)),
}
PLAN = SitePlan(
    topics=(
        PlannedTopic("z", 7, ("e2", "e1"), True, {"e2": 1 / 3, "e1": 1.0}),
        PlannedTopic("a topic", 1, (), True, {"e1": 0.0}),
    ),
    homes={"b": "e2", "ä": "e1"},
    publish={"b": {"z": "e1"}},
)


def version(number: int) -> PlanVersion:
    return PlanVersion(number, 1e9 + number, "ratio", "reloc", 4.25, {"Y1": 1.5, "Y2": None})


def full_state() -> ManagerState:
    state = with_site(None, SERVERS, PLAN, version(1))
    asked = [Enrolment("ä", b"a" * 32), Enrolment("new", b"n" * 32, (1.0, 1.0))]
    return enrol(state, asked)[0]


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
    store.save_site(state, source="abc", settings="def")
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
    store.save_site(state, source="abc")
    state, records = enrol(
        state, [Enrolment("new", b"k" * 32, (4.0, 5.0)), Enrolment("b", b"b" * 32)]
    )
    store.save_clients(records, state.revision)
    assert store.load() == state
    state = with_site(state, SERVERS, replace(PLAN, topics=PLAN.topics[:1]), version(2))
    store.save_site(state)
    moved = {**SERVERS, "e1": replace(SERVERS["e1"], order=ServerOrder("e1", "h", 1, b"0" * 32))}
    state = replace(state, servers=moved, revision=state.revision + 1)
    store.save_servers(state)
    assert store.load() == state
    store.save_revision(99)
    assert store.load() == replace(state, revision=99)
    assert store.fact("source") == "abc"
    store.close()


def test_only_the_last_plans_keep_their_tables(path: Path) -> None:
    store = ManagerStore(path)
    state = full_state()
    store.save_site(state)
    for number in range(2, 9):
        state = with_site(state, SERVERS, PLAN, version(number))
        store.save_site(state)
    assert store.load() == state
    store.close()
    with sqlite3.connect(path) as database:
        kept = database.execute("SELECT DISTINCT version FROM homes ORDER BY 1").fetchall()
    database.close()
    assert kept == [(4,), (5,), (6,), (7,), (8,)]


def test_a_change_that_fails_changes_nothing(path: Path) -> None:
    store = ManagerStore(path)
    state = full_state()
    store.save_site(state)
    records = [EnrolledClient("x", b"x" * 32, "e1"), EnrolledClient("y", b"a" * 32, "e1")]
    with pytest.raises(OutputError, match=r"manager.db: the change cannot be written: UNIQUE"):
        store.save_clients(records, 50)
    assert store.load() == state
    store.close()


_CHILD = """
import sys
from pathlib import Path
from nearcast.runtime.manager_store import ManagerStore
from nearcast.server.manager_state import EnrolledClient
store = ManagerStore(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    store.save_clients([EnrolledClient(f"c{number}", number.to_bytes(32, "big"), "e1")], number)
    print(number, flush=True)
"""


def test_what_a_killed_manager_confirmed_is_there(path: Path) -> None:
    store = ManagerStore(path)
    store.save_site(with_site(None, SERVERS, PLAN, version(1)))
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
    assert list(state.clients) == [f"c{number + 1}" for number in range(state.revision)]
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
    store.save_site(full_state())
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
