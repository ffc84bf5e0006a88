"""A result that comes later: pure to give, awaitable to take.

Unlike a future it needs no loop until somebody waits for it: thousands of receipts that nobody
awaits cost almost nothing, and a failure that nobody looks at is no warning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

__all__ = ["Outcome", "Receipt"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Outcome(Generic[T]):
    """The value of a request, or why there is none. The first `resolve` or `fail` counts."""

    __slots__ = ("_callbacks", "_error", "_value", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        """Whether there is a value or an error."""
        self._value: T | None = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[], object]] | None = None

    def resolve(self, value: T) -> None:
        """Give the value."""
        self._finish(value, None)

    def fail(self, error: Exception) -> None:
        """Say why there is no value."""
        self._finish(None, error)

    @property
    def error(self) -> Exception | None:
        """Why there is no value; None when there is one or nothing is known yet."""
        return self._error

    def result(self) -> T:
        """Return the value, or raise the error; only once it is done."""
        if not self.is_done:
            raise RuntimeError("the outcome is not known yet")
        if self._error is not None:
            raise self._error
        value: T = self._value  # type: ignore[assignment]
        return value

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call back once, at the end; at once when it is done already."""
        if self.is_done:
            callback()
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def __await__(self) -> Generator[Any, None, T]:
        if not self.is_done:
            future = asyncio.get_running_loop().create_future()

            def wake() -> None:
                if not future.done():
                    future.set_result(None)

            self.when_done(wake)
            try:
                yield from future
            finally:
                # somebody who waits again and again with a timeout leaves nothing behind
                if not self.is_done and self._callbacks is not None:
                    self._callbacks.remove(wake)
        return self.result()

    def _finish(self, value: T | None, error: Exception | None) -> None:
        if self.is_done:
            return
        self.is_done, self._value, self._error = True, value, error
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            try:
                callback()
            except Exception:  # others wait too: log it and go on
                _log.exception("a callback failed")


class Receipt(Outcome[None]):
    """What `publish` returns: await it to know that the publication is synced at the server.

    That of a publication that is not durable is done at once: it was sent and may be lost.
    """

    __slots__ = ("durable", "level", "sequence", "topic")

    def __init__(self, topic: str, sequence: int, durable: bool) -> None:
        super().__init__()
        self.topic = topic
        self.sequence = sequence
        self.durable = durable
        self.level = 0
        """On how many servers it is durable; 0 until that is known."""
