"""A topic's processor, its guard and its state, wherever the processor runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearcast.broker.guard import GuardEvent, ProcessorGuard, ProcessorReport
from nearcast.broker.processing import ProcessorRunner
from nearcast.broker.processor import Processor, ProcessorWatch
from nearcast.broker.requests import Failure, ProcessRequest, ProcessResult
from nearcast.broker.topic_settings import TopicSettings
from nearcast.broker.topic_spool import SpoolView
from nearcast.wire.publication import Publication

__all__ = ["TopicProcessing"]


class TopicProcessing:
    """Decides when a topic's processor runs, and judges what came of it.

    Parameters
    ----------
    processor
        To be run here; None when a host process has it.
    clock
        Measures how long a batch takes here, in seconds.
    watch
        Is told when the processor runs here.
    """

    def __init__(
        self,
        settings: TopicSettings,
        processor: Processor | None,
        clock: Callable[[], float],
        watch: ProcessorWatch | None = None,
    ) -> None:
        self.guard = ProcessorGuard(settings.guard)
        self._settings, self._clock = settings, clock
        self._runner = (
            None
            if processor is None
            else ProcessorRunner(processor, watch, settings.topic, settings.processor)
        )
        self.state = None if self._runner is None else self._runner.state
        """The last good state; None for a processor that saves none."""
        self._initial = self.state
        self.aside = b""
        """A state that another broker may have instead, see `StateTransfer`; empty: none."""
        self.asked = False
        """Whether a host process has the processor: it got a request and has not lost it since."""

    def restore(self, state: bytes | None, aside: bytes = b"") -> list[ProcessorReport]:
        """Begin from the state that was saved, if there is one, and what was set aside."""
        self.aside = aside
        state = state or None  # an empty one was given away
        if self._runner is None:
            self.state = state
            return []
        failures = self._runner.restore(state)
        self.state = self._runner.state
        for _ in failures:
            self.guard.failed()
        return self._failed(failures)

    @property
    def has_state(self) -> bool:
        """Whether the state is another one than at the very start."""
        return self.asked or self.state not in (None, self._initial)

    def begin_anew(self) -> None:
        """Forget the state: another broker goes on from it."""
        self.asked, self.state = False, self._initial
        if self._runner is not None:
            self._runner.restore(self._initial)

    @property
    def can_merge(self) -> bool:
        """Whether two states can become one."""
        return self._runner is not None and self._runner.can_merge

    def set_aside(self) -> None:
        """Begin anew, until it is known whether another broker has the state."""
        self.aside = self.state or b""
        self.begin_anew()

    def take_over(self, state: bytes) -> tuple[bool, list[ProcessorReport]]:
        """Go on from another broker's state; tell whether that was possible."""
        if not self.has_state:
            reports = self.restore(state, self.aside)
            return not reports, reports
        failures = None if self._runner is None else self._runner.merge(state)
        if self._runner is None or failures is None:
            return False, []
        self.state = self._runner.state
        return not failures, self._failed(failures)

    def may_run(self, messages: int, now_s: float) -> tuple[bool, list[ProcessorReport]]:
        """Return whether a batch may be processed now, and what there is to report."""
        may_run, events = self.guard.may_run(messages, now_s)
        reports = [self._report(event, "tries again") for event in events] if events else []
        return may_run, reports

    def run(self, batch: Sequence[Publication], spool: SpoolView) -> ProcessResult:
        """Process the messages at the end of the spool here."""
        if self._runner is None:
            raise RuntimeError(f"topic {self._settings.topic!r} has its processor elsewhere")
        started_s = self._clock()
        outcome = self._runner.run(batch, spool)
        return ProcessResult(
            self._settings.topic,
            0,
            outcome.notifications,
            outcome.state,
            outcome.failures,
            self._clock() - started_s,
            malformed=outcome.malformed,
            refused=outcome.refused,
        )

    def ask(
        self, request: int, batch: tuple[Publication, ...], context: tuple[Publication, ...]
    ) -> ProcessRequest:
        """Return what a host has to do."""
        first, self.asked = not self.asked, True
        return ProcessRequest(self._settings, request, context, batch, self.state, first)

    def judge(
        self, batch: Sequence[Publication], result: ProcessResult, now_s: float
    ) -> list[ProcessorReport]:
        """Take over the state after a batch that was done; return what there is to report."""
        if result.state is not None:
            self.state = result.state
        if result.failures:
            self._count(batch, result.failures)
        else:
            self.guard.succeeded()
        reports = self._failed(result.failures) if result.failures else []
        if result.malformed:
            topic, count = self._settings.topic, result.malformed
            detail = f"{count} of {len(batch)} messages could not be used"
            reports.append(ProcessorReport(topic, GuardEvent.MALFORMED, detail, count=count))
        for reason, count in result.refused.items():
            topic = self._settings.topic
            reports.append(ProcessorReport(topic, GuardEvent.REFUSED, reason, count=count))
        for event in self.guard.ended(result.elapsed_s, now_s):
            detail = f"{result.elapsed_s:.3f} s for {len(batch)} messages"
            reports.append(self._report(event, detail))
        return reports

    def judge_kill(
        self, batch: Sequence[Publication], result: ProcessResult, now_s: float
    ) -> list[ProcessorReport]:
        """Return what there is to report about a batch that ended its process."""
        message = batch[0] if len(batch) == 1 else None
        detail = f"{result.detail or result.ending.value} at {len(batch)} messages"
        return [self._report(event, detail, message) for event in self.guard.killed(now_s)]

    def _count(self, batch: Sequence[Publication], failures: Sequence[Failure]) -> None:
        failed = {id(failure.message) for failure in failures}
        for message in batch:
            if id(message) in failed:
                self.guard.failed()
            else:
                self.guard.succeeded()
        for failure in failures:
            if failure.message is None:
                self.guard.failed()

    def _failed(self, failures: Sequence[Failure]) -> list[ProcessorReport]:
        return [self._report(GuardEvent.FAILED, one.detail, one.message) for one in failures]

    def _report(
        self, event: GuardEvent, detail: str, message: Publication | None = None
    ) -> ProcessorReport:
        return ProcessorReport(self._settings.topic, event, detail, message)
