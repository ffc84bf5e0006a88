"""The real disk: as the fake one, and a writer that is killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from links import kill_worker
from nearcast.errors import SpoolError, SpoolFullError, SpoolLostError
from nearcast.links.real_disk import RealDisk
from nearcast.spool.changes import Group, TopicChange
from nearcast.spool.log import SpoolLog, SpoolSettings
from spool.workload import Workload, alive

SMALL = SpoolSettings(segment_bytes=1 << 14)


def test_everything_comes_back_from_real_files(tmp_path: Path) -> None:
    work = Workload(1)
    for _ in range(3):
        log = SpoolLog.open(RealDisk(tmp_path / "spool"), SMALL)
        assert alive(log.recovered.state) == work.after[-1]
        for _ in range(60):
            log.append(work.group())
        assert log.commit()[-1] == len(work.after) - 1
        log.prepare_spare()
        log.close()
        log.close()
    files = sorted((tmp_path / "spool").iterdir())
    kinds = [path.name.split("-")[0] for path in files]
    assert kinds == ["ends", "lock", "segment", "segment", "spare"]
    assert all(path.stat().st_size >= SMALL.segment_bytes for path in files[2:])


def test_one_process_at_a_time(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    with pytest.raises(SpoolError, match="another process uses"):
        RealDisk(tmp_path)
    disk.close()
    RealDisk(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="cannot be used"):
        RealDisk(tmp_path / "file")


def test_a_full_disk_leaves_no_half_made_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    disk = RealDisk(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", no_room)
        with pytest.raises(SpoolFullError, match="No space left"):
            SpoolLog.open(disk, SMALL)
    assert disk.names() == []
    log = SpoolLog.open(disk, SMALL)
    log.append(Group(1, (TopicChange("t", (b"one",), 1),)))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", no_room)  # a sync that fails is never tried again
        with pytest.raises(SpoolLostError, match="sync"):
            log.commit()
    with pytest.raises(SpoolLostError):
        log.commit()
    disk.close()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, bytes(data[:1000]), at))
    work, disk = Workload(2), RealDisk(tmp_path)
    log = SpoolLog.open(disk, SMALL)
    for _ in range(30):
        log.append(work.group())
    log.commit()
    log.close()
    assert alive(SpoolLog.open(RealDisk(tmp_path), SMALL).recovered.state) == work.after[-1]


def test_a_writer_that_is_killed_loses_nothing_it_had_acknowledged(tmp_path: Path) -> None:
    rng, acknowledged = Random(1), 0
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, kill_worker.__file__, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            for _ in range(rng.randint(1, 150)):
                acknowledged = int(child.stdout.readline())
            child.kill()
            # what it had said before it died counts too, but for a line cut short
            for line in child.stdout.read().splitlines(keepends=True):
                acknowledged = int(line) if line.endswith("\n") else acknowledged
        disk = RealDisk(tmp_path)
        log = SpoolLog.open(disk, kill_worker.SETTINGS)
        topic = log.recovered.state.topics["t"]
        last = topic.positions["writer"].sequence
        assert last >= acknowledged
        assert not log.recovered.damages
        assert list(topic.records) == [
            kill_worker.record(number)
            for number in range(max(1, last - kill_worker.SPOOL + 1), last + 1)
        ]
        disk.close()
    assert acknowledged > 100
