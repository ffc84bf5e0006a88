"""The watcher of a site's processes: what it starts again, when, and what it gives up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nearcast.site import processes
from nearcast.site.processes import EXIT_BAD_CONFIG, SiteProcesses


class FakeProcess:
    """A process that ends when a test says so."""

    def __init__(self, **_options: Any) -> None:
        self.exitcode: int | None = None

    def start(self) -> None:
        pass


class Watched:
    """One server under watch, and a clock that the test moves."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        monkeypatch.setattr(processes, "time", clock)
        site: Any = SimpleNamespace(
            config_file=lambda name: folder / name, output_file=lambda name: folder / name
        )
        (folder / "e1").write_text("error: the disk is full\n")
        self.watcher = SiteProcesses(site)
        monkeypatch.setattr(self.watcher, "_context", SimpleNamespace(Process=FakeProcess))
        self.watcher.start("e1")

    @property
    def process(self) -> Any:
        return self.watcher._processes["e1"]

    def die(self, code: int) -> float:
        """Let the server end; return after how long it was started again."""
        old, died_s = self.process, self.now_s
        old.exitcode = code
        while self.process is old and self.now_s < died_s + 1_000:
            assert self.watcher.watch() == []
            self.now_s += 0.1
        return self.now_s - died_s


def test_a_server_that_ends_again_and_again_is_started_after_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(tmp_path, monkeypatch)
    pauses_s = [watched.die(1) for _ in range(20)]
    assert pauses_s == sorted(pauses_s)
    assert pauses_s[0] < 1.0
    assert 25.0 < pauses_s[-1] < 35.0
    assert watched.watcher.restarted == watched.watcher.deaths("e1") == 20
    assert "the disk is full" in caplog.text
    watched.now_s += 60.0  # it ran well for a while
    assert watched.die(-9) < 1.0
    assert watched.watcher.deaths("e1") == 1


def test_a_wrong_configuration_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(tmp_path, monkeypatch)
    watched.process.exitcode = EXIT_BAD_CONFIG
    assert watched.watcher.watch() == ["e1"]
    assert watched.watcher.restarted == 0


def test_a_server_that_was_killed_stays_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch)
    watched.process.kill = watched.process.join = lambda: None
    watched.watcher.kill("e1")
    watched.process.exitcode = -9
    watched.now_s += 100.0
    assert watched.watcher.watch() == []
    assert watched.watcher.restarted == 0
