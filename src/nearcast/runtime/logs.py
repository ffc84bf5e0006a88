"""Structured logs: one JSON object per line, and no flood of the same event.

Modules use the standard library: ``logger.warning("peer_lost", extra={"fields": {"peer": "e2"}})``.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from nearcast.links.steady_clock import SteadyClock

__all__ = ["JsonLines", "start_logging"]


@dataclass(slots=True)
class _Window:
    began_s: float
    level: str
    written: int = 0
    suppressed: int = 0


class JsonLines(logging.StreamHandler[TextIO]):
    """Writes records as JSON: time, level, server, event, and the event's own fields.

    The same event is written `most` times per `window_s`; what was left out is told by
    ``suppressed`` in a line of its own, at the next event after the window.
    """

    def __init__(
        self,
        server_id: str,
        stream: TextIO,
        *,
        most: int = 5,
        window_s: float = 10.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(stream)
        self._server_id, self._most, self._window_s = server_id, most, window_s
        self._clock = clock or SteadyClock()
        self._windows: dict[str, _Window] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless there were too many of it."""
        now = self._clock()
        self._end_windows(now - self._window_s)
        event = str(record.msg)  # without its arguments, which may differ each time
        window = self._windows.setdefault(event, _Window(now, record.levelname))
        if window.written == self._most:
            window.suppressed += 1
            return
        window.written += 1
        fields: dict[str, Any] = dict(getattr(record, "fields", {}))
        if record.exc_info:
            fields["error"] = logging.Formatter().formatException(record.exc_info)
        try:
            self._write(now, record.levelname, record.getMessage(), fields)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Tell what was left out until now."""
        self._end_windows(float("inf"))
        super().close()

    def _end_windows(self, began_before_s: float) -> None:
        over = [key for key, one in self._windows.items() if one.began_s <= began_before_s]
        for event in over:
            window = self._windows.pop(event)
            if window.suppressed:
                fields = {"suppressed": window.suppressed}
                self._write(self._clock(), window.level, event, fields)

    def _write(self, now: float, level: str, event: str, fields: dict[str, Any]) -> None:
        time = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time.replace("+00:00", "Z"),
            "level": level.lower(),
            "server": self._server_id,
            "event": event,
        }
        for key, value in fields.items():
            line[f"{key}_" if key in line else key] = value
        self.stream.write(json.dumps(line, default=str) + self.terminator)
        self.flush()


def start_logging(
    server_id: str, stream: TextIO | None = None, level: int = logging.INFO
) -> JsonLines:
    """Write all that nearcast logs to a stream, standard error by default."""
    handler = JsonLines(server_id, stream or sys.stderr)
    logger = logging.getLogger("nearcast")
    logger.handlers = [handler]
    logger.setLevel(level)
    logger.propagate = False
    return handler
