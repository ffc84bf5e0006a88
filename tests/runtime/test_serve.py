"""What all server processes have in common."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import os, sys
from pathlib import Path
from nearcast.runtime.serve import run_process

async def run(stop):
    Path(sys.argv[1], "file").write_text("a message")
    Path(sys.argv[1], "folder").mkdir()

os.umask(0o022)
run_process(run)
"""


def test_what_a_server_writes_is_its_users_alone(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM, str(tmp_path)], check=True, timeout=60)
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    assert modes == {"file": 0o600, "folder": 0o700}
