"""Flipped bits: never wrong bytes, never more lost than what the flip hit."""

from __future__ import annotations

from random import Random

import pytest

from nearcast.spool.changes import Group, TopicChange
from nearcast.spool.frames import FrameKind, scan
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.spool.recovery import Recovery, recover
from nearcast.spool.segments import SegmentName
from nearcast.testing.fake_disk import FakeDisk
from spool.workload import Workload, alive

RECORDS = tuple(f"record {number}".encode() * 5 for number in range(100))


def _spool(sealed: bool = True, segment_bytes: int = 1 << 15) -> tuple[FakeDisk, str, int]:
    """A spool of one topic with all records; its newest segment and how much of it is used."""
    disk = FakeDisk(1)
    log = SpoolLog.open(disk, SpoolSettings(segment_bytes=segment_bytes))
    for ticket, record in enumerate(RECORDS):
        log.append(Group(ticket, (TopicChange("t", (record,), len(RECORDS), (), b"s"),)))
        if ticket % 3 == 2:
            log.commit()
    log.commit()
    if sealed:
        log.seal()
    name = max(name for name in disk.names() if name.startswith("segment"))
    parsed = SegmentName.parse(name)
    assert parsed is not None
    return disk, name, list(scan(disk.read(name), parsed.marker))[-1].end


def _records(found: Recovery) -> list[bytes]:
    return list(found.state.topics["t"].records) if "t" in found.state.topics else []


def test_one_flip_costs_at_most_the_record_it_hits() -> None:
    clean, name, used = _spool()
    rng = Random(1)
    hit_a_record = 0
    for trial in range(1000):
        disk = clean.copy(trial)
        disk.flip_bit(name, rng.randrange(8 * used))
        found = recover(disk)
        records = _records(found)
        assert len(records) >= len(RECORDS) - 1
        missing = set(RECORDS) - set(records)
        assert records == [one for one in RECORDS if one not in missing]
        assert found.cut is None or not missing  # a flip in the seal itself
        assert bool(found.damages) or found.cut is not None or len(records) == len(RECORDS)
        if missing:
            assert found.damages[0].size_bytes < 100
            hit_a_record += 1
    assert hit_a_record > 300


def test_many_flips_never_give_wrong_bytes_and_leave_the_neighbours() -> None:
    clean, name, used = _spool()
    rng = Random(2)
    for trial in range(100):
        disk = clean.copy(trial)
        flips = rng.randint(2, 20)
        for _ in range(flips):
            disk.flip_bit(name, rng.randrange(8 * used))
        found = recover(disk)
        records = _records(found)
        assert records == [one for one in RECORDS if one in records]
        if found.cut is None:
            assert len(records) >= len(RECORDS) - flips


def test_without_a_seal_a_flip_costs_at_most_the_last_round() -> None:
    clean, name, used = _spool(sealed=False)
    rng = Random(3)
    for trial in range(500):
        disk = clean.copy(trial)
        disk.flip_bit(name, rng.randrange(8 * used))
        found = recover(disk)
        records = _records(found)
        assert records == [one for one in RECORDS if one in records]
        assert len(records) >= len(RECORDS) - 3
        assert len(records) >= len(RECORDS) - 1 or found.cut is not None


def test_a_rotten_snapshot_is_replaced_by_the_segment_before() -> None:
    disk, work = FakeDisk(4), Workload(4)
    log = SpoolLog.open(disk, SpoolSettings(segment_bytes=6000))
    while len([name for name in disk.names() if name.startswith("segment")]) < 2:
        log.append(work.group())
        log.commit()
    log.append(work.group())
    log.commit()
    log.close()
    name = max(name for name in disk.names() if name.startswith("segment"))
    parsed = SegmentName.parse(name)
    assert parsed is not None
    snapshot = [
        item for item in scan(disk.read(name), parsed.marker) if item.kind & FrameKind.SNAPSHOT
    ]
    for number, frame in enumerate(snapshot):
        rotten = disk.copy(number)
        rotten.flip_bit(name, 8 * (frame.offset + 3))
        found = SpoolLog.open(rotten, SpoolSettings(segment_bytes=6000)).recovered
        assert alive(found.state) == work.after[-1]
        assert len(found.segments) == 2
        assert len(found.damages) == 1
        assert alive(recover(rotten).state) == work.after[-1]


def test_what_a_recycled_file_held_before_is_never_read() -> None:
    disk, work = FakeDisk(5), Workload(5)
    settings = SpoolSettings(segment_bytes=3000)
    log = SpoolLog.open(disk, settings)
    for _ in range(500):
        log.append(work.group())
        log.commit()
        found = recover(disk.copy(0))
        assert alive(found.state) == work.after[-1]
        assert not found.damages
        assert found.cut is None


def test_a_payload_that_looks_like_a_frame_is_not_one() -> None:
    other, name, used = _spool()
    forged = other.read(name)[:used]
    disk = FakeDisk(2)  # another seed, other markers: an attacker does not know this spool's
    log = SpoolLog.open(disk, SpoolSettings(segment_bytes=1 << 16))
    log.append(Group(1, (TopicChange("t", (forged, b"after"), 10),)))
    log.commit()
    log.seal()
    for bit in range(8 * 80):
        rotten = disk.copy(bit)
        rotten.flip_bit(max(disk.names()), bit)
        assert _records(recover(rotten)) in ([b"after"], [forged, b"after"])


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_segment_cut_short_is_read_up_to_there(cut: int) -> None:
    clean, name, used = _spool()
    parsed = SegmentName.parse(name)
    assert parsed is not None
    data = clean.read(name)[: used - cut * 20]
    items = list(scan(data, parsed.marker))
    assert not any(item.kind == FrameKind.GAP for item in items)
    assert items[-1].end <= len(data)


@pytest.mark.parametrize("name", ["segment-1-2.spool", "segment-x-1.spool", "spare-1", "lock", ""])
def test_other_names_are_not_segments(name: str) -> None:
    assert SegmentName.parse(name) is None
