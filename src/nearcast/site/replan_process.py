"""The process that re-plans a site beside its servers; it ends with the one that started it."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path

from nearcast.errors import NearcastError
from nearcast.site.layout import SiteFolder

__all__ = ["ReplanProcess"]

_log = logging.getLogger(__name__)
_PROGRAM = [sys.executable, "-c", "from nearcast.cli.main import main; main()"]
_STOP_S = 20.0
_AGAIN_AFTER_S = 30.0


class ReplanProcess:
    """``nearcast replan`` of a site: started, watched and stopped; use it with ``with``.

    Parameters
    ----------
    every_s, migration_price_ms
        As of `nearcast replan`.
    """

    def __init__(self, site: SiteFolder, every_s: float, migration_price_ms: float) -> None:
        self.output: Path = site.folder / "output" / "replan.log"
        """What the process says: a row for each round."""
        self._command = [
            *(*_PROGRAM, "replan", "--site", str(site.folder), "--until-stdin-ends"),
            *("--every", f"{every_s}s", "--migration-price", str(migration_price_ms)),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0

    def __enter__(self) -> ReplanProcess:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()

    @property
    def pid(self) -> int | None:
        """Its process id; None when it could not be started."""
        return None if self._process is None else self._process.pid

    def watch(self) -> None:
        """Start it again when it has ended by itself; the site goes on without it meanwhile."""
        process = self._process
        if process is not None and process.poll() is None:
            return
        if time.monotonic() >= self._started_s + _AGAIN_AFTER_S:
            _log.warning("re-planning has ended; it is started again: see %s", self.output)
            if process is not None and process.stdin is not None:
                process.stdin.close()
            self._start()

    def _start(self) -> None:
        self._started_s = time.monotonic()
        try:
            with self.output.open("ab") as output:
                # its end of the pipe tells it when this process is gone, however it ended
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=output, stderr=output
                )
        except OSError as error:
            raise NearcastError(f"re-planning does not start: {error}") from error
