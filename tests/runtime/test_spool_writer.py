"""The writer of the spool: over a disk that fails on command in a thread, and as a process."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nearcast.errors import SpoolError, SpoolFullError, SpoolLostError
from nearcast.links.real_disk import RealDisk
from nearcast.runtime.spool_process import SpoolProcessSettings, serve
from nearcast.runtime.spool_writer import SpoolWriter
from nearcast.spool.changes import Group, Position, TopicChange
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.spool.recovery import Recovery
from nearcast.testing.fake_disk import FakeDisk
from runtime.thread_helper import ThreadHelper


def group(ticket: int) -> Group:
    record = str(ticket).encode()
    return Group(ticket, (TopicChange("t", (record,), live=1_000),))


class GatedDisk(FakeDisk):
    """A disk whose syncs wait until a test opens the gate."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.gate, self.at_gate = threading.Event(), threading.Event()
        self.gate.set()
        self.synced = threading.Semaphore(0)

    def sync(self, name: str) -> None:
        self.at_gate.set()
        self.gate.wait(60)
        super().sync(name)
        self.synced.release()


class Shop:
    """A writer, and what it said."""

    def __init__(
        self,
        disk: FakeDisk | Path,
        clock: Callable[[], float] = lambda: 0.0,
        gather_s: float = 0.0,
        segment_bytes: int = 1 << 16,
        gather_above_hz: float = 0.0,
    ) -> None:
        self.rounds: list[list[int]] = []
        self.lost: list[Exception] = []
        self.changed = asyncio.Event()
        settings = SpoolProcessSettings(
            str(disk), segment_bytes, gather_s, gather_above_hz, retry_s=0.01, seal_after_s=0.01
        )

        def launch(
            on_frames: Callable[[list[bytes]], None], on_lost: Callable[[str], None]
        ) -> ThreadHelper:
            assert isinstance(disk, FakeDisk)
            return ThreadHelper(
                lambda theirs: serve(theirs, lambda: disk, settings), on_frames, on_lost
            )

        self.writer = SpoolWriter(
            settings,
            self._on_committed,
            self._on_lost,
            clock=clock,
            launch=launch if isinstance(disk, FakeDisk) else None,
        )

    def _on_committed(self, tickets: list[int]) -> None:
        self.rounds.append(tickets)
        self.changed.set()

    def _on_lost(self, error: Exception) -> None:
        self.lost.append(error)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    @property
    def tickets(self) -> list[int]:
        return [ticket for one in self.rounds for ticket in one]


def records_on(disk: FakeDisk) -> list[bytes]:
    disk.restart()
    return list(SpoolLog.open(disk).recovered.state.topic("t").records)


def recovered_from(folder: Path) -> Recovery:
    disk = RealDisk(folder, wait_s=60.0)
    found = SpoolLog.open(disk, SpoolSettings(segment_bytes=1 << 16)).recovered
    disk.close()
    return found


def test_what_comes_during_a_sync_is_committed_in_one_round_after_it() -> None:
    async def main() -> None:
        disk, now = GatedDisk(), [100.0]
        shop = Shop(disk, lambda: now[0])
        await shop.writer.start()
        disk.gate.clear()
        disk.at_gate.clear()
        shop.writer.append_all([group(1)])
        await asyncio.to_thread(disk.at_gate.wait, 60)
        now[0] = 103.0
        for ticket in range(2, 7):
            shop.writer.append_all([group(ticket)])
        assert shop.writer.uncommitted == 6
        assert shop.writer.oldest_wait_s() == 3.0
        assert shop.writer.oldest_wait_s(105.0) == 5.0
        assert shop.rounds == []
        await asyncio.sleep(0)
        disk.gate.set()
        await shop.until(lambda: len(shop.tickets) == 6)
        assert shop.tickets == [1, 2, 3, 4, 5, 6]
        assert (shop.writer.uncommitted, shop.writer.oldest_wait_s()) == (0, 0.0)
        assert len(shop.writer.take_sync_seconds()) == 2
        assert shop.writer.take_sync_seconds() == []
        await shop.writer.close()
        assert records_on(disk) == [str(ticket).encode() for ticket in range(1, 7)]

    asyncio.run(main())


def test_after_a_round_of_several_groups_the_next_one_gathers() -> None:
    async def main() -> None:
        disk = GatedDisk()
        shop = Shop(disk, gather_s=3600.0)
        await shop.writer.start()
        for ticket in (1, 2):  # one by one: nobody waits
            shop.writer.append_all([group(ticket)])
            await shop.until(lambda ticket=ticket: shop.tickets[-1:] == [ticket])  # type: ignore[misc]
        shop.writer.append_all([group(3), group(4)])
        await shop.until(lambda: len(shop.tickets) == 4)
        for ticket in (5, 6):
            shop.writer.append_all([group(ticket)])
            await asyncio.sleep(0)
        await shop.writer.close()  # which does not wait for an hour
        assert shop.rounds == [[1], [2], [3, 4], [5, 6]]

    asyncio.run(main())


def test_no_round_waits_for_another_one_while_few_groups_come() -> None:
    async def main() -> None:
        shop = Shop(GatedDisk(), gather_s=3600.0, gather_above_hz=100.0)
        await shop.writer.start()
        for ticket in range(1, 16, 3):  # a group counts for 0.2 s
            shop.writer.append_all([group(ticket), group(ticket + 1), group(ticket + 2)])
            await shop.until(lambda ticket=ticket: shop.tickets[-1:] == [ticket + 2])  # type: ignore[misc]
        shop.writer.append_all([group(ticket) for ticket in range(16, 76)])
        await shop.until(lambda: shop.tickets[-1:] == [75])
        for ticket in (76, 77):  # now there are many: these wait, until it is closed
            shop.writer.append_all([group(ticket)])
            await asyncio.sleep(0)
        await shop.writer.close()
        assert shop.rounds[-1] == [76, 77]

    asyncio.run(main())


def test_a_disk_that_stands_still_does_not_stop_the_server() -> None:
    async def main() -> None:
        disk = GatedDisk()
        shop = Shop(disk)
        await shop.writer.start()
        disk.gate.clear()
        large = bytes(100_000)
        for ticket in range(100):  # far more than the socket takes
            shop.writer.append_all([Group(ticket, (TopicChange("t", (large,), live=1),))])
            await asyncio.sleep(0)
        assert (shop.writer.uncommitted, shop.rounds) == (100, [])
        assert shop.writer._helper.link.unsent_bytes > 0
        disk.gate.set()
        await shop.writer.close()
        assert shop.tickets == list(range(100))

    asyncio.run(main())


def test_the_groups_of_a_pass_follow_those_before_them() -> None:
    async def main() -> None:
        shop = Shop(FakeDisk(seed=9))
        await shop.writer.start()
        shop.writer.append_all([group(1)])
        shop.writer.append_all([group(2), group(3)])
        shop.writer.append_all([group(4)])
        assert shop.writer.uncommitted == 4
        await shop.writer.close()
        assert shop.tickets == [1, 2, 3, 4]

    asyncio.run(main())


def test_close_commits_what_is_queued_and_tells_it() -> None:
    async def main() -> None:
        disk = FakeDisk(seed=2)
        shop = Shop(disk)
        await shop.writer.start()
        for ticket in range(100):
            shop.writer.append_all([group(ticket)])
        await shop.writer.close()
        await shop.writer.close()
        assert (shop.tickets, shop.lost) == (list(range(100)), [])
        assert len(records_on(disk)) == 100

    asyncio.run(main())


def test_a_full_disk_is_told_and_tried_until_there_is_room() -> None:
    async def main() -> None:
        disk = FakeDisk(seed=3)
        shop = Shop(disk)
        await shop.writer.start()
        shop.writer.append_all([group(1)])
        await shop.until(lambda: shop.tickets == [1])
        for _ in range(3):
            disk.fail("write", errno.ENOSPC)
        shop.writer.append_all([group(2)])
        shop.writer.append_all([group(3)])
        await shop.until(lambda: len(shop.tickets) == 3)
        assert not shop.writer.is_full
        assert shop.lost == []
        await shop.writer.close()
        assert records_on(disk) == [b"1", b"2", b"3"]

    asyncio.run(main())


def test_a_disk_that_stays_full_does_not_hold_up_the_end() -> None:
    async def main() -> None:
        disk = FakeDisk(seed=4)
        shop = Shop(disk)
        await shop.writer.start()
        for _ in range(10_000):
            disk.fail("write", errno.ENOSPC)
        shop.writer.append_all([group(1)])
        await shop.writer.close()
        assert shop.writer.is_full
        assert (shop.tickets, shop.lost, shop.writer.uncommitted) == ([], [], 1)

    asyncio.run(main())


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failed_write_or_sync_ends_it_and_acknowledges_nothing(operation: str) -> None:
    async def main() -> None:
        disk = FakeDisk(seed=5)
        shop = Shop(disk)
        await shop.writer.start()
        shop.writer.append_all([group(1)])
        await shop.until(lambda: shop.tickets == [1])
        disk.fail("write" if operation == "write" else "sync", errno.EIO)
        shop.writer.append_all([group(2)])
        await shop.until(lambda: shop.lost != [])
        assert isinstance(shop.lost[0], SpoolLostError)
        shop.writer.append_all([group(3)])  # the server is on its way out, and need not know
        await shop.writer.close()
        assert (shop.tickets, len(shop.lost)) == ([1], 1)
        assert b"1" in records_on(disk)

    asyncio.run(main())


def test_it_makes_a_spare_at_once_and_seals_when_nothing_happens() -> None:
    async def main() -> None:
        disk = GatedDisk()
        shop = Shop(disk)
        await shop.writer.start()
        shop.writer.append_all([group(1)])
        # of the new segment and its end, of the round, and one that nobody asked for: the seal
        for _ in range(4):
            assert await asyncio.to_thread(disk.synced.acquire, timeout=60)
        await shop.until(lambda: shop.tickets == [1])
        assert len(disk.names()) == 3
        await shop.writer.close()
        assert not disk.synced.acquire(blocking=False)

    asyncio.run(main())


def test_a_process_recovers_what_another_one_wrote(tmp_path: Path) -> None:
    async def main() -> None:
        large, positions = bytes(1000), tuple(Position(f"p{n}", 1, n) for n in range(20_000))
        first = Shop(tmp_path)
        assert (await first.writer.start()).state.topics == {}
        records = tuple(large + str(number).encode() for number in range(5_000))
        change = TopicChange("t", records, len(records), positions, b"state")
        first.writer.append_all([Group(7, (change, TopicChange("u", (b"one",), 1)))])
        await first.writer.close()
        assert first.rounds == [[7]]
        second = Shop(tmp_path)
        found = await second.writer.start()
        topic = found.state.topics["t"]
        assert tuple(topic.records) == records
        assert (tuple(topic.positions.values()), topic.state) == (positions, b"state")
        assert list(found.state.topics["u"].records) == [b"one"]
        assert found.segments
        assert found.damages == []
        await second.writer.close()

    asyncio.run(main())


def test_files_of_others_are_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notes.txt").write_text("not yours")
    (tmp_path / "lost+found").mkdir()

    async def main() -> None:
        shop = Shop(tmp_path)
        await shop.writer.start()
        await shop.writer.close()

    asyncio.run(main())
    (record,) = [one for one in caplog.records if one.message == "foreign_files_in_spool"]
    assert record.__dict__["fields"] == {"count": 2, "first": "lost+found"}
    assert (tmp_path / "notes.txt").read_text() == "not yours"


def test_a_folder_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    async def main() -> None:
        with pytest.raises(SpoolError, match="cannot be used"):
            await Shop(tmp_path / "file").writer.start()

    asyncio.run(main())


def test_a_process_that_is_killed_is_the_end_of_the_spool(tmp_path: Path) -> None:
    async def main() -> None:
        shop = Shop(tmp_path)
        await shop.writer.start()
        os.kill(shop.writer._helper.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        await shop.until(lambda: shop.lost != [])
        shop.writer.append_all([group(1)])
        await shop.writer.close()
        assert isinstance(shop.lost[0], SpoolLostError)
        assert shop.tickets == []

    asyncio.run(main())


_KILLED_SERVER = """
import asyncio, os, signal, sys
from nearcast.runtime.spool_process import SpoolProcessSettings
from nearcast.runtime.spool_writer import SpoolWriter
from nearcast.spool.changes import Group, TopicChange

async def main():
    writer = SpoolWriter(SpoolProcessSettings(sys.argv[1], 1 << 16), print, print)
    await writer.start()
    for number in range(500):
        writer.append_all([Group(number, (TopicChange("t", (b"%d" % number,), 1000),))])
    await asyncio.sleep(0)  # handed over, not yet synced
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_what_was_handed_over_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED_SERVER, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    found = recovered_from(tmp_path)  # waits for the lock of the process that finishes
    assert list(found.state.topic("t").records) == [b"%d" % number for number in range(500)]


def test_a_full_disk_at_the_start_is_told_apart_from_a_spool_that_cannot_be_used() -> None:
    async def main() -> None:
        disk = FakeDisk(1)
        disk.capacity_bytes = 1_000
        with pytest.raises(SpoolFullError, match="make room"):
            await Shop(disk).writer.start()

    asyncio.run(main())
