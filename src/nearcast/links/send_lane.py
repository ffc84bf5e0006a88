"""A thread that sends for the event loop: whatever the library below does, the loop goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["SendLane"]


class SendLane:
    """Sends in order, one message at a time.

    Parameters
    ----------
    name
        Of the thread.
    put
        Gets the receiver and the bytes, in the thread; must not raise. It may take its time.
    most_waiting
        Messages that wait; others are dropped.
    """

    def __init__(
        self, name: str, put: Callable[[str, bytes], None], most_waiting: int = 10_000
    ) -> None:
        self._put, self._most_waiting = put, most_waiting
        self._waiting: SimpleQueue[tuple[str, bytes] | None] = SimpleQueue()
        self._since: float | None = None
        """When the message began that is being sent."""
        self.dropped = 0
        """Messages for which there was no room."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def send(self, to_server: str, data: bytes) -> None:
        """Queue a message; never waits."""
        if self._waiting.qsize() < self._most_waiting:
            self._waiting.put((to_server, data))
        else:
            self.dropped += 1

    def stuck_s(self) -> float:
        """Return for how long the present message has been under way."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def close(self, within_s: float) -> bool:
        """Send what waits and end the thread; tell whether it did in time."""
        self._waiting.put(None)
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (message := self._waiting.get()) is not None:
            self._since = time.monotonic()
            self._put(*message)
            self._since = None
