"""The process that makes a server's groups durable, so that no sync ever holds up its loop.

Started by `spool_writer` as ``python -m nearcast.runtime.spool_process``. It ends with the stream
from the server: whatever came before the end, even of a server that was killed, is committed.
"""

from __future__ import annotations

import contextlib
import math
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from nearcast.errors import SpoolError, SpoolFullError
from nearcast.links.garbage import freeze_gc
from nearcast.links.real_disk import RealDisk
from nearcast.runtime.helper_scheduling import yield_to_server
from nearcast.runtime.pipe_frames import FrameReader
from nearcast.runtime.spool_frames import (
    Answer,
    Committed,
    Full,
    Lost,
    Refused,
    decode_groups,
    frame,
    recovery_frames,
)
from nearcast.runtime.watchdog import Watchdog
from nearcast.spool.disk import Disk
from nearcast.spool.log import SpoolLog, SpoolSettings

__all__ = ["SpoolProcessSettings", "serve"]

_LOOK_AFTER_S = 1.0
_RECENT_S = 0.2
_ROUND_BYTES = 4 << 20
"""What is read for one round at most; more waits, and is seen to wait, in the server."""
_LOCK_WAIT_S = 5.0
"""For the process of a server that was killed: it only has a last round to sync."""
_HANG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)


class SpoolProcessSettings(msgspec.Struct, frozen=True):
    """How a spool is written."""

    folder: str
    segment_bytes: int = 64 << 20
    gather_s: float = 0.005
    """Least time from a round of several groups to the next one, while many come: small rounds
    cost more than they bring then. A client that publishes alone does not wait."""
    gather_above_hz: float = 600.0
    """Groups per second that are many; what waits for fewer is done sooner."""
    retry_s: float = 1.0
    """Wait between tries while the disk is full."""
    seal_after_s: float = 1.0
    """Quiet time after which the last round is sealed."""


class _RecentRate:
    """How many come per second, the last tenths of a second above all."""

    def __init__(self) -> None:
        self._count, self._at_s = 0.0, -math.inf

    def add(self, count: int, now_s: float) -> None:
        """Count what has come."""
        self._count = self._count * math.exp((self._at_s - now_s) / _RECENT_S) + count
        self._at_s = now_s

    @property
    def hz(self) -> float:
        """The rate when something was counted last."""
        return self._count / _RECENT_S


class _Rounds:
    """Commits what came in rounds: while one round syncs, the next one gathers in the socket."""

    def __init__(
        self,
        sock: socket.socket,
        log: SpoolLog,
        settings: SpoolProcessSettings,
        watchdog: Watchdog | None,
    ) -> None:
        self._socket, self._log, self._settings = sock, log, settings
        self._watchdog = watchdog
        self._reader = FrameReader(sock)
        self._readable, self._hang_up = select.poll(), select.poll()
        self._readable.register(sock, select.POLLIN)
        self._hang_up.register(sock, _HANG_UP)
        self._round_groups, self._rate = 0, _RecentRate()

    def run(self) -> None:
        """Work until the stream ends."""
        self._look_after()
        checked_s = began_s = time.monotonic()
        is_resting = False
        while True:
            is_quiet = not self._wait(is_resting)
            early_s = began_s + self._settings.gather_s - time.monotonic()
            if not is_quiet and early_s > 0 and self._are_many:
                # asleep until then, however often the server writes
                self._hang_up.poll(early_s * 1e3)
            began_s = time.monotonic()
            is_last = not is_quiet and not self._receive()
            if self._log.queued and not self._commit() and not is_last:
                self._hang_up.poll(self._settings.retry_s * 1e3)
            if is_last:
                while self._log.queued and self._commit():
                    pass
                return
            if is_quiet and not is_resting:
                with contextlib.suppress(SpoolFullError):
                    self._log.seal()
            is_resting = is_quiet
            if not self._log.queued and began_s - checked_s > _LOOK_AFTER_S:
                self._look_after()
                checked_s = began_s

    @property
    def _are_many(self) -> bool:
        return self._round_groups > 1 and self._rate.hz > self._settings.gather_above_hz

    def _wait(self, is_resting: bool) -> bool:
        """Wait for something to do; False when nothing came for `seal_after_s`."""
        if self._log.queued:  # the disk was full
            return True
        ends_at = float("inf") if is_resting else time.monotonic() + self._settings.seal_after_s
        while (now_s := time.monotonic()) < ends_at:
            wait_s = ends_at - now_s
            if self._watchdog is not None:
                wait_s = min(wait_s, self._watchdog.look(now_s))
            if self._readable.poll(None if wait_s == float("inf") else wait_s * 1e3):
                return True
        return False

    def _receive(self) -> bool:
        """Queue what has come; False when it was the last."""
        taken_bytes = 0
        while taken_bytes < _ROUND_BYTES:
            try:
                size, frames = self._reader.read(socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:  # the server was killed
                return False
            if not size:
                return False
            for one in frames:
                for group in decode_groups(one):
                    self._log.append(group)
            taken_bytes += size
            if not self._reader.was_filled:  # nothing is left, and a look would tell no more
                return True
        return True

    def _commit(self) -> bool:
        started_s = time.monotonic()
        try:
            groups = len(self._log.commit())
        except SpoolFullError:
            _answer(self._socket, Full())
            return False
        self._round_groups = groups
        self._rate.add(groups, started_s)
        _answer(self._socket, Committed(groups, time.monotonic() - started_s))
        return True

    def _look_after(self) -> None:
        """Do what need not be done at each commit."""
        with contextlib.suppress(SpoolFullError):  # the next commit will tell
            self._log.prepare_spare()
            self._log.note_end()


def serve(
    sock: socket.socket,
    open_disk: Callable[[], Disk],
    settings: SpoolProcessSettings,
    watchdog: Watchdog | None = None,
) -> None:
    """Recover, tell what is alive, and commit what comes until the stream ends."""
    try:
        log = SpoolLog.open(open_disk(), SpoolSettings(segment_bytes=settings.segment_bytes))
    except SpoolError as error:
        _answer(sock, Refused(str(error), isinstance(error, SpoolFullError)))
        return
    try:
        with contextlib.suppress(OSError):  # the server is gone already
            for piece in recovery_frames(log.recovered):
                sock.sendall(piece)
        freeze_gc()  # a round would look through all that is alive every few milliseconds
        _Rounds(sock, log, settings, watchdog).run()
    except Exception as error:
        # a bug counts as well: a server that can no longer store must not go on
        _answer(sock, Lost(str(error) or repr(error)))
    finally:
        with contextlib.suppress(SpoolError):  # all that was acknowledged is synced
            log.close()


def _answer(sock: socket.socket, answer: Answer) -> None:
    with contextlib.suppress(OSError):  # nobody hears it any more
        sock.sendall(frame(answer))


def main(descriptor: int, settings_json: str, *watchdog: str) -> None:
    """Write the spool of the server at the other end of a socket."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the server decides when all ends
        signal.signal(number, signal.SIG_IGN)
    yield_to_server()
    settings = msgspec.json.decode(settings_json, type=SpoolProcessSettings)
    with socket.socket(fileno=descriptor) as sock:
        serve(
            sock,
            lambda: RealDisk(Path(settings.folder), _LOCK_WAIT_S),
            settings,
            Watchdog.from_argument(watchdog[0]) if watchdog else None,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
