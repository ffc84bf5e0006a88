"""Operators have a server's event log written: it is whole up to now then, and never too often."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nearcast.runtime.event_log_tables import read_publications
from nearcast.runtime.operator_requests import FLUSH_PATH, LogFlushes
from runtime.test_event_log import FailingFiles, opened, publication, run


async def ask(flushes: LogFlushes, method: str = "POST", path: str = FLUSH_PATH) -> tuple[int, Any]:
    return await flushes.answer(method, path, b"{}", {})


def test_what_came_before_the_request_is_in_files_when_it_is_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, segment_s=3600.0) as log:
            flushes = LogFlushes(log)
            log.add([publication(1)], [])
            # all but the first wait for it, and need no file of their own
            answers = await asyncio.gather(*(ask(flushes) for _ in range(20)))
            assert answers == [(200, {"rows_written": 1})] * 20
            assert read_publications(tmp_path).num_rows == 1
            assert log.counters.segments_written == 1
            log.add([publication(2)], [])
            assert await ask(flushes) == (200, {"rows_written": 2})
            assert (await ask(flushes, "GET"))[0] == 404
            assert (await ask(flushes, path="/log"))[0] == 404

    run(story)


def test_who_asks_again_and_again_waits_a_second_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_s: list[float] = []

    async def note(seconds: float) -> None:
        waited_s.append(seconds)

    async def story() -> None:
        async with opened(tmp_path, segment_s=3600.0) as log:
            flushes = LogFlushes(log)
            with monkeypatch.context() as patch:
                patch.setattr("nearcast.runtime.operator_requests.asyncio.sleep", note)
                for _ in range(3):
                    await ask(flushes)
        assert waited_s[0] < 0
        assert all(0 < one <= 1 for one in waited_s[1:])

    run(story)


def test_who_asks_and_goes_away_leaves_the_log_at_work(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, segment_s=3600.0) as log:
            log.add([publication(1)], [])
            asking = asyncio.ensure_future(ask(LogFlushes(log)))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert asking.cancelled()
            log.add([publication(2)], [])
            assert await ask(LogFlushes(log)) == (200, {"rows_written": 2})
            assert log.counters.errors == 0

    run(story)


def test_a_log_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        assert (await ask(LogFlushes(None)))[0] == 404
        async with opened(tmp_path, open_files=FailingFiles) as log:
            log.add([publication(1)], [])
            status, said = await ask(LogFlushes(log))
            assert status == 503
            assert "is not written" in said["error"]
            monkeypatch.setattr(FailingFiles, "is_full", False)

    run(story)
