"""Processes that are tied to another end with it."""

from __future__ import annotations

import os
import select
import subprocess
import sys

from nearcast.links.tied_process import tied

_STARTER = """
import subprocess, sys
from nearcast.links.tied_process import tied
process = subprocess.Popen(tied(["sleep", "600"]), stdin=subprocess.DEVNULL)
print(process.pid, flush=True)
sys.stdin.read()
"""
_WITHIN_S = 60.0


def test_a_tied_process_is_the_command_itself() -> None:
    with subprocess.Popen(
        tied([sys.executable, "-c", "import os; print(os.getpid())"]), stdout=-1
    ) as one:
        assert one.communicate()[0].decode().split() == [str(one.pid)]
    assert one.returncode == 0


def test_it_is_killed_when_the_one_that_started_it_is() -> None:
    with subprocess.Popen([sys.executable, "-c", _STARTER], stdin=-1, stdout=-1) as starter:
        assert starter.stdout is not None
        child = os.pidfd_open(int(starter.stdout.readline()))
        try:
            starter.kill()
            ended, _, _ = select.select([child], [], [], _WITHIN_S)
            assert ended == [child]
        finally:
            os.close(child)


def test_a_process_whose_parent_is_gone_already_does_not_start() -> None:
    command = tied(["echo", "started"])
    command[4] = str(os.getppid())
    assert subprocess.run(command, capture_output=True, check=True).stdout == b""
