"""The rounds of re-planning that a site has seen: a folder with a line for each, and the plans.

::

    replans/rounds.jsonl       one object per round, the last one last
    replans/NNNN/scenario      the site as the log had it when plan NNNN was made
    replans/NNNN/plan          the plan; the last few that came into force are kept
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nearcast.errors import ConfigError, OutputError

__all__ = ["ReplanRound", "RoundsFolder"]

_KEPT = 3
_ROUNDS = "rounds.jsonl"
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ReplanRound:
    """One round: what the plan in force costs, what another one would, what was done, what came."""

    began: float
    """Unix time."""
    plan_version: int | None = None
    """In force after the round; None: the manager was not asked."""
    cost_before: float | None = None
    """Of the plan in force under the traffic of now, in ms as the model counts."""
    cost_after: float | None = None
    """Of the plan that was found; it is that before when nothing better was."""
    bound: float | None = None
    """No plan costs less."""
    migrations: int = 0
    """Spools that the found plan has and the one in force has not."""
    switched: bool = False
    measured_before_ms: float | None = None
    """Mean time from publishing to the home's notification, as the log has it."""
    measured_after_ms: float | None = None
    """The same after the round, until the next one."""
    streams: int = 0
    pause_p50_ms: float | None = None
    pause_p99_ms: float | None = None
    """How many streams were handed over when the round's switch was done, and their pauses."""
    messages: int = 0
    """Published in the window that was learned from."""
    moved_clients: int = 0
    changed_members: int = 0
    unknown_clients: int = 0
    unknown_topics: int = 0
    bad_rows: int = 0
    learn_s: float = 0.0
    plan_s: float = 0.0
    switch_s: float = 0.0
    """Until all servers had the plan."""
    reason: str = ""
    """Why nothing was switched, or what failed; the plan in force stays then."""
    failed: bool = False
    folder: str | None = None
    """Of the scenario and plan that came into force."""

    @property
    def work_s(self) -> float:
        """How long the round took, without the wait for the next one."""
        return self.learn_s + self.plan_s + self.switch_s


class RoundsFolder:
    """The folder ``replans`` of a site; one re-planner at a time has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other re-planners out; ends with the process at the latest."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = open(self.folder / "lock", "w")  # noqa: SIM115 - closed below
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot be written: {error.strerror}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(f"{self.folder}: another program re-plans this site") from None
            yield

    def append(self, done: ReplanRound) -> None:
        """Add a round; OutputError when the disk refuses."""
        try:
            with (self.folder / _ROUNDS).open("a") as file:
                file.write(json.dumps(asdict(done)) + "\n")
        except OSError as error:
            raise OutputError(f"{self.folder / _ROUNDS}: {error.strerror or error}") from error

    def last(self) -> list[dict[str, Any]]:
        """Return the last rounds, as far as they can be read; a line cut by a crash cannot."""
        try:
            with (self.folder / _ROUNDS).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
                lines = file.read().splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            try:
                one = json.loads(line)
            except ValueError:
                continue
            if isinstance(one, dict):
                found.append(one)
        return found

    def scenario_of(self, plan_version: int) -> Path | None:
        """Return the scenario that the plan in force was made for, if a round made it."""
        for one in reversed(self.last()):
            if one.get("switched") and one.get("plan_version") == plan_version:
                folder = self.folder / str(one.get("folder")) / "scenario"
                return folder if folder.is_dir() else None
        return None

    @contextmanager
    def next_plan(self) -> Iterator[Path]:
        """Give a new folder; it is removed when the block fails, else the oldest ones are."""
        numbers = self._numbers()
        folder = self.folder / f"{max(numbers, default=0) + 1:04d}"
        try:
            folder.mkdir()
        except OSError as error:
            raise OutputError(f"{folder}: cannot be made: {error.strerror or error}") from error
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        for number in sorted(numbers)[: max(0, len(numbers) + 1 - _KEPT)]:
            shutil.rmtree(self.folder / f"{number:04d}", ignore_errors=True)

    def _numbers(self) -> list[int]:
        return [int(one.name) for one in self.folder.iterdir() if one.name.isdecimal()]
