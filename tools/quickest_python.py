"""Print which Python `make setup` should take: the quickest of those at hand of this version.

How an interpreter was compiled (with or without profile-guided optimisation) is a sixth of what a
server costs, and no interpreter says it in a way that one could rely on: so each is tried.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

SYSTEM = ("/usr/bin", "/usr/local/bin")
WORTHWHILE = 0.93
"""Of the own time: what gains less is not worth another Python than the user's."""
ROUNDS = 4
TRIAL = """
import sys, time, ensurepip, venv
class Node:
    def __init__(self, key):
        self.key, self.seen = key, {}
    def note(self, other, at):
        self.seen[other] = self.seen.get(other, 0.0) + at
        return len(self.seen) < 50
def run():
    nodes = [Node(key) for key in range(40)]
    for at in range(1_000):
        for node in nodes:
            if not node.note(at % 61, 0.5 * at):
                node.seen = {key: value for key, value in node.seen.items() if key % 2}
best_s = 9e9
for _ in range(10):
    began_s = time.process_time()
    run()
    best_s = min(best_s, time.process_time() - began_s)
print(*sys.version_info[:2], best_s)
"""


def seconds(python: str) -> float | None:
    """Return how long an interpreter takes; None when it is another version or makes no venv."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", TRIAL], capture_output=True, text=True, timeout=30, check=True
        )
        major, minor, took_s = done.stdout.split()
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return float(took_s) if (int(major), int(minor)) == sys.version_info[:2] else None


def quickest(
    own: str, others: Iterable[str], seconds: Callable[[str], float | None] = seconds
) -> str:
    """Return the interpreter to take: the own one, unless another one is worthwhile."""
    pythons = list(dict.fromkeys((own, *others)))
    best_s: dict[str, float] = {}
    for _ in range(ROUNDS if len(pythons) > 1 else 0):  # interleaved: other programs disturb all
        for python in list(pythons):
            took_s = seconds(python)
            if took_s is None:
                pythons.remove(python)
            else:
                best_s[python] = min(took_s, best_s.get(python, took_s))
    if not best_s:
        return own
    best = min(best_s, key=best_s.__getitem__)
    is_worthwhile = own not in best_s or best_s[best] < WORTHWHILE * best_s[own]
    return best if is_worthwhile else own


def at_hand() -> list[str]:
    """Return other interpreters by this one's name, each once."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = (*os.environ.get("PATH", "").split(os.pathsep), *SYSTEM)
    own = Path(sys.executable).resolve()
    found = {Path(one, name).resolve(): None for one in folders if one}
    return [str(one) for one in found if one != own and os.access(one, os.X_OK)]


if __name__ == "__main__":
    sys.stdout.write(quickest(sys.executable, at_hand()) + "\n")
