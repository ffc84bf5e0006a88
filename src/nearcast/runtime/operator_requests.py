"""What operators ask of an edge or cloud server over HTTP: how it is, and to write its event log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nearcast.runtime.config import HttpConfig
from nearcast.runtime.event_log import EventLog
from nearcast.runtime.http_endpoint import HttpEndpoint
from nearcast.runtime.metrics import ServerMetrics
from nearcast.runtime.server_report import ServerReport

__all__ = ["FLUSH_PATH", "LogFlushes", "operator_endpoint"]

FLUSH_PATH = "/log/flush"
_FLUSH_EVERY_S = 1.0
"""Anybody who reaches the port may ask: more often would only make many small files."""


class LogFlushes:
    """Has the event log write what it holds, for those who want to read it up to now."""

    def __init__(self, events: EventLog | None) -> None:
        self._events = events
        self._flushed_at = float("-inf")
        self._under_way = asyncio.Lock()

    async def answer(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        """Answer a request; all rows of before it are in files when it is answered."""
        if (method, path) != ("POST", FLUSH_PATH):
            return 404, {"error": f"there is no {method} {path}"}
        if self._events is None:
            return 404, {"error": "this server writes no event log"}
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        async with self._under_way:
            if asked_at > self._flushed_at:  # else one that began later has written it all
                await asyncio.sleep(self._flushed_at + _FLUSH_EVERY_S - loop.time())
                began_at = loop.time()
                await self._events.flush()
                self._flushed_at = began_at
        counters = self._events.counters
        if counters.last_error is not None:
            return 503, {"error": f"the event log is not written: {counters.last_error}"}
        return 200, {"rows_written": counters.rows_written}


def operator_endpoint(
    config: HttpConfig, report: ServerReport, metrics: ServerMetrics, events: EventLog | None
) -> HttpEndpoint:
    """Return the HTTP side of a server; it is not started yet."""
    endpoint = HttpEndpoint(
        config.host,
        config.port,
        metrics=metrics.text,
        health=report.health,
        warnings=report.warnings,
        status=report.status,
        answer=LogFlushes(events).answer,
    )
    report.http = endpoint
    return endpoint
