"""What ends a server besides its operator: a mesh that takes no messages any more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from nearcast.errors import RestartNeededError
from nearcast.links.mesh import MeshLink

__all__ = ["first_of", "watch_mesh"]

_STUCK_S = 20.0
"""Ten times what a large message may take on a congested way."""


async def watch_mesh(mesh: MeshLink, interval_s: float = 1.0) -> None:
    """Wait, for ever if all is well; RestartNeededError says that the mesh is stuck."""
    while (stuck_s := mesh.stuck_s()) < _STUCK_S:  # noqa: ASYNC110 - nobody can tell
        await asyncio.sleep(interval_s)
    raise RestartNeededError(f"the mesh has not taken a message for {stuck_s:.0f} s")


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of these has ended; raises what it raised."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
