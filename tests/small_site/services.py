"""Services of the data centre in a thread of a test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nearcast.site.kafka_bridge import AlertBridge
from nearcast.site.kafka_events import EventService

__all__ = ["working"]


@contextmanager
def working(service: EventService | AlertBridge) -> Iterator[None]:
    """Run a service in a thread while the block runs; its error is the test's."""
    ended, problems = threading.Event(), []

    def work() -> None:
        try:
            service.run(ended.is_set)
        except Exception as error:
            problems.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)
    assert (problems, thread.is_alive()) == ([], False)
