"""Runs a processor so that whatever it does, the broker goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from nearcast.broker.guard import GuardEvent, GuardSettings, ProcessorGuard
from nearcast.broker.messages import Message
from nearcast.broker.notifications import Notification
from nearcast.broker.processor import Processor, StatefulProcessor
from nearcast.broker.topic_spool import SpoolView

__all__ = ["GuardedProcessor", "Processed", "ProcessorReport"]


@dataclass(frozen=True, slots=True)
class ProcessorReport:
    """Something that a processor did wrong, or that was done about it."""

    topic: str
    event: GuardEvent
    detail: str
    message: Message | None = None
    """The message that it failed at."""


@dataclass(slots=True)
class Processed:
    """What became of a batch."""

    notifications: list[Notification] = field(default_factory=list)
    state: bytes | None = None
    """The processor's new state; None when it did not change."""
    reports: list[ProcessorReport] = field(default_factory=list)


class GuardedProcessor:
    """A processor of a topic with its guard.

    Parameters
    ----------
    clock
        Measures how long a batch takes, in seconds.
    """

    def __init__(
        self,
        topic: str,
        processor: Processor,
        settings: GuardSettings,
        clock: Callable[[], float],
    ) -> None:
        self.guard = ProcessorGuard(settings)
        self._topic, self._processor, self._clock = topic, processor, clock
        self._stateful = processor if isinstance(processor, StatefulProcessor) else None
        self.state: bytes | None = None
        """The last good state; None for a processor that saves none."""
        self._remember_state([])

    def restore(self, state: bytes | None) -> list[ProcessorReport]:
        """Begin from the state that was saved, if there is one."""
        if self._stateful is None or state is None:
            return []
        try:
            self._stateful.restore(state)
        except Exception as error:
            return [self._failure(error, None)]
        self.state = state
        return []

    def run(self, batch: Sequence[Message], spool: SpoolView, now_s: float) -> Processed:
        """Process the messages at the end of the spool; never raises because of the processor."""
        result = Processed()
        may_run, events = self.guard.may_run(len(batch), now_s)
        result.reports += [self._report(event, "tries again") for event in events]
        if not may_run:
            return result
        started_s, state_before = self._clock(), self.state
        try:
            result.notifications = self._attempt(batch, spool)
            self.guard.succeeded()
            self._remember_state(result.reports)
        except Exception as error:
            self._go_back(result.reports)
            if len(batch) == 1:
                result.reports.append(self._failure(error, batch[0]))
            else:
                self._one_by_one(batch, spool, result)
        if self.state != state_before:
            result.state = self.state
        elapsed_s = self._clock() - started_s
        result.reports += [
            self._report(event, f"{elapsed_s:.3f} s for {len(batch)} messages")
            for event in self.guard.ended(elapsed_s, now_s)
        ]
        return result

    def _one_by_one(self, batch: Sequence[Message], spool: SpoolView, result: Processed) -> None:
        """Find the poisonous messages, so that the others are not lost with them."""
        for number, message in enumerate(batch, start=spool.end - len(batch) + 1):
            try:
                result.notifications += self._attempt([message], spool.until(number))
                self.guard.succeeded()
                self._remember_state(result.reports)
            except Exception as error:
                self._go_back(result.reports)
                result.reports.append(self._failure(error, message))

    def _attempt(self, batch: Sequence[Message], spool: SpoolView) -> list[Notification]:
        notifications = []
        for one in self._processor.process(batch, spool):
            if not isinstance(one, Notification) or not isinstance(one.payload, bytes):
                raise TypeError(f"a processor returns Notification objects, not {one!r}")
            if one.cause is not None and not isinstance(one.cause, Message):
                raise TypeError("the cause of a notification is a message")
            notifications.append(one if one.cause else replace(one, cause=batch[-1]))
        return notifications

    def _remember_state(self, reports: list[ProcessorReport]) -> None:
        if self._stateful is None:
            return
        try:
            self.state = self._stateful.state()
        except Exception as error:
            reports.append(self._failure(error, None))

    def _go_back(self, reports: list[ProcessorReport]) -> None:
        if self._stateful is None or self.state is None:
            return
        try:
            self._stateful.restore(self.state)
        except Exception as error:
            reports.append(self._failure(error, None))

    def _failure(self, error: Exception, message: Message | None) -> ProcessorReport:
        self.guard.failed()
        return self._report(GuardEvent.FAILED, repr(error), message)

    def _report(
        self, event: GuardEvent, detail: str, message: Message | None = None
    ) -> ProcessorReport:
        return ProcessorReport(self._topic, event, detail, message)
