"""A server dies where it was armed to, once, and nowhere unless that was enabled on its disk."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import msgspec
import pytest

from nearcast.links.memory_mesh import MemoryHub
from nearcast.runtime import crash_points
from nearcast.runtime.crash_points import CrashPoints, arm, enable, with_crash_points


class HandOver(msgspec.Struct, tag=True, array_like=True):
    part: int


HAND_OVER = msgspec.msgpack.encode(HandOver(7))
OTHER = msgspec.msgpack.encode(["Handed", 7])


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr("os.kill", lambda _pid, number: found.append(number))
    monkeypatch.setattr(crash_points, "_SENT_S", 0.0)
    return found


def _exchange(data: Path, message: bytes) -> list[str]:
    """Send a message from one server with crash points to itself; return what was heard."""
    heard: list[str] = []

    async def run() -> None:
        link = with_crash_points(MemoryHub().link("a"), data)
        await link.start(lambda server, _data: heard.append(server))
        link.send("a", message)
        for _ in range(4):  # passes of the loop
            await asyncio.sleep(0)
        await link.close()

    asyncio.run(run())
    return heard


def test_nothing_happens_unless_it_was_enabled(tmp_path: Path, deaths: list[int]) -> None:
    link = MemoryHub().link("a")
    assert with_crash_points(link, tmp_path) is link
    enable(tmp_path)
    assert isinstance(with_crash_points(link, tmp_path), CrashPoints)
    assert _exchange(tmp_path, HAND_OVER) == ["a"]
    assert deaths == []


@pytest.mark.parametrize("step", ["before send", "after send", "before receive", "after receive"])
def test_it_dies_once_at_the_step_that_was_named(
    tmp_path: Path, deaths: list[int], step: str
) -> None:
    enable(tmp_path)
    arm(tmp_path, f"{step} HandOver")
    _exchange(tmp_path, OTHER)
    assert deaths == []
    _exchange(tmp_path, HAND_OVER)
    assert deaths == [signal.SIGKILL]
    _exchange(tmp_path, HAND_OVER)
    assert deaths == [signal.SIGKILL]


def test_it_can_be_disarmed(tmp_path: Path, deaths: list[int]) -> None:
    enable(tmp_path)
    arm(tmp_path, "before send HandOver")
    arm(tmp_path, None)
    _exchange(tmp_path, HAND_OVER)
    assert deaths == []
