"""Segments that were cut short, zeroed or deleted: whatever was durable and is gone is reported."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from nearcast.spool.changes import Group, TopicChange
from nearcast.spool.frames import FrameKind, scan
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.spool.recovery import Recovery, recover
from nearcast.spool.segments import ENDS_FILE, SegmentName, encode_end, read_ends
from nearcast.testing.fake_disk import FakeDisk, PowerCutError

RECORDS = tuple(f"record {number:02d} ".encode() * 2 for number in range(20))
SETTINGS = SpoolSettings(segment_bytes=1 << 13)

Fault = Callable[[FakeDisk, str, int, int], None]
"""Gets the disk, a segment, a place in it and where it ends."""

FAULTS: dict[str, Fault] = {
    "truncated": lambda disk, name, at, _end: disk.truncate(name, at),
    "zeroed": lambda disk, name, at, end: disk.zero(name, at, end),
}


def write(disk: FakeDisk, records: tuple[bytes, ...], how: str) -> None:
    """Write records, two per round, and end as told: closed, noted, or killed."""
    log = SpoolLog.open(disk, SETTINGS)
    for ticket, record in enumerate(records):
        log.append(Group(ticket, (TopicChange("t", (record,), len(RECORDS)),)))
        if ticket % 2:
            log.commit()
    log.commit()
    if how == "closed":
        log.close()
    elif how == "noted":
        log.note_end()


def newest(disk: FakeDisk) -> tuple[str, int]:
    """Return the newest segment and where it ends."""
    name = max(filter(None, map(SegmentName.parse, disk.names())))
    return str(name), list(scan(disk.read(str(name)), name.marker))[-1].end


def records_of(found: Recovery) -> list[bytes]:
    return list(found.state.topics["t"].records) if "t" in found.state.topics else []


@pytest.mark.parametrize("how", ["closed", "noted"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_missing_end_is_reported_wherever_it_begins(fault: str, how: str) -> None:
    clean = FakeDisk(1)
    write(clean, RECORDS, how)
    name, end = newest(clean)
    for at in range(end):
        disk = clean.copy(at)
        FAULTS[fault](disk, name, at, end)
        found = recover(disk)
        records = records_of(found)
        assert records == list(RECORDS[: len(records)])
        assert bool(found.damages) == (disk.read(name)[:end] != clean.read(name)[:end])
        # it is told once, and the spool goes on with what is left
        log = SpoolLog.open(disk, SETTINGS)
        assert log.recovered.damages == found.damages
        log.append(Group(1, (TopicChange("t", (b"after",), len(RECORDS) + 1),)))
        log.commit()
        log.close()
        again = recover(disk)
        assert records_of(again) == [*records, b"after"]
        assert not again.damages


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_given_after_a_damage_is_above_all_that_was_given_before(fault: str) -> None:
    clean, end = FakeDisk(1), 0
    for start in range(3):
        log = SpoolLog.open(clean, SETTINGS)
        if start:
            end = log.recovered.state.topics["t"].end
        for ticket in range(3):
            end += 1
            log.append(Group(ticket, (TopicChange("t", (b"one",), 9, end=end),)))
            log.commit()
        log.close()
    name, stop = newest(clean)
    for at in range(stop):
        disk = clean.copy(at)
        FAULTS[fault](disk, name, at, stop)
        found = SpoolLog.open(disk, SETTINGS).recovered
        if "t" in found.state.topics:
            assert found.state.topics["t"].end > end


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damage_is_told_though_the_power_goes_at_any_step_of_the_start_that_finds_it(
    fault: str,
) -> None:
    clean = FakeDisk(1)
    write(clean, RECORDS, "closed")
    name, end = newest(clean)
    FAULTS[fault](clean, name, 1, end)
    told_at_once = 0
    for steps in range(1, 40):
        disk = clean.copy(steps)
        disk.cut_power_in(steps)
        with suppress(PowerCutError):
            # told and killed before it has sealed: it may not have been heard
            told_at_once += bool(SpoolLog.open(disk, SETTINGS).recovered.damages)
        disk.restart()
        log = SpoolLog.open(disk, SETTINGS)
        assert log.recovered.damages
        log.seal()  # that it was heard
        log.close()
        assert not SpoolLog.open(disk, SETTINGS).recovered.damages
    assert 20 < told_at_once < 39


@pytest.mark.parametrize("seed", range(200))
def test_zeros_anywhere_cost_what_they_hit_and_are_reported(seed: int) -> None:
    rng, disk = Random(seed), FakeDisk(seed)
    write(disk, RECORDS, "closed")
    name, end = newest(disk)
    start = rng.randrange(end)
    stop = min(end, start + rng.choice((1, 10, 100, 1_000, end)))
    before = disk.read(name)
    disk.zero(name, start, stop)
    found = recover(disk)
    records = records_of(found)
    assert records == [one for one in RECORDS if one in records]
    if disk.read(name) != before:
        assert found.damages
    for damage in found.damages:
        assert damage.offset + damage.size_bytes > start
        assert damage.offset < stop


def test_what_follows_the_last_note_may_be_torn_and_is_not_damage() -> None:
    """The limit of what can be told: a server that was killed, and its last rounds are gone."""
    clean = FakeDisk(2)
    write(clean, RECORDS, "killed")
    name, end = newest(clean)
    noted = max(read_ends(clean.read(ENDS_FILE)).values())
    for at in range(noted, end, 7):
        disk = clean.copy(at)
        disk.truncate(name, at)
        assert not recover(disk).damages


@pytest.mark.parametrize("seed", range(20))
def test_a_torn_round_behind_a_noted_one_is_cut(seed: int) -> None:
    clean = FakeDisk(seed)
    write(clean, RECORDS[:10], "noted")
    log = SpoolLog.open(clean, SETTINGS)
    log.append(Group(1, (TopicChange("t", (b"x" * 100,), len(RECORDS)),)))
    log.commit()
    log.note_end()
    log.append(Group(2, (TopicChange("t", (b"y" * 100,), len(RECORDS)),)))
    log.commit()
    name, _ = newest(clean)
    disk = clean.copy(seed)
    last = [one for one in read_ends(disk.read(ENDS_FILE)).items() if str(one[0]) == name]
    [(_, noted)] = last
    disk.zero(name, noted + seed, noted + seed + 13)
    found = recover(disk)
    assert records_of(found) == [*RECORDS[:10], b"x" * 100]
    assert not found.damages


def test_a_segment_that_is_gone_is_reported() -> None:
    disk = FakeDisk(3)
    write(disk, RECORDS[:10], "closed")
    write(disk, RECORDS[10:], "closed")
    name, end = newest(disk)
    disk.remove(name)
    found = recover(disk)
    assert [(one.segment, one.offset, one.size_bytes) for one in found.damages] == [(name, 0, end)]
    assert records_of(found) == list(RECORDS[:10])
    for other in [one for one in disk.names() if one != ENDS_FILE]:
        disk.remove(other)
    assert {one.segment for one in recover(disk).damages} >= {name}
    log = SpoolLog.open(disk, SETTINGS)
    assert not records_of(log.recovered)
    log.seal()
    assert not recover(disk).damages


def test_the_segment_before_is_checked_when_it_is_needed() -> None:
    """The newest snapshot has rotted, and the one before was cut short: two faults."""
    disk = FakeDisk(4)
    write(disk, RECORDS[:10], "closed")
    before, end = newest(disk)
    log = SpoolLog.open(disk, SETTINGS)
    log.close()
    name, _ = newest(disk)
    disk.zero(name, 0, 20)
    disk.truncate(before, end - 150)
    found = recover(disk)
    assert {one.segment for one in found.damages} == {name, before}
    records = records_of(found)
    assert records == list(RECORDS[: len(records)])
    assert 0 < len(records) < 10


def test_rot_in_the_file_of_ends_is_no_damage_of_the_spool() -> None:
    clean = FakeDisk(5)
    write(clean, RECORDS, "closed")
    for bit in range(0, 8 * 600, 5):
        disk = clean.copy(bit)
        disk.flip_bit(ENDS_FILE, bit)
        found = recover(disk)
        assert records_of(found) == list(RECORDS)
        assert not found.damages


def test_ends_of_two_segments_are_kept() -> None:
    data = bytearray(1_024)
    for sequence in (7, 8, 9):
        at, content = encode_end(SegmentName(sequence, 5), 100 * sequence)
        data[at : at + len(content)] = content
    assert read_ends(bytes(data)) == {SegmentName(8, 5): 800, SegmentName(9, 5): 900}
    assert read_ends(b"") == read_ends(bytes(1_024)) == {}


def test_no_frame_is_written_for_a_seal() -> None:
    disk = FakeDisk(6)
    write(disk, RECORDS[:2], "closed")
    name = max(filter(None, map(SegmentName.parse, disk.names())))
    kinds = [one.kind for one in scan(disk.read(str(name)), name.marker)]
    assert kinds.count(FrameKind.COMMIT) == 2
