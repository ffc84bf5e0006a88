"""A helper process of a server: how it is started with a link to it, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from nearcast.runtime.helper_link import HelperLink

__all__ = ["Helper", "HelperProcess", "Launch"]

_REAP_INTERVAL_S = 0.02


class Helper(Protocol):
    """What the owner of a helper process uses of it; a test may give another one."""

    @property
    def link(self) -> HelperLink:
        """The frames to and from it."""
        ...

    def kill(self, wait_s: float = 0.0) -> None:
        """End it at once."""
        ...

    async def wait(self, timeout_s: float) -> None:
        """Wait for its end."""
        ...


Launch = Callable[[Callable[[list[bytes]], None], Callable[[str], None]], Helper]
"""Starts a helper, which calls back with frames, and with the reason when it is gone."""


class HelperProcess:
    """``python -m MODULE DESCRIPTOR ARGUMENTS`` in a process group of its own, and its link.

    Parameters
    ----------
    on_frames, on_lost, longest_bytes
        As for `HelperLink`.
    pass_fds
        Further descriptors that it inherits.
    is_lean
        Leave out Python's `site`, which only users' code may need.

    Raises
    ------
    OSError
        When it cannot be started.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        module: str,
        arguments: Sequence[str],
        on_frames: Callable[[list[bytes]], None],
        on_lost: Callable[[str], None],
        *,
        longest_bytes: int = 1 << 30,
        pass_fds: Sequence[int] = (),
        is_lean: bool = True,
    ) -> None:
        self._loop = loop
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        flags = ["-P", "-S"] if is_lean else ["-P"]
        try:
            # a group of its own: it is killed with all that users' code has started
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-m", module, str(theirs.fileno()), *arguments],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a processor prints is for the log
                pass_fds=[theirs.fileno(), *pass_fds],
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self.link = HelperLink(loop, ours, on_frames, on_lost, longest_bytes)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def kill(self, wait_s: float = 0.0) -> None:
        """Kill it and all that it started, and wait; if need be it is reaped in the background."""
        self.link.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_s)
        self._reap()

    async def wait(self, timeout_s: float) -> None:
        """Wait for its end, and kill it when that takes too long."""
        ends_at = self._loop.time() + timeout_s
        while self._process.poll() is None:  # there is no portable way to be told
            if self._loop.time() > ends_at:
                self.kill()
                ends_at = float("inf")
            await asyncio.sleep(_REAP_INTERVAL_S)
        self.link.close()

    def _reap(self) -> None:
        if self._process.poll() is None and not self._loop.is_closed():
            self._loop.call_later(_REAP_INTERVAL_S, self._reap)
