"""Where a server can be made to die, to the step: for trials that kill servers.

Off unless the server's data folder has a folder ``crash-points`` when it starts: who may write
there can stop the server anyway, and nothing that comes over a network can make it. While it is
there, the file ``armed`` in it names one step, such as ``before send HandOver``; a server that
gets there removes the file and kills itself, as a power cut would.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from nearcast.links.mesh import LinkState, MeshLink, OnMeshMessage, PeerAddress

__all__ = ["CRASH_FOLDER", "CrashPoints", "arm", "enable", "with_crash_points"]

CRASH_FOLDER = "crash-points"
_ARMED = "armed"
_SENT_S = 0.003
"""After which what was sent has left the process."""

When = Literal["before", "after"]


def enable(data: Path) -> None:
    """Let a server with this data folder be armed, from its next start on."""
    (data / CRASH_FOLDER).mkdir(parents=True, exist_ok=True)


def arm(data: Path, step: str | None) -> None:
    """Choose where the server dies next; None: nowhere."""
    file = data / CRASH_FOLDER / _ARMED
    if step is None:
        file.unlink(missing_ok=True)
        return
    fresh = file.with_suffix(".new")
    fresh.write_text(step)
    fresh.replace(file)


def with_crash_points(link: MeshLink, data: Path) -> MeshLink:
    """Return a link as it is, or one at whose messages the server can be made to die."""
    folder = data / CRASH_FOLDER
    return CrashPoints(link, folder / _ARMED) if folder.is_dir() else link


class CrashPoints:
    """Another link, and steps before and after it carries a message of a kind.

    Parameters
    ----------
    armed
        The file that names a step: before or after, send or receive, and the kind of a message.
    """

    def __init__(self, link: MeshLink, armed: Path) -> None:
        self._link, self._armed = link, armed

    async def start(self, on_message: OnMeshMessage) -> None:
        """Start the link below."""

        def hear(server: str, data: bytes) -> None:
            self._pass("before", "receive", data)
            on_message(server, data)
            self._pass("after", "receive", data)

        await self._link.start(hear)

    def send(self, to_server: str, data: bytes) -> None:
        """Send by the link below."""
        self._pass("before", "send", data)
        self._link.send(to_server, data)
        self._pass("after", "send", data)

    def learn(self, peers: Iterable[PeerAddress]) -> None:
        """Tell the link below."""
        self._link.learn(peers)

    def states(self) -> list[LinkState]:
        """Return what the link below says."""
        return self._link.states()

    @property
    def rejected(self) -> Mapping[str, int]:
        """What the link below says."""
        return self._link.rejected

    async def close(self) -> None:
        """Close the link below."""
        await self._link.close()

    def _pass(self, when: When, way: str, data: bytes) -> None:
        try:
            armed = self._armed.read_text().split(" ")
        except OSError:
            return  # it is not armed
        if armed[:2] != [when, way] or _tag(armed[-1]) not in data:
            return
        self._armed.unlink(missing_ok=True)
        if (when, way) == ("after", "send"):
            asyncio.get_running_loop().call_later(_SENT_S, _die)
        else:
            _die()


def _tag(kind: str) -> bytes:
    """Return the name of a message's kind as MessagePack has it."""
    return bytes([0xA0 + len(kind)]) + kind.encode()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
