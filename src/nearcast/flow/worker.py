"""Where an instance's processor runs: in the server's loop, or in the host process.

What is wanted of a worker is done in the order in which it was wanted. One in the loop has done it
when a call returns; one in the host process calls back later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from nearcast.broker.processing import Outcome, ProcessorRunner
from nearcast.broker.requests import Failure
from nearcast.broker.topic_spool import TopicSpool
from nearcast.flow.queued import Queued
from nearcast.flow.shedding import Splits
from nearcast.routing.index_mapping import content_index

__all__ = ["InlineWorker", "OnOutcome", "Worker", "splits_of"]

OnOutcome = Callable[[Sequence[Queued], Outcome, float], None]
"""Takes messages, what became of them, and how long that took in seconds."""
_NEVER = float("inf")


class Worker(Protocol):
    """An instance's processor with its last good state."""

    @property
    def state(self) -> bytes | None:
        """The last good state; None for a processor that keeps none."""

    @property
    def initial(self) -> bytes | None:
        """The state of one that has processed nothing."""

    @property
    def splits(self) -> Splits:
        """How its state may be divided."""

    @property
    def is_hosted(self) -> bool:
        """Whether it runs outside the server's loop."""

    @property
    def has_room(self) -> bool:
        """Whether it takes a batch now."""

    @property
    def wake_at(self) -> float:
        """When to `pursue` at the latest."""

    @property
    def problem(self) -> str:
        """Why it cannot process anything; empty: it can."""

    @property
    def set_aside(self) -> int:
        """Messages that ended its process, and are not processed."""

    @property
    def is_troubled(self) -> bool:
        """Whether messages wait because its process ended, not because there is much to do."""

    def process(self, batch: Sequence[Queued], then: OnOutcome) -> None:
        """Process messages; `then` hears of all of them, in one piece or in several."""

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call something once all that was begun is done; nothing is begun until that is over."""

    def split(self, low: int, high: int, then: Callable[[bytes | None], bool]) -> None:
        """Take off the state of a range of indexes; only within a call of `when_idle`.

        `then` gets it, None when that fails, and returns whether it is to be so.
        """

    def take_in(self, state: bytes, then: Callable[[bool], bool]) -> None:
        """Go on from another state as well; only within a call of `when_idle`.

        `then` hears whether that is possible, and returns whether it is to be so.
        """

    def begin_anew(self) -> None:
        """Forget the state; only within a call of `when_idle`."""

    def pursue(self) -> None:
        """Go on with what waits, if it is time."""

    def close(self) -> None:
        """Let go of the processor."""


def splits_of(has_state: bool, can_split: bool, can_merge: bool) -> Splits:
    """Return how a processor's state may be divided."""
    if not has_state:
        return Splits.ANYWHERE
    return Splits.ALL_NETS if can_split and can_merge else Splits.WHOLE


class InlineWorker:
    """A processor in the server's own loop.

    Parameters
    ----------
    spool
        Messages that the processor sees, its batch included.
    failures
        Gets what goes wrong.
    """

    is_hosted, has_room, wake_at, problem, set_aside = False, True, _NEVER, "", 0
    is_troubled = False

    def __init__(
        self,
        runner: ProcessorRunner,
        state: bytes | None,
        spool: int,
        clock: Callable[[], float],
        failures: list[Failure],
    ) -> None:
        self._runner, self._clock, self._failures = runner, clock, failures
        self._spool = TopicSpool(spool)
        failures += runner.restore(state)

    @property
    def state(self) -> bytes | None:
        """The last good state."""
        return self._runner.state

    @property
    def initial(self) -> bytes | None:
        """The state of one that has processed nothing."""
        return self._runner.initial

    @property
    def splits(self) -> Splits:
        """How its state may be divided."""
        runner = self._runner
        return splits_of(runner.state is not None, runner.can_split, runner.can_merge)

    def process(self, batch: Sequence[Queued], then: OnOutcome) -> None:
        """Process messages now."""
        began_s = self._clock()
        for one in batch:
            self._spool.append(one.publication)
        outcome = self._runner.run([one.publication for one in batch], self._spool.view())
        then(batch, outcome, self._clock() - began_s)

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call something now."""
        call()

    def split(self, low: int, high: int, then: Callable[[bytes | None], bool]) -> None:
        """Take off the state of a range of indexes."""
        before = self._runner.state
        part, failures = self._runner.split(partial(_is_within, low, high))
        self._failures += failures
        if not then(part) and part is not None:
            self._failures += self._runner.restore(before)

    def take_in(self, state: bytes, then: Callable[[bool], bool]) -> None:
        """Go on from another state as well."""
        runner, before = self._runner, self._runner.state
        if before == runner.initial:
            failures = runner.restore(state)
        else:
            merged = runner.merge(state)
            failures = [Failure("the processor cannot merge states")] if merged is None else merged
        self._failures += failures
        if not then(not failures) and not failures:
            self._failures += runner.restore(before)

    def begin_anew(self) -> None:
        """Forget the state."""
        self._failures += self._runner.restore(self._runner.initial)

    def pursue(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """Nothing is to be let go."""


def _is_within(low: int, high: int, content_id: str) -> bool:
    index = content_index(content_id)
    return index is not None and low <= index < high
