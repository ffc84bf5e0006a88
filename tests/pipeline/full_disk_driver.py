"""A stream whose checkpoint is on a small disk of its own, in a mount namespace of this process.

``unshare -rm python full_disk_driver.py LOG OUT SIZE OPTIONS``: what it says goes to stdout and stderr
as ever; then the disk is made larger, and the same command runs again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nearcast.cli.main import main
from nearcast.pipeline.session import SparkSettings, open_session


def run_twice(log: Path, out: Path, size: str, options: str) -> None:
    disk = out / "checkpoints"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], check=True)
    sys.argv = ["nearcast", "pipeline", "stream", "--log", str(log), "--out", str(out)]
    sys.argv += ["--options", options, "--late", "1ms", "--once", "--json"]
    with open_session(SparkSettings(ui=False, is_short_lived=True)):
        try:
            main()
        except SystemExit as end:
            sys.stderr.write(f"exit code {end.code}\n")
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        main()


if __name__ == "__main__":
    run_twice(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
