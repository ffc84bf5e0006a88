"""The child process that hosts processors: how a server starts and ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from nearcast.runtime.processor_link import ProcessorLink

__all__ = ["ProcessorProcess"]


class ProcessorProcess:
    """A running child and the link to it.

    Parameters
    ----------
    memory_bytes
        Address space that it may use; 0 for no limit.
    on_frame, on_lost
        As for `ProcessorLink`.

    Raises
    ------
    OSError
        When it cannot be started.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        memory_bytes: int,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[str], None],
    ) -> None:
        ours, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), str(memory_bytes)]
        path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        try:
            # a group of its own: it is killed with all that users' code has started
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "nearcast.runtime.processor_child", *arguments],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a processor prints is for the log
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self.link = ProcessorLink(loop, ours, on_frame, on_lost)
        self.is_ready = False
        """Whether it takes requests."""
        self.spooled: dict[str, int] = {}
        """By topic that it has, the number of the next message that it lacks."""

    def end(self) -> Thread:
        """Kill it; the thread ends when it is gone."""
        self.link.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        reaper = Thread(target=self._process.wait, name="processor-reaper", daemon=True)
        reaper.start()
        return reaper
