"""When a processor may run: the policy against users' code that fails or takes too long."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from nearcast.errors import ConfigError
from nearcast.wire.backoff import next_wait_s
from nearcast.wire.publication import Publication

__all__ = ["GuardEvent", "GuardSettings", "ProcessorGuard", "ProcessorReport"]


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """How much a processor may do wrong."""

    budget_s: float = 0.05
    """Time for a batch; more is an overrun."""
    overruns: int = 5
    """Overruns in a row after which it is quarantined."""
    failures: int = 20
    """Messages in a row that fail, none between that does not, after which it is quarantined."""
    kills: int = 3
    """Times within `kills_within_s` that its process hung or died, after which it is quarantined;
    once is enough when it comes from a quarantine. The process is not its own alone."""
    kills_within_s: float = 60.0
    quarantine_s: float = 10.0
    """How long it rests the first time; twice as long each time that it has to again."""
    longest_quarantine_s: float = 3600.0

    def __post_init__(self) -> None:
        limits = (self.budget_s, self.overruns, self.failures, self.kills, self.kills_within_s)
        if min(*limits, self.quarantine_s) <= 0:
            raise ConfigError("the limits of a processor must be positive")


class GuardEvent(StrEnum):
    """What a guard reports."""

    FAILED = "failed"
    OVERRUN = "overrun"
    KILLED = "killed"
    QUARANTINED = "quarantined"
    RESUMED = "resumed"
    MALFORMED = "malformed"
    """It could not use messages; that is not its fault."""
    REFUSED = "refused"
    """It could read messages and did not believe or take them; the detail is the reason."""


@dataclass(frozen=True, slots=True)
class ProcessorReport:
    """Something that a processor did wrong, or that was done about it."""

    topic: str
    event: GuardEvent
    detail: str
    message: Publication | None = None
    """The message that it failed at."""
    count: int = 1
    """How often it happened."""


class ProcessorGuard:
    """Counts what a processor does wrong and lets it rest after too much of it."""

    def __init__(self, settings: GuardSettings) -> None:
        self.settings = settings
        self.unprocessed = 0
        """Messages that were spooled only, because the processor rested."""
        self.rests_until_s: float | None = None
        self._failures_in_a_row = self._overruns_in_a_row = 0
        self._rest_s = 0.0
        """The last rest; 0 since it went well again."""
        self._killed_at_s: deque[float] = deque()

    def may_run(self, messages: int, now_s: float) -> tuple[bool, list[GuardEvent]]:
        """Return whether a batch may be processed now, and what there is to report."""
        if self.rests_until_s is None:
            return True, []
        if now_s < self.rests_until_s:
            self.unprocessed += messages
            return False, []
        self.rests_until_s = None
        return True, [GuardEvent.RESUMED]

    def succeeded(self) -> None:
        """Note that a message or batch went well."""
        self._failures_in_a_row = 0

    def failed(self) -> None:
        """Note that the processor raised."""
        self._failures_in_a_row += 1

    def ended(self, elapsed_s: float, now_s: float) -> list[GuardEvent]:
        """Note how long a batch took; the last word about it."""
        events = []
        if elapsed_s > self.settings.budget_s:
            self._overruns_in_a_row += 1
            events.append(GuardEvent.OVERRUN)
        else:
            self._overruns_in_a_row = 0
            if not self._failures_in_a_row:
                self._rest_s = 0.0
        if (
            self._overruns_in_a_row >= self.settings.overruns
            or self._failures_in_a_row >= self.settings.failures
        ):
            events.append(self._quarantine(now_s))
        return events

    def killed(self, now_s: float) -> list[GuardEvent]:
        """Note that a batch hung or died, and its process with it; the last word about it."""
        times = self._killed_at_s
        times.append(now_s)
        while times[0] < now_s - self.settings.kills_within_s:
            times.popleft()
        events = [GuardEvent.KILLED]
        if self._rest_s or len(times) >= self.settings.kills:
            events.append(self._quarantine(now_s))
        return events

    def _quarantine(self, now_s: float) -> GuardEvent:
        settings = self.settings
        self._rest_s = next_wait_s(
            self._rest_s, settings.longest_quarantine_s, settings.quarantine_s
        )
        self.rests_until_s = now_s + self._rest_s
        self._failures_in_a_row = self._overruns_in_a_row = 0
        self._killed_at_s.clear()
        return GuardEvent.QUARANTINED
