"""The server's side of the process that writes its spool: groups out, tickets back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from nearcast.errors import SpoolError, SpoolFullError, SpoolLostError
from nearcast.runtime.helper_process import HelperProcess, Launch
from nearcast.runtime.spool_frames import (
    Committed,
    Full,
    Lost,
    Opened,
    Piece,
    Refused,
    decode_answer,
    groups_frame,
)
from nearcast.runtime.spool_process import SpoolProcessSettings
from nearcast.runtime.watchdog import WatchdogSettings
from nearcast.spool.changes import Group, LiveState
from nearcast.spool.recovery import Recovery

__all__ = ["SpoolWriter"]

_log = logging.getLogger(__name__)
_END_WITHIN_S = 60.0
_SYNC_TIMES = 10_000


class SpoolWriter:
    """Commits what was appended in rounds, in a process of its own.

    Parameters
    ----------
    settings
        How the spool is written.
    on_committed
        Gets the tickets of a round, in the order of `append_all`.
    on_lost
        Called once when the spool is dead: the server must end, and a new one recover.
    clock
        What `oldest_wait_s` counts in.
    watchdog
        Have the process watch the server's loop, too.
    launch
        Starts the other side; a test gives one with a disk that fails.
    """

    def __init__(
        self,
        settings: SpoolProcessSettings,
        on_committed: Callable[[list[int]], None],
        on_lost: Callable[[Exception], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        watchdog: WatchdogSettings | None = None,
        launch: Launch | None = None,
    ) -> None:
        self._settings, self._watchdog = settings, watchdog
        self._on_committed, self._on_lost, self._clock = on_committed, on_lost, clock
        self._launch = launch or self._start_process
        self.is_full = False
        """The disk has no room; groups wait until there is."""
        self._tickets: deque[int] = deque()  # of each group that is not durable yet
        self._appended_s: deque[float] = deque()  # the same groups
        self._unsent: list[Group] = []
        self._sync_s: deque[float] = deque(maxlen=_SYNC_TIMES)
        self._state: LiveState | None = LiveState()  # what came of the recovery until now
        self._is_closing = self._is_lost = False

    async def start(self) -> Recovery:
        """Start the process and return what it recovered.

        Raises
        ------
        SpoolError
            When the spool cannot be opened; SpoolFullError for lack of room.
        """
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[Recovery] = self._loop.create_future()
        self._ended = asyncio.Event()
        try:
            self._helper = self._launch(self._on_frames, self._on_end)
        except OSError as error:
            raise SpoolError(f"the process that writes the spool cannot start: {error}") from error
        try:
            return await self._opened
        except BaseException:
            self._is_closing = True
            self._helper.link.end()
            await self._helper.wait(_END_WITHIN_S)
            raise

    @property
    def uncommitted(self) -> int:
        """Groups that are not durable yet."""
        return len(self._tickets)

    def append_all(self, groups: Sequence[Group]) -> None:
        """Queue the groups of a whole pass, and hand them over at once."""
        self._tickets.extend([group.ticket for group in groups])
        self._appended_s.extend([self._clock()] * len(groups))
        self._unsent += groups
        self._send()

    def oldest_wait_s(self, now: float | None = None) -> float:
        """Return how long the oldest group that is not durable has waited."""
        if not self._appended_s:
            return 0.0
        return max(0.0, (self._clock() if now is None else now) - self._appended_s[0])

    def take_sync_seconds(self) -> list[float]:
        """Return how long each round took since the last call, at most the last 10,000."""
        taken = list(self._sync_s)
        self._sync_s.clear()
        return taken

    async def close(self) -> None:
        """Commit what is queued and end the process; may be called more than once."""
        if not self._is_closing:
            self._is_closing = True
            self._send()
            self._helper.link.end()
        if not self._is_lost:
            async with asyncio.timeout(_END_WITHIN_S):
                await self._ended.wait()
        await self._helper.wait(_END_WITHIN_S)

    def _start_process(
        self, on_frames: Callable[[list[bytes]], None], on_lost: Callable[[str], None]
    ) -> HelperProcess:
        arguments = [msgspec.json.encode(self._settings).decode()]
        if self._watchdog is not None:
            arguments.append(self._watchdog.argument())
        return HelperProcess(
            self._loop,
            "nearcast.runtime.spool_process",
            arguments,
            on_frames,
            on_lost,
            pass_fds=[] if self._watchdog is None else [self._watchdog.descriptor],
        )

    def _send(self) -> None:
        if self._unsent:
            groups, self._unsent = self._unsent, []
            self._helper.link.send(groups_frame(groups))

    def _on_frames(self, frames: list[bytes]) -> None:
        durable = 0
        for frame in frames:
            match decode_answer(frame):
                case Committed(groups, sync_s):
                    self.is_full = False
                    self._sync_s.append(sync_s)
                    durable += groups
                case Full():
                    self.is_full = True
                case Lost(reason):
                    self._loop.call_soon(self._lose, SpoolLostError(reason))
                case Piece(change) if self._state is not None:
                    self._state.apply(change)
                case Opened() as opened if self._state is not None:
                    state, self._state = self._state, None
                    recovery = opened.recovery(state)
                    _tell(recovery)
                    self._opened.set_result(recovery)
                case Refused(reason, is_full):
                    kind = SpoolFullError if is_full else SpoolError
                    self._opened.set_exception(kind(reason))
        if durable:
            take, forget = self._tickets.popleft, self._appended_s.popleft
            tickets = [take() for _ in range(durable)]
            for _ in tickets:
                forget()
            self._on_committed(tickets)  # last: a bug there must not cost a count here

    def _on_end(self, reason: str) -> None:
        self._ended.set()
        error = SpoolLostError(f"the spool is not written any more, {reason}")
        if not self._opened.done():
            self._opened.set_exception(error)
        elif not self._is_closing:
            self._lose(error)

    def _lose(self, error: SpoolLostError) -> None:
        if not self._is_lost and not self._is_closing:
            self._is_lost = True
            self._on_lost(error)


def _tell(recovery: Recovery) -> None:
    """Log what a spool has lost, and what does not belong there."""
    for damage in recovery.damages:
        _log.warning("spool_damage", extra={"fields": {"damage": repr(damage)}})
    if recovery.foreign:
        fields = {"count": len(recovery.foreign), "first": recovery.foreign[0]}
        _log.warning("foreign_files_in_spool", extra={"fields": fields})
