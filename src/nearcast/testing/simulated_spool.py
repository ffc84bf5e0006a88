"""The process that writes a simulated server's spool: the true log, a made-up disk and time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from nearcast.errors import SpoolError, SpoolFullError
from nearcast.spool.changes import Group, LiveState
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.spool.recovery import Recovery, recover
from nearcast.testing.fake_disk import FakeDisk, PowerCutError

__all__ = ["SimulatedSpool"]

_RETRY_S = 1.0
_SEAL_AFTER_S = 1.0


class SimulatedSpool:
    """Commits in rounds, as `runtime.spool_process` does: while one syncs, the next one gathers.

    Parameters
    ----------
    later
        Calls something after some seconds.
    on_committed
        Is told the tickets of a round.
    on_lost
        The log or the machine's power is gone: the server has to end.
    """

    def __init__(
        self,
        disk: FakeDisk,
        segment_bytes: int,
        sync_s: Callable[[], float],
        later: Callable[[float, Callable[[], None]], None],
        on_committed: Callable[[list[int]], None],
        on_lost: Callable[[Exception], None],
    ) -> None:
        self.disk = disk
        self._settings = SpoolSettings(segment_bytes=segment_bytes)
        self._sync_s, self._later = sync_s, later
        self._on_committed, self._on_lost = on_committed, on_lost
        self._log: SpoolLog | None = None
        self._waiting: list[Group] = []
        self._rounds = 0
        self._busy = False

    @property
    def stored(self) -> LiveState:
        """What a recovery would find now."""
        return recover(self.disk).state

    def open(self) -> Recovery:
        """Recover; SpoolError or PowerCutError when that fails."""
        self._log, self._busy = SpoolLog.open(self.disk, self._settings), False
        found = self._log.recovered
        # the log goes on with its own state, in another process
        found.state, state = LiveState(), found.state
        for change in state.changes():
            found.state.apply(change)
        return found

    def append(self, groups: Iterable[Group]) -> None:
        """Take groups; they are durable when `on_committed` has said so."""
        self._waiting += groups
        self._begin_round(self._sync_s())

    def kill(self) -> None:
        """Write what the server had handed over before it was killed, and end."""
        log, self._log = self._log, None
        if log is not None:
            with contextlib.suppress(SpoolError, PowerCutError):
                self._hand_over(log)
                log.commit()
                log.close()

    def cut_power(self) -> None:
        """Lose what was not synced, as the machine loses its power."""
        self._log, self._waiting = None, []
        self.disk.restart()

    def _hand_over(self, log: SpoolLog) -> None:
        waiting, self._waiting = self._waiting, []
        for group in waiting:
            log.append(group)

    def _begin_round(self, after_s: float) -> None:
        log = self._log
        if not self._busy and log is not None:
            self._busy = True
            self._rounds += 1
            self._hand_over(log)
            self._later(after_s, lambda: self._end_round(log))

    def _end_round(self, log: SpoolLog) -> None:
        if log is not self._log:
            return  # of an earlier incarnation of the server
        self._busy = False
        try:
            tickets = log.commit()
        except SpoolFullError:
            self._begin_round(_RETRY_S)
            return
        except (SpoolError, PowerCutError) as error:
            self._on_lost(error)
            return
        rounds = self._rounds
        if self._waiting:
            self._begin_round(self._sync_s())
        else:
            self._later(_SEAL_AFTER_S, lambda: self._seal(log, rounds))
        if tickets:
            self._on_committed(tickets)

    def _seal(self, log: SpoolLog, rounds: int) -> None:
        """Seal the last round when nothing came since."""
        if log is self._log and rounds == self._rounds:
            try:
                with contextlib.suppress(SpoolFullError):
                    log.seal()
                    log.prepare_spare()
            except (SpoolError, PowerCutError) as error:
                self._on_lost(error)
