"""A client is of no use in a child that was forked: it would use its parent's nonces again."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable

import pytest

from nearcast.sdk import Client, NotConnectedError, SyncClient
from sdk.edge import Edge

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")


def in_child(check: Callable[[], None]) -> int:
    """Return the exit code of a forked process that makes a check."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        check()
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        os._exit(1)
    os._exit(0)


def test_a_forked_client_refuses_and_sends_nothing(edge: Edge) -> None:
    async def work() -> None:
        async with Client.connect(edge.enrol("car")) as car:
            await car.publish_and_wait("t", "before")

            def check() -> None:
                with pytest.raises(NotConnectedError, match="forked"):
                    car.publish_now("t", "in the child")
                assert car._driver.poll(1e10) == []
                assert not car.is_connected

            assert in_child(check) == 0
            await car.publish_and_wait("t", "after")

    asyncio.run(work())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_client_of_a_thread_refuses(edge: Edge) -> None:
    with SyncClient.connect(edge.enrol("car")) as car:
        car.publish("t", "before").wait()

        def check() -> None:
            with pytest.raises(NotConnectedError, match="forked"):
                car.publish("t", "in the child")

        assert in_child(check) == 0
        car.publish("t", "after").wait()
