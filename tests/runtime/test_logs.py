"""The log's lines, read back as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from nearcast.links.steady_clock import SteadyClock
from nearcast.runtime.logs import JsonLines, start_logging


class LogCapture:
    """A logger whose clock a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC).timestamp()
        self.stream = io.StringIO()
        self.handler = JsonLines("e1", self.stream, most=2, window_s=10.0, clock=lambda: self.now)
        self.logger = logging.getLogger("logs of a test")
        self.logger.setLevel(logging.INFO)
        self.logger.handlers = [self.handler]

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


def test_a_line_has_time_level_server_event_and_fields() -> None:
    capture = LogCapture()
    capture.logger.warning("peer_lost", extra={"fields": {"peer": "e2", "time": 3, "odd": {1}}})
    assert capture.lines() == [
        {
            "time": "2026-01-02T03:04:05.678Z",
            "level": "warning",
            "server": "e1",
            "event": "peer_lost",
            "peer": "e2",
            "time_": 3,
            "odd": "{1}",
        }
    ]


def test_an_error_comes_with_its_traceback_in_one_line() -> None:
    capture = LogCapture()
    try:
        raise ValueError("as ordered")
    except ValueError:
        capture.logger.exception("failed at %d%%", 7)
    (line,) = capture.lines()
    assert line["event"] == "failed at 7%"
    assert line["error"].endswith("ValueError: as ordered")


def test_repeats_are_left_out_and_counted_per_event_and_window() -> None:
    capture = LogCapture()
    for number in range(5):
        capture.logger.info("flood %d", number)
    capture.logger.info("other")
    assert [line["event"] for line in capture.lines()] == ["flood 0", "flood 1", "other"]
    capture.now += 10.0
    capture.logger.info("flood %d", 5)
    told = [(line["event"], line.get("suppressed")) for line in capture.lines()[3:]]
    assert told == [("flood %d", 3), ("flood 5", None)]


def test_what_is_left_out_at_the_end_is_told_when_it_closes() -> None:
    capture = LogCapture()
    for _ in range(4):
        capture.logger.error("flood")
    capture.handler.close()
    assert capture.lines()[-1]["suppressed"] == 2
    assert capture.lines()[-1]["level"] == "error"


@pytest.fixture
def nearcast_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("nearcast")
    kept = logger.handlers, logger.level, logger.propagate
    yield logger
    logger.handlers, logger.level, logger.propagate = kept
    logger.setLevel(kept[1])


@pytest.mark.usefixtures("nearcast_logger")
def test_all_modules_of_nearcast_write_to_the_servers_log_once() -> None:
    stream = io.StringIO()
    start_logging("e0", io.StringIO())
    start_logging("e1", stream)
    logging.getLogger("nearcast.runtime.server").info("started")
    logging.getLogger("nearcast.runtime.server").debug("details")
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert (line["server"], line["event"]) == ("e1", "started")


def test_the_clock_does_not_run_backwards_when_the_wall_clock_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wall, steady = [1_000.0], [5.0]
    monkeypatch.setattr("nearcast.links.steady_clock.time.time", lambda: wall[0])
    monkeypatch.setattr("nearcast.links.steady_clock.time.clock_gettime", lambda _: steady[0])
    clock = SteadyClock()
    assert clock() == 1_000.0
    wall[0], steady[0] = 10.0, 6.5
    assert clock() == 1_001.5
