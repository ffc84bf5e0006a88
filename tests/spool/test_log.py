"""The log as a whole: what is written comes back, in segments that are used again."""

from __future__ import annotations

import errno
from random import Random
from threading import Thread

import pytest

from nearcast.errors import ConfigError, SpoolError, SpoolFullError, SpoolLostError
from nearcast.spool.changes import Group, Position, TopicChange
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.spool.recovery import recover
from nearcast.testing.fake_disk import FakeDisk
from spool.workload import Workload, alive

SMALL = SpoolSettings(segment_bytes=4000)


def fill(log: SpoolLog, work: Workload, groups: int) -> list[int]:
    """Append groups and commit after random ones; return the tickets in the order they came."""
    tickets: list[int] = []
    for _ in range(groups):
        log.append(work.group())
        if work.rng.random() < 0.4:
            tickets += log.commit()
    return tickets + log.commit()


def test_a_new_spool_is_empty() -> None:
    log = SpoolLog.open(FakeDisk(1), SMALL)
    assert alive(log.recovered.state) == {}
    assert not log.recovered.damages
    assert log.recovered.cut is None
    assert log.commit() == []


@pytest.mark.parametrize("seed", range(5))
def test_everything_comes_back_over_many_segments(seed: int) -> None:
    disk, work = FakeDisk(seed), Workload(seed)
    for _ in range(4):
        log = SpoolLog.open(disk, SMALL)
        assert alive(log.recovered.state) == work.after[-1]
        first = len(work.after)
        assert fill(log, work, 100) == list(range(first, first + 100))
        log.close()
    found = SpoolLog.open(disk, SMALL).recovered
    assert alive(found.state) == work.after[-1]
    assert not found.damages
    assert found.cut is None


def test_files_of_others_are_named_and_left_alone() -> None:
    disk, work = FakeDisk(3), Workload(3)
    names = [".nfs0001", "lost+found", "notes.txt", "spare-parts", "spare-12"]
    for name in names:
        disk.create(name, 10)
        disk.write(name, 0, b"not yours.")
    for _ in range(3):
        log = SpoolLog.open(disk, SMALL)
        assert log.recovered.foreign == sorted(names)
        fill(log, work, 50)  # segments are recycled meanwhile
        log.close()
    assert alive(recover(disk).state) == work.after[-1]
    assert {disk.read(name) for name in names} == {b"not yours."}


def test_a_name_that_is_no_text_can_be_told() -> None:
    disk = FakeDisk(3)
    disk.create("caf\udce9", 1)
    assert recover(disk).foreign == ["caf\\udce9"]


@pytest.mark.parametrize("name", ["segment-1", "segment-x.spool", "copy.spool", "segment-1.spool2"])
def test_a_file_that_may_be_a_segment_is_not_passed_over(name: str) -> None:
    disk = FakeDisk(3)
    SpoolLog.open(disk, SMALL).close()
    disk.create(name, 10)
    with pytest.raises(SpoolError, match=f"'{name}' is no file of a spool"):
        SpoolLog.open(disk, SMALL)


def test_nothing_is_durable_before_the_commit() -> None:
    disk, work = FakeDisk(3), Workload(3)
    log = SpoolLog.open(disk, SMALL)
    fill(log, work, 10)
    log.append(work.group())
    assert log.queued == 1
    assert alive(SpoolLog.open(disk.copy(1), SMALL).recovered.state) == work.after[10]


def test_segments_are_used_again_and_the_disk_stays_small() -> None:
    disk, work = FakeDisk(4), Workload(4)
    log = SpoolLog.open(disk, SMALL)
    fill(log, work, 3000)
    assert len(disk.names()) == 4  # this one, its fallback, a spare, the file of ends
    sequence = int(max(name for name in disk.names() if name.startswith("segment"))[8:20])
    assert sequence > 100
    total = sum(len(disk.read(name)) for name in disk.names())
    snapshot = sum(len(b"".join(topic[0])) for topic in work.after[-1].values())
    assert total < 3 * (4 * 2 * snapshot + SMALL.segment_bytes)
    assert alive(SpoolLog.open(disk, SMALL).recovered.state) == work.after[-1]


def test_recovery_reads_one_segment_however_long_the_log_was() -> None:
    scanned = []
    for groups in (100, 2000):
        disk, work = FakeDisk(5), Workload(5, spool=4, largest=10)
        log = SpoolLog.open(disk, SMALL)
        fill(log, work, groups)
        log.close()
        scanned.append(SpoolLog.open(disk, SMALL).recovered.bytes_scanned)
    assert disk.bytes_written > 50 * SMALL.segment_bytes
    # the snapshot (17 positions, 12 records) makes a segment a little larger, nothing else does
    assert max(scanned) <= 2 * SMALL.segment_bytes


def test_a_large_window_makes_segments_larger_instead_of_writing_it_again_and_again() -> None:
    disk, work = FakeDisk(6), Workload(6, spool=100)
    log = SpoolLog.open(disk, SMALL)
    appended = 0
    for ticket in range(1, 1201):
        group = work.group()
        appended += sum(len(record) for change in group.changes for record in change.records)
        log.append(group)
        if ticket % 10 == 0:
            log.commit()
    window = sum(len(b"".join(topic[0])) for topic in work.after[-1].values())
    assert window > 4 * SMALL.segment_bytes
    # frames and positions of such small records add about as much again
    assert disk.bytes_written < 4 * appended
    assert alive(SpoolLog.open(disk, SMALL).recovered.state) == work.after[-1]


def test_a_group_larger_than_a_segment_is_kept() -> None:
    disk = FakeDisk(7)
    log = SpoolLog.open(disk, SMALL)
    large = tuple(bytes([value]) * 5000 for value in range(4))
    log.append(Group(1, (TopicChange("t", large, 4),)))
    log.append(Group(2, (TopicChange("t", (b"small",), 3),)))
    assert log.commit() == [1, 2]
    topic = SpoolLog.open(disk, SMALL).recovered.state.topics["t"]
    assert list(topic.records) == [*large[-2:], b"small"]


def test_a_spare_made_in_advance_is_taken_by_the_next_segment() -> None:
    disk, work = FakeDisk(8), Workload(8)
    log = SpoolLog.open(disk, SMALL)
    log.prepare_spare()
    log.prepare_spare()
    assert sum(name.startswith("spare") for name in disk.names()) == 1
    disk.fail("create", errno.EIO)
    while len([name for name in disk.names() if name.startswith("segment")]) < 2:
        fill(log, work, 1)  # the second segment need not be created


def test_a_full_disk_acknowledges_nothing_and_the_commit_may_be_tried_again() -> None:
    disk, work = FakeDisk(9), Workload(9)
    log = SpoolLog.open(disk, SMALL)
    done = fill(log, work, 20)
    for _ in range(5):
        disk.fail("write", errno.ENOSPC)
        log.append(work.group())
        with pytest.raises(SpoolFullError, match="nothing was acknowledged"):
            log.commit()
        log.append(work.group())
    assert log.queued == 10
    assert alive(SpoolLog.open(disk.copy(1), SMALL).recovered.state) in work.after[20:]
    done += log.commit()
    done += fill(log, work, 200)
    assert done == list(range(1, 231))
    assert alive(SpoolLog.open(disk, SMALL).recovered.state) == work.after[-1]


def test_a_disk_that_fills_up_while_a_segment_begins_goes_on_when_there_is_room() -> None:
    disk, work = FakeDisk(10), Workload(10)
    log = SpoolLog.open(disk, SMALL)
    disk.capacity_bytes = SMALL.segment_bytes + 100
    with pytest.raises(SpoolFullError):
        fill(log, work, 400)
    appended = len(work.after) - 1
    durable = SpoolLog.open(disk.copy(1), SMALL).recovered.state
    assert alive(durable) in work.after
    disk.capacity_bytes = None
    assert log.commit()[-1] == appended
    assert alive(SpoolLog.open(disk, SMALL).recovered.state) == work.after[-1]


@pytest.mark.parametrize(("operation", "code"), [("sync", errno.EIO), ("write", errno.EIO)])
@pytest.mark.parametrize("skip", range(6))
def test_after_a_failed_write_or_sync_nothing_is_acknowledged_until_a_restart(
    operation: str, code: int, skip: int
) -> None:
    disk, work = FakeDisk(skip), Workload(skip)
    log = SpoolLog.open(disk, SMALL)
    acknowledged = fill(log, work, 30)
    disk.fail("sync" if operation == "sync" else "write", code, skip=skip)

    def go_on() -> None:
        while True:
            log.append(work.group())
            acknowledged.extend(log.commit())

    with pytest.raises(SpoolLostError, match="opened again"):
        go_on()
    with pytest.raises(SpoolLostError, match="opened again"):
        log.append(work.group())
    work.rewind(len(work.after) - 1)
    with pytest.raises(SpoolLostError):
        log.commit()
    log.close()
    disk.restart()
    assert alive(SpoolLog.open(disk, SMALL).recovered.state) in work.after[acknowledged[-1] :]


def test_a_disk_that_cannot_be_read_or_written_is_one_clear_error() -> None:
    disk, work = FakeDisk(11), Workload(11)
    fill(SpoolLog.open(disk, SMALL), work, 5)
    disk.fail("sync_directory", errno.EIO)
    with pytest.raises(SpoolError, match="Input/output"):
        SpoolLog.open(disk, SMALL)
    assert alive(SpoolLog.open(disk, SMALL).recovered.state) == work.after[-1]


def test_a_closed_log_refuses_groups() -> None:
    log = SpoolLog.open(FakeDisk(12), SMALL)
    log.close()
    with pytest.raises(SpoolLostError, match="closed"):
        log.append(Group(1, ()))


@pytest.mark.parametrize(
    "wrong", [{"segment_bytes": 0}, {"snapshots_per_segment": 1}, {"spares": -1}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        SpoolSettings(**wrong)


def test_the_fake_disk_gives_the_same_for_a_seed() -> None:
    def story(seed: int) -> list[str]:
        disk, work, rng = FakeDisk(seed), Workload(1), Random(2)
        for _ in range(3):
            log = SpoolLog.open(disk, SMALL)
            fill(log, work, rng.randint(1, 9))
            disk.restart()
        return [f"{name} {hash(disk.read(name))}" for name in disk.names()]

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_one_thread_may_append_while_another_commits() -> None:
    disk = FakeDisk(13)
    log = SpoolLog.open(disk, SMALL)
    groups = [Group(n, (TopicChange("t", (str(n).encode(),), 30),)) for n in range(2000)]

    def append_all() -> None:
        for group in groups:
            log.append(group)

    writer = Thread(target=append_all)
    writer.start()
    tickets: list[int] = []
    while len(tickets) < len(groups):
        tickets += log.commit()
    writer.join()
    assert tickets == list(range(2000))
    records = SpoolLog.open(disk, SMALL).recovered.state.topics["t"].records
    assert list(records) == [str(n).encode() for n in range(1970, 2000)]


def test_a_publisher_that_is_forgotten_stays_forgotten() -> None:
    disk = FakeDisk(9)
    log = SpoolLog.open(disk, SMALL)
    known = (Position("a", 1, 5), Position("b", 1, 6))
    log.append(Group(1, (TopicChange("t", (), 0, known),)))
    log.append(Group(2, (TopicChange("t", (), 0, (Position("a", 0, 0),)),)))
    log.commit()
    for _ in range(3):
        assert set(recover(disk).state.topics["t"].positions) == {"b"}
        log = SpoolLog.open(disk, SMALL)  # its snapshot does not know it either
