"""The watchdog: whom it ends, whom it lets be, and what it remembers."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.runtime.watchdog import (
    HUNG_FILE,
    Heartbeat,
    HungProcessor,
    Watchdog,
    WatchdogSettings,
    read_hung,
)


@pytest.fixture
def heartbeat() -> Iterator[Heartbeat]:
    heartbeat = Heartbeat()
    yield heartbeat
    heartbeat.close()


def watch(heartbeat: Heartbeat, folder: Path, killed: list[tuple[int, int]]) -> Watchdog:
    settings = WatchdogSettings(heartbeat.descriptor, 4711, str(folder / HUNG_FILE), limit_s=3.0)
    return Watchdog(settings, kill=lambda pid, number: killed.append((pid, number)))


def test_a_processor_that_does_not_return_is_noted_and_its_server_ended(
    heartbeat: Heartbeat, tmp_path: Path
) -> None:
    killed: list[tuple[int, int]] = []
    watchdog = watch(heartbeat, tmp_path, killed)
    heartbeat.enter("quick", "forward")
    heartbeat.leave()
    heartbeat.enter("täglich", "my:Slow")
    for second in range(4):
        assert killed == []
        assert watchdog.look(float(second)) == 1.0
        assert watchdog.look(second + 0.25) == 0.75  # too early to look again
    assert killed == [(4711, signal.SIGKILL)]
    assert read_hung(tmp_path) == {HungProcessor("täglich", "my:Slow")}
    (tmp_path / HUNG_FILE).unlink()  # an operator has mended it
    assert read_hung(tmp_path) == frozenset()


def test_one_that_goes_on_or_rests_is_let_be(heartbeat: Heartbeat, tmp_path: Path) -> None:
    killed: list[tuple[int, int]] = []
    watchdog = watch(heartbeat, tmp_path, killed)
    for second in range(10):  # inside at each look, but not in the same batch
        heartbeat.enter("t", "p")
        watchdog.look(float(second))
        heartbeat.leave()
    for second in range(10, 30):
        watchdog.look(float(second))
    heartbeat.enter("t", "p")
    watchdog.look(1e6)  # the machine was asleep: that is one look
    watchdog.look(2e6)
    assert killed == []


def test_a_file_that_was_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / HUNG_FILE).write_text('{"topic":"a","processor":"p"}\n{"topic":"b",')
    assert read_hung(tmp_path) == {HungProcessor("a", "p")}


_HANGING_SERVER = """
import asyncio, os, sys
from nearcast.runtime.spool_process import SpoolProcessSettings
from nearcast.runtime.spool_writer import SpoolWriter
from nearcast.runtime.watchdog import HUNG_FILE, Heartbeat, WatchdogSettings

async def main(folder):
    heartbeat = Heartbeat()
    watchdog = WatchdogSettings(heartbeat.descriptor, os.getpid(), folder + "/" + HUNG_FILE, 1.0)
    writer = SpoolWriter(
        SpoolProcessSettings(folder + "/spool", 1 << 16), print, print, watchdog=watchdog
    )
    await writer.start()
    heartbeat.enter("t", "endless")
    while True:
        pass

asyncio.run(main(sys.argv[1]))
"""


def test_the_writer_of_the_spool_ends_a_server_that_hangs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HANGING_SERVER, str(tmp_path)], check=False, timeout=120
    )
    assert done.returncode == -signal.SIGKILL
    assert read_hung(tmp_path) == {HungProcessor("t", "endless")}
