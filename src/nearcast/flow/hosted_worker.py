"""An instance's processor in the host process: batches on their way, and states that come back.

The server has the last good state, so a host that hangs or dies costs no more than what it was
working at. Its messages are tried again one by one; one that ends the host alone, twice, is set
aside: once may be somebody else's doing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from nearcast.broker.guard import ProcessorGuard
from nearcast.broker.processing import Outcome
from nearcast.broker.requests import Ending, Failure, MadeProcessor, ProcessRequest, ProcessResult
from nearcast.broker.topic_settings import TopicSettings
from nearcast.flow.queued import Queued
from nearcast.flow.shedding import Splits
from nearcast.flow.worker import OnOutcome, splits_of

__all__ = ["HostedWorker"]

_MOST_IN_FLIGHT = 4
"""Batches on their way: one in work, and the next ones at hand."""
_WARY_S = 10.0
"""How long no states of others are taken in after one that ended the host: it may be a lie."""
_NEVER = float("inf")


class _Kind(Enum):
    LOAD = auto()
    BATCH = auto()
    CALL = auto()
    SPLIT = auto()
    MERGE = auto()
    RESTORE = auto()


@dataclass(slots=True, eq=False)
class _Job:
    kind: _Kind
    batch: Sequence[Queued] = ()
    on_outcome: OnOutcome | None = None
    is_single: bool = False
    """Whether it goes alone: the host has ended at it before."""
    was_alone: bool = False
    """Whether that was at this message alone."""
    call: Callable[[], None] | None = None
    bounds: tuple[int, int] | None = None
    on_part: Callable[[bytes | None], bool] | None = None
    state: bytes | None = None
    on_taken: Callable[[bool], bool] | None = None
    request: int = 0
    """What the host was asked."""


class HostedWorker:
    """A processor in the host process.

    Parameters
    ----------
    settings
        What the host has to know; its topic is the name of the instance.
    state
        To begin from; None: from nothing.
    ask
        Takes requests for the host; `on_result` wants each one's result.
    clock
        The time now.
    failures
        Gets what goes wrong.
    """

    is_hosted = True

    def __init__(
        self,
        settings: TopicSettings,
        state: bytes | None,
        ask: Callable[[ProcessRequest], None],
        clock: Callable[[], float],
        failures: list[Failure],
    ) -> None:
        self._settings, self._ask, self._clock, self._failures = settings, ask, clock, failures
        self.state = state
        self.initial: bytes | None = None
        self._made: MadeProcessor | None = None
        self.problem, self.set_aside = "", 0
        self._guard = ProcessorGuard(settings.guard)
        self._jobs: deque[_Job] = deque()
        self._asked = 0
        """How many of the first jobs are with the host."""
        self._request = 0
        self._has_host = False
        """Whether the host has the processor with the state as it is here."""
        self._is_pursuing = False
        self._wary_until_s = 0.0
        self.pursue()

    @property
    def splits(self) -> Splits:
        """How its state may be divided; before the host has said so, not at all."""
        made = self._made
        if made is None:
            return Splits.WHOLE
        return splits_of(made.initial is not None, made.can_split, made.can_merge)

    @property
    def has_room(self) -> bool:
        """Whether it takes a batch now: not while a state is to be divided."""
        return (
            self._made is not None
            and not self.problem
            and len(self._jobs) < _MOST_IN_FLIGHT
            and all(one.kind is _Kind.BATCH for one in self._jobs)
            and not self._rests()
        )

    @property
    def wake_at(self) -> float:
        """When to `pursue`: a processor that ended the host too often has to rest."""
        rests_until_s = self._guard.rests_until_s
        return _NEVER if rests_until_s is None or self.problem else rests_until_s

    @property
    def is_troubled(self) -> bool:
        """Whether messages are tried one by one since its process ended, or it rests."""
        return self._guard.rests_until_s is not None or any(one.is_single for one in self._jobs)

    # What is wanted

    def process(self, batch: Sequence[Queued], then: OnOutcome) -> None:
        """Process messages after all that was wanted before."""
        self._jobs.append(_Job(_Kind.BATCH, batch, then))
        self.pursue()

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call something once all that was begun is done."""
        self._jobs.append(_Job(_Kind.CALL, call=call))
        self.pursue()

    def split(self, low: int, high: int, then: Callable[[bytes | None], bool]) -> None:
        """Take off the state of a range of indexes."""
        self._jobs.appendleft(_Job(_Kind.SPLIT, bounds=(low, high), on_part=then))

    def take_in(self, state: bytes, then: Callable[[bool], bool]) -> None:
        """Go on from another state as well."""
        if self.problem or self._clock() < self._wary_until_s:
            detail = self.problem or "a state that was to be taken in has just ended its process"
            self._failures.append(Failure(detail))
            then(False)
            return
        kind = _Kind.RESTORE if self.state == self.initial else _Kind.MERGE
        self._jobs.appendleft(_Job(kind, state=state, on_taken=then))

    def begin_anew(self) -> None:
        """Forget the state."""
        self.state, self._has_host = self.initial, False

    def close(self) -> None:
        """Have the host forget the processor."""
        self._jobs.clear()
        self._asked = 0
        self._ask(ProcessRequest(self._settings, 0, (), (), ended=True))

    def pursue(self) -> None:
        """Give the host what it may have now."""
        if self._is_pursuing:  # a call wants something: it is seen to below
            return
        self._is_pursuing = True
        try:
            while self._next():
                pass
        finally:
            self._is_pursuing = False

    def _next(self) -> bool:
        """Take one more step, if there is one."""
        jobs = self._jobs
        if not self._asked and jobs and jobs[0].kind is _Kind.CALL:
            if self._made is None and not self.problem:
                return self._load()
            call = jobs.popleft().call
            assert call is not None
            call()
            return True
        if self.problem or self._rests():
            return False
        if not self._has_host and not self._asked:
            is_restore = bool(jobs) and jobs[0].kind is _Kind.RESTORE
            if is_restore:
                return self._submit()
            return self._load() if jobs or self._made is None else False
        return self._may_submit() and self._submit()

    def _may_submit(self) -> bool:
        jobs, asked = self._jobs, self._asked
        if asked >= min(len(jobs), _MOST_IN_FLIGHT):
            return False
        together = not jobs[asked].is_single and jobs[asked].kind is _Kind.BATCH
        return not asked or (together and jobs[0].kind is _Kind.BATCH and not jobs[0].is_single)

    def _load(self) -> bool:
        if self._rests():
            return False
        self._jobs.appendleft(_Job(_Kind.LOAD))
        return self._submit()

    def _submit(self) -> bool:
        job = self._jobs[self._asked]
        self._asked += 1
        self._request += 1
        job.request = self._request
        is_first = job.kind in (_Kind.LOAD, _Kind.RESTORE)
        self._has_host = True
        self._ask(
            ProcessRequest(
                self._settings,
                job.request,
                (),
                tuple(one.publication for one in job.batch),
                job.state if job.kind is _Kind.RESTORE else self.state,
                first=is_first,
                split=job.bounds,
                merge=job.state if job.kind is _Kind.MERGE else None,
            )
        )
        return True

    def _rests(self) -> bool:
        return not self._guard.may_run(0, self._clock())[0]

    # What came of it

    def on_result(self, result: ProcessResult) -> None:
        """Take what the host made of the job that it had longest."""
        if not self._asked or self._jobs[0].request != result.request:
            return  # of an earlier try
        if result.ending is Ending.DONE:
            self._asked -= 1
            self._on_done(self._jobs.popleft(), result)
        else:
            self._on_lost(result)
        self.pursue()

    def _on_done(self, job: _Job, result: ProcessResult) -> None:
        if job.kind is _Kind.BATCH:
            assert job.on_outcome is not None
            if result.state is not None:
                self.state = result.state
            self._guard.ended(result.elapsed_s, self._clock())
            outcome = Outcome(
                list(result.notifications), result.state, list(result.failures), result.malformed
            )
            job.on_outcome(job.batch, outcome, result.elapsed_s)
            return
        self._failures += result.failures
        if job.kind is _Kind.LOAD:
            self._on_loaded(result)
        elif job.on_part is not None:
            part = None if result.failures else result.part
            is_kept = job.on_part(part) and part is not None
            self._keep(result.state if is_kept else None)
        elif job.on_taken is not None:
            is_possible = not result.failures
            is_kept = job.on_taken(is_possible) and is_possible
            became = job.state if job.kind is _Kind.RESTORE else result.state or self.state
            self._keep(became if is_kept else None)

    def _on_loaded(self, result: ProcessResult) -> None:
        made = result.made
        if made is None or made.problem or result.failures:
            # to go on from nothing would lose what its state says
            self._has_host = False
            if self._made is not None:  # it could be made before: it is tried again later
                self._count_end()
                return
            said = [made.problem if made else "", *(one.detail for one in result.failures)]
            self.problem = next(filter(None, said), "its process says nothing of it")
            return
        self._made, self.initial = made, made.initial
        if self.state is None or made.initial is None:
            self.state = made.initial

    def _keep(self, state: bytes | None) -> None:
        """Go on from a state that the host has made; None: from the one before."""
        if state is None:
            self._has_host = False
        else:
            self.state = state

    def _count_end(self) -> None:
        now = self._clock()
        self._guard.killed(now)
        rests_until_s = self._guard.rests_until_s
        if rests_until_s is not None:
            text = f"its process ended too often: it rests for {rests_until_s - now:g} s"
            self._failures.append(Failure(text))

    def _on_lost(self, result: ProcessResult) -> None:
        """Go on without what the host had: it hung or died, maybe at the first job."""
        self._asked, self._has_host = 0, False
        job = self._jobs[0]
        if job.kind is _Kind.LOAD:
            self._jobs.popleft()  # it is loaded again when it may be
        if result.ending is Ending.CANCELLED:
            return
        if job.on_taken is not None:  # what another server sent must not bring it to rest
            self._wary_until_s = self._clock() + _WARY_S
        elif not job.was_alone:  # what is tried again was counted: rests in between would add up
            self._count_end()
        detail = f"{result.detail or result.ending.value}"
        if job.kind is not _Kind.BATCH:
            self._failures.append(Failure(f"{detail} at {job.kind.name.lower()}"))
            if job.kind is not _Kind.LOAD:
                self._jobs.popleft()
            if job.on_part is not None:
                job.on_part(None)
            elif job.on_taken is not None:
                job.on_taken(False)
            return
        self._jobs.popleft()
        assert job.on_outcome is not None
        if job.was_alone:
            self.set_aside += 1
            cause = job.batch[0].publication
            text = f"set aside: {detail} at {cause.publisher} {cause.epoch}/{cause.sequence}"
            failed = Outcome(failures=[Failure(f"{text} of {cause.topic!r}", cause)])
            job.on_outcome(job.batch, failed, 0.0)
            return
        self._failures.append(Failure(f"{detail} at {len(job.batch)} messages"))
        was_alone = len(job.batch) == 1
        self._jobs.extendleft(
            _Job(_Kind.BATCH, (one,), job.on_outcome, is_single=True, was_alone=was_alone)
            for one in reversed(job.batch)
        )
