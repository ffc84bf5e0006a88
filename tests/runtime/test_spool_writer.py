"""The writer thread over a disk that fails on command."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable

import pytest

from nearcast.errors import SpoolLostError
from nearcast.runtime.spool_writer import SpoolWriter
from nearcast.spool.changes import Group, TopicChange
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.testing.fake_disk import FakeDisk


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
        self, disk: FakeDisk, clock: Callable[[], float] = lambda: 0.0, gather_s: float = 0.0
    ) -> None:
        self.rounds: list[list[int]] = []
        self.lost: list[Exception] = []
        self.changed = asyncio.Event()
        self.thread = threading.get_ident()
        self.writer = SpoolWriter(
            SpoolLog.open(disk, SpoolSettings(segment_bytes=1 << 16)),
            asyncio.get_running_loop(),
            self._on_committed,
            self._on_lost,
            clock=clock,
            gather_s=gather_s,
            retry_s=0.01,
            seal_after_s=0.01,
        )

    def _on_committed(self, tickets: list[int]) -> None:
        assert threading.get_ident() == self.thread
        self.rounds.append(tickets)
        self.changed.set()

    def _on_lost(self, error: Exception) -> None:
        assert threading.get_ident() == self.thread
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


def test_what_comes_during_a_sync_is_committed_in_one_round_after_it() -> None:
    async def main() -> None:
        disk, now = GatedDisk(), [100.0]
        shop = Shop(disk, lambda: now[0])
        disk.gate.clear()
        disk.at_gate.clear()
        shop.writer.append(group(1))
        await asyncio.to_thread(disk.at_gate.wait, 60)
        now[0] = 103.0
        for ticket in range(2, 7):
            shop.writer.append(group(ticket))
        assert shop.writer.uncommitted == 6
        assert shop.writer.oldest_wait_s() == 3.0
        assert shop.writer.oldest_wait_s(105.0) == 5.0
        assert shop.rounds == []
        disk.gate.set()
        await shop.until(lambda: len(shop.tickets) == 6)
        assert shop.tickets == [1, 2, 3, 4, 5, 6]
        assert (shop.writer.uncommitted, shop.writer.oldest_wait_s()) == (0, 0.0)
        assert len(shop.writer.take_sync_seconds()) == 2
        assert shop.writer.take_sync_seconds() == []
        await asyncio.to_thread(shop.writer.close)
        assert records_on(disk) == [str(ticket).encode() for ticket in range(1, 7)]

    asyncio.run(main())


def test_after_a_round_of_several_groups_the_next_one_gathers() -> None:
    async def main() -> None:
        disk = GatedDisk()
        shop = Shop(disk, gather_s=3600.0)
        for ticket in (1, 2):  # one by one: nobody waits
            shop.writer.append(group(ticket))
            await shop.until(lambda ticket=ticket: shop.tickets[-1:] == [ticket])  # type: ignore[misc]
        disk.gate.clear()
        disk.at_gate.clear()
        shop.writer.append(group(3))
        await asyncio.to_thread(disk.at_gate.wait, 60)
        for ticket in (4, 5):
            shop.writer.append(group(ticket))
        disk.gate.set()
        await shop.until(lambda: len(shop.tickets) == 5)
        for ticket in (6, 7):
            shop.writer.append(group(ticket))
        await asyncio.to_thread(shop.writer.close)  # which does not wait for an hour
        await shop.until(lambda: len(shop.tickets) == 7)
        assert shop.tickets == [1, 2, 3, 4, 5, 6, 7]
        assert (shop.rounds[:2], shop.rounds[-1]) == ([[1], [2]], [6, 7])

    asyncio.run(main())


def test_close_commits_what_is_queued_and_tells_it() -> None:
    async def main() -> None:
        disk = FakeDisk(seed=2)
        shop = Shop(disk)
        for ticket in range(100):
            shop.writer.append(group(ticket))
        shop.writer.close()
        shop.writer.close()
        await asyncio.sleep(0)
        assert shop.tickets == list(range(100))
        assert len(records_on(disk)) == 100

    asyncio.run(main())


def test_a_full_disk_is_told_and_tried_until_there_is_room() -> None:
    async def main() -> None:
        disk = FakeDisk(seed=3)
        shop = Shop(disk)
        shop.writer.append(group(1))
        await shop.until(lambda: shop.tickets == [1])
        for _ in range(3):
            disk.fail("write", errno.ENOSPC)
        shop.writer.append(group(2))
        shop.writer.append(group(3))
        await shop.until(lambda: len(shop.tickets) == 3)
        assert not shop.writer.is_full
        assert shop.lost == []
        shop.writer.close()
        assert records_on(disk) == [b"1", b"2", b"3"]

    asyncio.run(main())


def test_a_disk_that_stays_full_does_not_hold_up_the_end() -> None:
    async def main() -> None:
        disk = FakeDisk(seed=4)
        shop = Shop(disk)
        for _ in range(10_000):
            disk.fail("write", errno.ENOSPC)
        shop.writer.append(group(1))
        await asyncio.to_thread(shop.writer.close)
        assert shop.writer.is_full
        assert (shop.tickets, shop.lost, shop.writer.uncommitted) == ([], [], 1)

    asyncio.run(main())


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failed_write_or_sync_ends_it_and_acknowledges_nothing(operation: str) -> None:
    async def main() -> None:
        disk = FakeDisk(seed=5)
        shop = Shop(disk)
        shop.writer.append(group(1))
        await shop.until(lambda: shop.tickets == [1])
        disk.fail("write" if operation == "write" else "sync", errno.EIO)
        shop.writer.append(group(2))
        await shop.until(lambda: shop.lost != [])
        assert isinstance(shop.lost[0], SpoolLostError)
        shop.writer.append(group(3))  # the server is on its way out, and need not know
        shop.writer.close()
        await asyncio.sleep(0)
        assert (shop.tickets, len(shop.lost)) == ([1], 1)
        assert b"1" in records_on(disk)

    asyncio.run(main())


def test_it_makes_a_spare_at_once_and_seals_when_nothing_happens() -> None:
    async def main() -> None:
        disk = GatedDisk()
        shop = Shop(disk)
        shop.writer.append(group(1))
        # of the new segment, of the round, and one that nobody asked for: the seal
        for _ in range(3):
            assert await asyncio.to_thread(disk.synced.acquire, timeout=60)
        assert shop.tickets == [1]
        assert len(disk.names()) == 2
        shop.writer.close()
        assert not disk.synced.acquire(blocking=False)

    asyncio.run(main())
