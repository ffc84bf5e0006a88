"""A helper process that is a thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

from nearcast.runtime.helper_link import HelperLink


class ThreadHelper:
    """Runs the process's side of the link, which a test gives any disk and clock."""

    def __init__(
        self,
        run: Callable[[socket.socket], None],
        on_frames: Callable[[list[bytes]], None],
        on_lost: Callable[[str], None],
    ) -> None:
        ours, theirs = socket.socketpair()

        def work() -> None:
            with theirs:
                run(theirs)

        self.link = HelperLink(asyncio.get_running_loop(), ours, on_frames, on_lost)
        self.thread = threading.Thread(target=work)
        self.thread.start()

    def kill(self, wait_s: float = 0.0) -> None:
        self.link.close()

    async def wait(self, timeout_s: float) -> None:
        await asyncio.to_thread(self.thread.join, timeout_s)
        self.link.close()
