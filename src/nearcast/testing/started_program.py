"""A program that was started with a log, and is waited for until it is up."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from nearcast.errors import ConfigError
from nearcast.pipeline.java import java_home

__all__ = ["POLL_S", "java_command", "start_program", "wait_until_up"]

POLL_S = 0.05
_LAST_LINES = 10
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Programs that are small and do not live long."""
Sign = TypeVar("Sign")


def java_command(*arguments: str) -> list[str]:
    """Return how Java is started as a small program."""
    home = java_home()
    return ["java" if home is None else str(Path(home, "bin", "java")), *_JAVA, *arguments]


def start_program(
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a process group of its own, which writes all that it says to a log."""
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_until_up(
    process: subprocess.Popen[bytes],
    name: str,
    log: Path,
    find_sign: Callable[[str], Sign | None],
    timeout_s: float,
    error: Callable[[str], Exception] = ConfigError,
) -> Sign:
    """Return the sign that a program is up.

    Parameters
    ----------
    find_sign
        Gets what the log says so far, and looks there or elsewhere; None: not yet.
    error
        Raised with the end of the log when the program has ended, or had its time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        has_ended = process.poll() is not None
        said = log.read_text(errors="replace")
        if (sign := find_sign(said)) is not None:
            return sign
        if has_ended or time.monotonic() > deadline:
            what = "ended" if has_ended else f"is not up after {timeout_s:g} s"
            raise error(f"{name} {what}:\n" + "\n".join(said.splitlines()[-_LAST_LINES:]))
        time.sleep(POLL_S)
