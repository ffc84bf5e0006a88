"""Runs a processor so that whatever it raises, its caller goes on; here or in a host process."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from msgspec import structs

from nearcast.broker.notifications import Notification
from nearcast.broker.processor import (
    MergingProcessor,
    Processor,
    ProcessorWatch,
    SplittingProcessor,
    StatefulProcessor,
)
from nearcast.broker.requests import Failure
from nearcast.broker.topic_spool import SpoolView
from nearcast.wire.publication import Origin, Publication

__all__ = ["CAUGHT", "Outcome", "ProcessorRunner", "describe"]

CAUGHT = (Exception, SystemExit)
"""What users' code may raise without effect on others; sys.exit() is no way to stop a server."""


_LONGEST_TRACE = 4000
"""Characters; the end, where the error was raised, says most."""


def describe(error: BaseException) -> str:
    """Return an error as text, even if its own class cannot tell; then where it was raised."""
    try:
        lines = [repr(error), *traceback.format_tb(error.__traceback__)]
        cause = error.__cause__ or error.__context__
        if cause is not None:
            lines += [f"after {cause!r}\n", *traceback.format_tb(cause.__traceback__)]
    except CAUGHT:
        return type(error).__name__
    first, trace = lines[0], "".join(lines[1:]).rstrip()
    return f"{first}\n{trace[-_LONGEST_TRACE:]}" if trace else first


def _identity(message: Publication) -> tuple[str, int, int, bool]:
    return message.publisher, message.epoch, message.sequence, message.origin is Origin.ONCE


class Outcome(msgspec.Struct):
    """What became of a batch."""

    notifications: list[Notification] = msgspec.field(default_factory=list)
    """Each has one of the batch's messages as its cause."""
    state: bytes | None = None
    """The processor's new state; None when it did not change."""
    failures: list[Failure] = msgspec.field(default_factory=list)
    malformed: int = 0
    """Messages that the processor counted as unusable."""
    refused: dict[str, int] = msgspec.field(default_factory=dict)
    """Those that it could read and did not take, by its reason."""


class ProcessorRunner:
    """A processor with its last good state.

    Parameters
    ----------
    watch
        Is told when the processor runs, by the names of its topic and itself.
    """

    def __init__(
        self,
        processor: Processor,
        watch: ProcessorWatch | None = None,
        topic: str = "",
        name: str = "",
    ) -> None:
        self._processor, self._watch, self._names = processor, watch, (topic, name)
        self._stateful = processor if isinstance(processor, StatefulProcessor) else None
        self.state: bytes | None = None
        """The last good state; None for a processor that saves none."""
        self._malformed, self._refused = 0, Counter[str]()
        """What the processor had counted when it was asked last."""
        self._remember_state([])
        self.initial = self.state
        """The state of one that has processed nothing."""

    def restore(self, state: bytes | None) -> list[Failure]:
        """Begin from the state that was saved, if there is one."""
        if self._stateful is None or state is None:
            return []
        try:
            self._stateful.restore(state)
        except CAUGHT as error:
            return [Failure(describe(error))]
        self.state = state
        return []

    @property
    def can_merge(self) -> bool:
        """Whether another broker's state can be taken in besides the own one."""
        return isinstance(self._processor, MergingProcessor)

    def merge(self, state: bytes) -> list[Failure] | None:
        """Take another broker's state in besides the own one; None: it cannot."""
        if not isinstance(self._processor, MergingProcessor):
            return None
        failures: list[Failure] = []
        try:
            self._processor.merge(state)
            self._remember_state(failures)
        except CAUGHT as error:
            self._go_back(failures)
            failures.append(Failure(describe(error)))
        return failures

    @property
    def can_split(self) -> bool:
        """Whether the state of some content ids can be taken off."""
        return isinstance(self._processor, SplittingProcessor)

    def split(self, goes: Callable[[str], bool]) -> tuple[bytes | None, list[Failure]]:
        """Take off the state of the content ids that go; None when that fails."""
        failures: list[Failure] = []
        if not isinstance(self._processor, SplittingProcessor):
            return None, failures
        try:
            part = self._processor.split(goes)
            if not isinstance(part, bytes):
                raise TypeError(f"a state is bytes, not {type(part).__name__}")
        except CAUGHT as error:
            self._go_back(failures)
            failures.append(Failure(describe(error)))
            return None, failures
        self._remember_state(failures)
        if failures:  # what is left cannot be saved: all of it stays
            self._go_back(failures)
            return None, failures
        return part, failures

    def run(self, batch: Sequence[Publication], spool: SpoolView) -> Outcome:
        """Process the messages at the end of the spool; never raises because of the processor."""
        if self._watch is None:
            return self._run(batch, spool)
        self._watch.enter(*self._names)
        outcome = self._run(batch, spool)
        self._watch.leave()
        return outcome

    def _run(self, batch: Sequence[Publication], spool: SpoolView) -> Outcome:
        outcome, state_before = Outcome(), self.state
        try:
            outcome.notifications = self.attempt(batch, spool)
            self._remember_state(outcome.failures)
        except CAUGHT as error:
            self._go_back(outcome.failures)
            if len(batch) == 1:
                outcome.failures.append(Failure(describe(error), batch[0]))
            else:
                self._one_by_one(batch, spool, outcome)
        if self.state != state_before:
            outcome.state = self.state
        self._read_counts(outcome)
        return outcome

    def _read_counts(self, outcome: Outcome) -> None:
        """Find what the processor has counted since it was asked last."""
        malformed = getattr(self._processor, "malformed", 0)
        if isinstance(malformed, int) and malformed != self._malformed:
            outcome.malformed = max(0, malformed - self._malformed)
            self._malformed = malformed
        refused = getattr(self._processor, "refused", None)
        if isinstance(refused, Counter) and refused != self._refused:
            for reason, count in refused.items():
                if isinstance(reason, str) and isinstance(count, int):
                    more = count - self._refused[reason]
                    if more > 0:
                        outcome.refused[reason] = more
                    self._refused[reason] = count

    def _one_by_one(self, batch: Sequence[Publication], spool: SpoolView, outcome: Outcome) -> None:
        """Find the poisonous messages, so that the others are not lost with them."""
        for number, message in enumerate(batch, start=spool.end - len(batch) + 1):
            try:
                outcome.notifications += self.attempt([message], spool.until(number))
                self._remember_state(outcome.failures)
            except CAUGHT as error:
                self._go_back(outcome.failures)
                outcome.failures.append(Failure(describe(error), message))

    def attempt(self, batch: Sequence[Publication], spool: SpoolView) -> list[Notification]:
        """Process a batch once; raises what the processor raises."""
        notifications = []
        own = set(map(id, batch))
        for one in self._processor.process(batch, spool):
            if not isinstance(one, Notification) or not isinstance(one.payload, bytes):
                raise TypeError(f"a processor returns Notification objects, not {one!r}")
            if id(one.cause) not in own:
                one = structs.replace(one, cause=_cause(one.cause, batch))
            notifications.append(one)
        return notifications

    def _remember_state(self, failures: list[Failure]) -> None:
        if self._stateful is None:
            return
        try:
            state = self._stateful.state()
            if not isinstance(state, bytes):
                raise TypeError(f"a state is bytes, not {type(state).__name__}")
            self.state = state
        except CAUGHT as error:
            failures.append(Failure(describe(error)))

    def _go_back(self, failures: list[Failure]) -> None:
        if self._stateful is None or self.state is None:
            return
        try:
            self._stateful.restore(self.state)
        except CAUGHT as error:
            failures.append(Failure(describe(error)))


def _cause(given: Publication | None, batch: Sequence[Publication]) -> Publication:
    if given is None:
        return batch[-1]
    for message in batch:
        if isinstance(given, Publication) and _identity(given) == _identity(message):
            return message
    # ids of notifications count from the cause: those of another batch would come twice
    raise TypeError("the cause of a notification is a message of the batch")
