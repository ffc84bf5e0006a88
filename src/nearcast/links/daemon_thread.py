"""Long work beside the event loop that nobody has to wait for at the end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["in_daemon_thread"]

_Result = TypeVar("_Result")


async def in_daemon_thread(work: Callable[[], _Result]) -> _Result:
    """Return what the work returns, or raise what it raises.

    Unlike with `asyncio.to_thread`, neither a cancellation nor the end of the process waits for
    work that still goes on.
    """
    loop, finished = asyncio.get_running_loop(), asyncio.Event()
    outcome: Future[_Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except Exception as error:
            outcome.set_exception(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finished.set)

    threading.Thread(target=run, name="work", daemon=True).start()
    await finished.wait()
    return outcome.result()
