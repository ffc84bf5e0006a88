from __future__ import annotations

import asyncio
import statistics
from pathlib import Path

import numpy as np
import pytest

from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages.ingest import ingest_publications
from nearcast.pipeline.stages.members import MembersSettings, find_members
from nearcast.pipeline.workspace import Workspace
from nearcast.runtime.event_log import EventLog
from nearcast.runtime.event_log_frames import EventLogSettings
from nearcast.server.log_rows import LogAction, PublicationRow

HOMES = ("e1", "e2", "e3")
ACTIONS: tuple[LogAction, ...] = ("publish", "subscribe", "unsubscribe", "report")


def random_site_rows(count: int) -> list[PublicationRow]:
    """Return what 15 clients, now at this home and now at that, say of 7 topics."""
    rng = np.random.default_rng(12)
    rows: list[PublicationRow] = []
    for number in range(count):
        action = ACTIONS[rng.choice(4, p=[0.35, 0.3, 0.15, 0.2])]
        is_publication = action == "publish"
        rows.append(
            PublicationRow(
                topic=None if action == "report" else f"t{rng.integers(7)}",
                client=f"c{rng.integers(15)}",
                time_us=1_700_000_000_000_000 + number * 125_000,
                x_km=float(rng.uniform(0, 9)),
                y_km=float(rng.uniform(0, 9)),
                size=int(rng.integers(1, 500)) if is_publication else 0,
                action=action,
                sequence=number if is_publication else 0,
                epoch=2,
                durable=is_publication,
                server=HOMES[rng.integers(3)],
            )
        )
    return rows


def write_site_log(folder: Path, rows: list[PublicationRow]) -> None:
    async def write() -> None:
        for home in HOMES:
            log = EventLog(EventLogSettings(str(folder), home, segment_rows=30))
            log.start()
            log.add([row for row in rows if row.server == home], [])
            await log.close()

    asyncio.run(write())
    # What a server writes just now is not there yet.
    (folder / "publications" / ".e1-20260102T030405000000Z-000001.parquet").write_bytes(b"PAR1")


def test_members_of_a_site_log_are_those_of_plain_loops(
    workspace: Workspace, tmp_path: Path
) -> None:
    rows = random_site_rows(400)
    # clients repeat what is not acknowledged, at this home or another one; places are as before
    sent = [row for row in rows if row.action == "publish"]
    again = [row._replace(server=HOMES[number % 3]) for number, row in enumerate(sent[::5])]
    write_site_log(tmp_path / "log", [*rows, *again, *again[:3]])
    rows_in = len(rows) + len(again) + 3
    ingested, counted = StageRecord("ingest"), StageRecord("members")
    ingest_publications(workspace, [tmp_path / "log" / "publications"], ingested)
    assert (ingested.rows_in, ingested.rows_out, ingested.quarantined) == (rows_in, rows_in, 0)
    assert ingested.notes["files"] > len(HOMES)
    find_members(workspace, MembersSettings(), counted)
    assert counted.notes["repeated_publications"] == len(again) + 3

    messages: dict[tuple[str, str], int] = {}
    subscribes: dict[tuple[str, str], bool] = {}
    for row in rows:
        if row.topic is None:
            continue
        key = row.topic, row.client
        if row.action == "publish":
            messages[key] = messages.get(key, 0) + 1
        else:
            subscribes[key] = row.action == "subscribe"
    wanted = {
        key: (key in messages, subscribes.get(key, False), messages.get(key, 0))
        for key in messages.keys() | {key for key, is_on in subscribes.items() if is_on}
    }

    clients = workspace.load("clients").toArrow().sort_by("client_index").to_pylist()
    topics = workspace.load("topics").toArrow().sort_by("topic_index").to_pylist()
    found = {
        (topics[row["topic_index"]]["topic_id"], clients[row["client_index"]]["client_id"]): (
            row["publishes"],
            row["subscribes"],
            row["messages"],
        )
        for row in workspace.load("members").toArrow().to_pylist()
    }
    assert found == wanted
    for client in clients:
        own = [row for row in (*rows, *again, *again[:3]) if row.client == client["client_id"]]
        assert client["reports"] == len(own)
        assert client["x_km"] == pytest.approx(statistics.median(row.x_km for row in own))
        assert client["y_km"] == pytest.approx(statistics.median(row.y_km for row in own))
    # A site's limits count messages, so that the bytes of payloads do not count.
    assert {topic["mean_size"] for topic in topics} == {1.0}
