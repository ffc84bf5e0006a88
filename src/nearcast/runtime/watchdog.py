"""Ends a server whose loop hangs inside a processor, and remembers which one it was.

The server writes into a page of shared memory when it enters and leaves a processor: a counter,
odd while inside, and the names. A helper process looks at it. When the counter has stood still
inside a processor for too long, the helper appends topic and processor to a file and kills the
server, which is then started again; `read_hung` tells it which processors must not run in its loop.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

__all__ = [
    "HUNG_FILE",
    "Heartbeat",
    "HungProcessor",
    "Watchdog",
    "WatchdogSettings",
    "read_hung",
]

HUNG_FILE = "hung_processors.jsonl"
_PAGE_BYTES = 4096
_NAMES_AT = 16
_LOOK_INTERVAL_S = 1.0


class HungProcessor(msgspec.Struct, frozen=True):
    """A processor that hung a server's loop."""

    topic: str
    processor: str


class Heartbeat:
    """The server's side: tells when the loop is inside a processor."""

    def __init__(self) -> None:
        self.descriptor = _shared_file()
        """To be inherited by the process that watches."""
        os.ftruncate(self.descriptor, _PAGE_BYTES)
        self._page = mmap.mmap(self.descriptor, _PAGE_BYTES)
        self._words = memoryview(self._page).cast("Q")
        self._count = 0
        self._names: tuple[str, str] = "", ""

    def enter(self, topic: str, processor: str = "") -> None:
        """Note that a processor begins."""
        names = topic, processor
        if names != self._names:
            data = msgspec.msgpack.encode(names)[: _PAGE_BYTES - _NAMES_AT]
            self._page[_NAMES_AT : _NAMES_AT + len(data)] = data
            self._words[1] = len(data)
            self._names = names
        self._count = count = self._count + 1
        self._words[0] = count

    def leave(self) -> None:
        """Note that it has returned."""
        self._count = count = self._count + 1
        self._words[0] = count

    def close(self) -> None:
        """Let go of the memory."""
        self._words.release()
        self._page.close()
        os.close(self.descriptor)


def _shared_file() -> int:
    """Return a descriptor of a file in memory, or one without a name where there is no such."""
    if sys.platform == "linux":
        return os.memfd_create("nearcast-heartbeat")
    from tempfile import TemporaryFile  # not for the lean process that only looks

    with TemporaryFile() as file:
        return os.dup(file.fileno())


class WatchdogSettings(msgspec.Struct, frozen=True):
    """What the watching process needs to know."""

    descriptor: int
    pid: int
    file: str
    limit_s: float = 10.0

    def argument(self) -> str:
        """Return it as an argument of a command."""
        return msgspec.json.encode(self).decode()


class Watchdog:
    """The helper's side: looks once a second at most, while the helper has time.

    A hang is counted in looks, not in time: so a machine or container that stood still for a
    while does not look like a processor that hung.
    """

    def __init__(
        self, settings: WatchdogSettings, kill: Callable[[int, int], None] = os.kill
    ) -> None:
        self._settings, self._kill = settings, kill
        self._page = mmap.mmap(settings.descriptor, _PAGE_BYTES, prot=mmap.PROT_READ)
        self._words = memoryview(self._page).cast("Q")
        self._seen = self._looks = 0
        self._next_s = 0.0

    @classmethod
    def from_argument(cls, argument: str) -> Self:
        """Return the one that `WatchdogSettings.argument` describes."""
        return cls(msgspec.json.decode(argument, type=WatchdogSettings))

    def look(self, now_s: float) -> float:
        """Look if it is time to; return the seconds until the next time."""
        if now_s < self._next_s:
            return self._next_s - now_s
        self._next_s = now_s + _LOOK_INTERVAL_S
        count = self._words[0]
        if count % 2 and count == self._seen:
            self._looks += 1
            if self._looks * _LOOK_INTERVAL_S >= self._settings.limit_s:
                self._end_server()
                self._looks = 0
        else:
            self._seen, self._looks = count, 0
        return _LOOK_INTERVAL_S

    def _end_server(self) -> None:
        data = self._page[_NAMES_AT : _NAMES_AT + self._words[1]]
        # without the note it may hang again, but a server that hangs is no better
        with suppress(OSError, ValueError):
            topic, processor = msgspec.msgpack.decode(data, type=tuple[str, str])
            hung = msgspec.json.encode(HungProcessor(topic, processor))
            with Path(self._settings.file).open("ab") as file:
                file.write(hung + b"\n")
                file.flush()
                os.fsync(file.fileno())
            said = f"nearcast: processor {processor!r} of topic {topic!r} hangs; the server ends\n"
            os.write(2, said.encode())
        with suppress(ProcessLookupError):
            self._kill(self._settings.pid, signal.SIGKILL)


def read_hung(folder: Path) -> frozenset[HungProcessor]:
    """Return the processors that hung the server of a data folder."""
    try:
        lines = (folder / HUNG_FILE).read_bytes().splitlines()
    except OSError:
        return frozenset()
    found = set()
    for line in lines:
        try:
            found.add(msgspec.json.decode(line, type=HungProcessor))
        except ValueError:  # cut short by a crash
            continue
    return frozenset(found)
