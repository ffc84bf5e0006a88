"""The servers of a site as processes: started together, watched, restarted, ended together.

They are forked from one helper process that has imported everything once, so that a site of
many servers starts in seconds and shares its memory.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from nearcast.errors import NearcastError, RestartNeededError
from nearcast.site.layout import SiteFolder
from nearcast.wire.backoff import next_wait_s

__all__ = ["SiteProcesses"]

_log = logging.getLogger(__name__)
_PRELOADED = [
    "uvloop",
    "nearcast.runtime.serve",
    "nearcast.runtime.event_log_segments",
    "nearcast.runtime.event_log_tables",
    "nearcast.runtime.manager",
]
_STOP_S = 15.0
EXIT_BAD_CONFIG = 2
"""Another start would end in the same way; after any other code it may help."""
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 30.0
_BY_ITSELF_S = 30.0
"""A server that ran this long before it died is started again without a longer pause."""


@dataclass(slots=True)
class _Pause:
    """A server that died and is not started again yet."""

    wait_s: float = 0.0
    due_s: float | None = None
    """When it is started; None: it runs."""
    deaths: int = 0
    """In a row."""


class SiteProcesses:
    """All processes of a site, by server."""

    def __init__(self, site: SiteFolder) -> None:
        self._site = site
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOADED)
        self._processes: dict[str, ForkServerProcess] = {}
        self._started_s: dict[str, float] = {}
        self._pauses: dict[str, _Pause] = {}
        self._killed: set[str] = set()
        """Servers that `kill` ended: they stay away until `start`."""
        self.restarted = 0
        """Servers that died by themselves and were started again."""

    def start(self, server: str) -> None:
        """Start a server that does not run."""
        process = self._context.Process(
            target=_serve,
            args=(self._site.config_file(server), self._site.output_file(server)),
            name=f"nearcast {server}",
        )
        process.start()
        self._killed.discard(server)
        self._processes[server] = process
        self._started_s[server] = time.monotonic()
        self._pauses.setdefault(server, _Pause()).due_s = None

    def start_all(self) -> None:
        """Start all servers, the manager first."""
        for place in self._site.servers:
            self.start(place.server)

    def pid(self, server: str) -> int:
        """Return the process id of a server."""
        pid = self._processes[server].pid
        assert pid is not None
        return pid

    def kill(self, server: str) -> None:
        """End a server as a power cut would, and wait until it is gone."""
        process = self._processes[server]
        self._killed.add(server)
        process.kill()
        process.join()

    def has_ended(self, server: str) -> bool:
        """Tell whether a server's process is gone."""
        return self._processes[server].exitcode is not None

    def watch(self) -> list[str]:
        """Start servers again that died by themselves, after growing pauses.

        Returns those for which that is no use: their configuration is wrong.
        """
        given_up = []
        for server, process in list(self._processes.items()):
            if process.exitcode is None or server in self._killed:
                continue
            if process.exitcode == EXIT_BAD_CONFIG:
                given_up.append(server)
                continue
            pause = self._pauses[server]
            now_s = time.monotonic()
            if pause.due_s is None:
                self._begin_pause(server, pause, now_s)
                said = self.last_words(server)
                _log.warning("server %s ended (%s): %s", server, process.exitcode, said)
            elif now_s >= pause.due_s:
                self.restarted += 1
                self.start(server)
        return given_up

    def deaths(self, server: str) -> int:
        """Return how often a server died shortly after its start, in a row."""
        return self._pauses[server].deaths if server in self._pauses else 0

    def _begin_pause(self, server: str, pause: _Pause, now_s: float) -> None:
        if now_s - self._started_s[server] > _BY_ITSELF_S:
            pause.wait_s, pause.deaths = 0.0, 0
        pause.deaths += 1
        pause.wait_s = next_wait_s(pause.wait_s, _LONGEST_PAUSE_S, _FIRST_PAUSE_S)
        pause.due_s = now_s + pause.wait_s

    def last_words(self, server: str) -> str:
        """Return the last line that a server's process said."""
        with contextlib.suppress(OSError):
            lines = self._site.output_file(server).read_text(errors="replace").splitlines()
            return next((line for line in reversed(lines) if line.strip()), "")
        return ""

    def stop_all(self) -> None:
        """Ask all to end, edges first; end by force what does not."""
        order = list(reversed(self._processes.values()))
        for process in order:
            if process.is_alive():
                process.terminate()
        deadline_s = time.monotonic() + _STOP_S
        for process in order:
            process.join(max(0.0, deadline_s - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._processes = {}


def _serve(config_file: Path, output_file: Path) -> None:
    """Be a server: runs in a process of its own."""
    from nearcast.runtime.serve import serve

    # Ctrl-C in the terminal reaches all of a site's processes; the first one ends the others
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    os.close(output)
    parent = parent_process()
    assert parent is not None
    try:
        serve(config_file, parent_fd=parent.sentinel)
    except NearcastError as error:
        sys.stderr.write(f"error: {error}\n")
        os._exit(1 if isinstance(error, RestartNeededError) else EXIT_BAD_CONFIG)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.stderr.flush()
    os._exit(0)  # threads of libraries must not hold up the end
