"""The thread that makes groups durable, so that no sync ever holds up the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from nearcast.errors import SpoolError, SpoolFullError, SpoolLostError
from nearcast.spool.changes import Group
from nearcast.spool.log import SpoolLog

__all__ = ["SpoolWriter"]

_SPARE_CHECK_S = 1.0


class SpoolWriter:
    """Commits what was appended in rounds: while one round syncs, the next one gathers.

    `append` and the callbacks belong to the event loop's thread.

    Parameters
    ----------
    log
        An open log; the writer closes it.
    loop
        Where the callbacks are called.
    on_committed
        Gets the tickets of a round, in the order of `append`.
    on_lost
        Called once when the log is dead: the process must end, and a new one recover.
    clock
        What `oldest_wait_s` counts in.
    gather_s
        Least time from a round of several groups to the next one: many small rounds cost more
        than they bring. Who publishes one by one does not wait.
    retry_s
        Wait between tries while the disk is full.
    seal_after_s
        Quiet time after which the last round is sealed.
    """

    def __init__(
        self,
        log: SpoolLog,
        loop: asyncio.AbstractEventLoop,
        on_committed: Callable[[list[int]], None],
        on_lost: Callable[[Exception], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        gather_s: float = 0.005,
        retry_s: float = 1.0,
        seal_after_s: float = 1.0,
    ) -> None:
        self._log, self._loop, self._clock = log, loop, clock
        self._on_committed, self._on_lost = on_committed, on_lost
        self._gather_s, self._retry_s, self._seal_after_s = gather_s, retry_s, seal_after_s
        self.is_full = False
        """The disk has no room; groups wait until there is."""
        self._appended_s: deque[float] = deque()  # of each group that is not durable yet
        self._durable: deque[int] = deque()  # from the thread to the loop
        self._sync_s: deque[float] = deque(maxlen=10_000)
        self._round_groups = 0  # of the last round
        self._error: Exception | None = None
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="spool-writer", daemon=True)
        self._thread.start()

    @property
    def uncommitted(self) -> int:
        """Groups that are not durable yet."""
        return len(self._appended_s)

    def append(self, group: Group) -> None:
        """Queue a group; `on_committed` tells when it is durable."""
        self._appended_s.append(self._clock())
        with contextlib.suppress(SpoolLostError):  # `on_lost` tells it
            self._log.append(group)
        if not self._wake.is_set():
            self._wake.set()

    def oldest_wait_s(self, now: float | None = None) -> float:
        """Return how long the oldest group that is not durable has waited."""
        if not self._appended_s:
            return 0.0
        return max(0.0, (self._clock() if now is None else now) - self._appended_s[0])

    def take_sync_seconds(self) -> list[float]:
        """Return how long each round took since the last call, at most the last 10,000."""
        return [self._sync_s.popleft() for _ in range(len(self._sync_s))]

    def close(self) -> None:
        """Commit what is queued and close the log; in any thread, and more than once.

        The last callbacks come in the loop's next pass.
        """
        self._closing.set()
        self._wake.set()
        self._thread.join()

    def _report(self) -> None:
        tickets = [self._durable.popleft() for _ in range(len(self._durable))]
        for _ in tickets:
            self._appended_s.popleft()
        if tickets:
            self._on_committed(tickets)
        if self._error is not None:
            error, self._error = self._error, None
            self._on_lost(error)

    # from here on: in the thread

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            # a bug counts as well: a server that can no longer store must not go on
            self._error = error
            self._tell_loop()
        finally:
            with contextlib.suppress(SpoolError):  # all that was acknowledged is synced
                self._log.close()

    def _work(self) -> None:
        self._prepare_spare()
        checked_s = began_s = time.monotonic()
        is_resting = False
        while True:
            is_quiet = not self._wake.wait(None if is_resting else self._seal_after_s)
            early_s = began_s + self._gather_s - time.monotonic()
            if early_s > 0 and self._round_groups > 1:
                self._closing.wait(early_s)
            began_s = time.monotonic()
            self._wake.clear()
            is_last = self._closing.is_set()  # asked first: nothing is appended after it
            if self._log.queued and not self._commit() and not is_last:
                self._closing.wait(self._retry_s)
                self._wake.set()
            if is_last:
                return
            is_resting = is_quiet
            if is_quiet:
                with contextlib.suppress(SpoolFullError):
                    self._log.seal()
            if not self._log.queued and time.monotonic() - checked_s > _SPARE_CHECK_S:
                self._prepare_spare()
                checked_s = time.monotonic()

    def _commit(self) -> bool:
        started_s = time.monotonic()
        try:
            tickets = self._log.commit()
        except SpoolFullError:
            self.is_full = True
            return False
        self._sync_s.append(time.monotonic() - started_s)
        self._round_groups = len(tickets)
        self.is_full = False
        self._durable.extend(tickets)
        self._tell_loop()
        return True

    def _prepare_spare(self) -> None:
        with contextlib.suppress(SpoolFullError):  # the next commit will tell
            self._log.prepare_spare()

    def _tell_loop(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._report)
