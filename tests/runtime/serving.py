"""An HTTP endpoint in a loop of its own, for tests that ask it with blocking clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nearcast.runtime.http_endpoint import HttpEndpoint


@contextmanager
def serving(
    endpoint: HttpEndpoint, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> Iterator[HttpEndpoint]:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(endpoint.start())
        loop = runner.get_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield endpoint
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            runner.run(endpoint.close())
            runner.run(endpoint.close())
