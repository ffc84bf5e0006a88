"""The other systems while they run: a broker and a worker with the processor, each at its best."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import nearcast
from nearcast.errors import NearcastError
from nearcast.experiments.latency.peer_packages import (
    PeerPackages,
    find_mosquitto,
    install_packages,
)
from nearcast.experiments.latency.target import Target
from nearcast.testing.ports import closed_port

__all__ = ["run_mosquitto", "run_nats", "run_zenoh"]

_START_S = 20.0
_STOP_S = 5.0
# the workers find this package behind their own ones: the versions are those that are pinned
_RUN_WORKER = """
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
_MOSQUITTO_SETTINGS = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
max_queued_messages 0
max_inflight_messages 0
sys_interval 0
log_dest none
"""


@contextmanager
def run_nats() -> Iterator[Target]:
    """Run a NATS server and a worker."""
    packages, port = install_packages(), closed_port()
    command = [str(packages.nats_server), "--addr", "127.0.0.1", "--port", str(port)]
    with _process("nats-server", command) as broker:
        _wait_for_port(broker, port)
        with _worker("nats_worker", packages, port) as worker:
            pids = {"broker": broker.pid, "worker": worker.pid}
            yield Target({"kind": "nats", "port": port}, pids)


@contextmanager
def run_mosquitto() -> Iterator[Target]:
    """Run Mosquitto and a worker, QoS 0."""
    packages, program, port = install_packages(), find_mosquitto(), closed_port()
    with tempfile.TemporaryDirectory(prefix="nearcast-mosquitto-") as folder:
        settings = Path(folder) / "mosquitto.conf"
        settings.write_text(_MOSQUITTO_SETTINGS.format(port=port))
        with _process("mosquitto", [program, "-c", str(settings)]) as broker:
            _wait_for_port(broker, port)
            with _worker("mqtt_worker", packages, port) as worker:
                pids = {"broker": broker.pid, "worker": worker.pid}
                yield Target({"kind": "mqtt", "port": port}, pids)


@contextmanager
def run_zenoh() -> Iterator[Target]:
    """Run a zenoh peer that listens and processes: there is no broker in between."""
    packages, port = install_packages(), closed_port()
    with _worker("zenoh_worker", packages, port) as worker:
        load = {"kind": "zenoh", "port": port, "packages": str(packages.site_packages)}
        yield Target(load, {"worker": worker.pid})


@contextmanager
def _worker(module: str, packages: PeerPackages, port: int) -> Iterator[subprocess.Popen[bytes]]:
    source = str(Path(nearcast.__file__).parent.parent)
    name = f"nearcast.experiments.latency.{module}"
    command = [str(packages.python), "-c", _RUN_WORKER, source, name, str(port)]
    with _process(module, command) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise NearcastError(f"{module} did not start")
        yield process


@contextmanager
def _process(name: str, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
        )
        try:
            yield process
        except NearcastError as error:
            raise NearcastError(f"{error}; {name} said: {_last_line(said)}") from None
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _wait_for_port(process: subprocess.Popen[bytes], port: int) -> None:
    limit_s = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < limit_s:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        time.sleep(0.05)
    raise NearcastError(f"the broker does not listen at port {port}")


def _last_line(said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "nothing")
