"""One server as a process: from its configuration to a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from nearcast.errors import ConfigError
from nearcast.links.tcp_mesh import TcpMesh
from nearcast.runtime.config import ManagerConfig, ServerConfig, split_host_port
from nearcast.runtime.config_files import load_config, read_key_file
from nearcast.runtime.crash_points import with_crash_points
from nearcast.runtime.logs import start_logging
from nearcast.runtime.server import run_server

__all__ = ["run_process", "serve"]

_SWITCH_S = 0.001
"""How long the loop waits at most while a thread of the same server computes."""


def serve(
    config_file: Path,
    role: str | None = None,
    parent_fd: int | None = None,
    *,
    advertise: bool = False,
) -> None:
    """Run the server of a configuration until a signal ends it.

    Parameters
    ----------
    role
        What the configuration must be for; any when left out.
    parent_fd
        A descriptor that becomes readable when the parent process is gone: end as well.
    advertise
        Whether to tell the local network that an edge server is here, whatever its file says.

    Raises
    ------
    NearcastError
        When the server cannot start or go on.
    """
    config = load_config(config_file)
    if role is not None and config.role != role:
        raise ConfigError(f"{config_file}: role: is {config.role!r}, not {role!r}")
    if advertise and isinstance(config, ServerConfig) and config.clients is not None:
        clients = msgspec.structs.replace(config.clients, advertise=True)
        config = msgspec.structs.replace(config, clients=clients)
    start_logging(config.id)

    async def run(stop: asyncio.Event) -> None:
        mesh = mesh_link(config)
        if isinstance(config, ManagerConfig):
            # brings the planners, which edge servers do without
            from nearcast.runtime.manager import run_manager

            await run_manager(config, mesh, stop)
        else:
            await run_server(config, with_crash_points(mesh, config.data), stop)

    run_process(run, parent_fd)


def run_process(
    run: Callable[[asyncio.Event], Awaitable[None]], parent_fd: int | None = None
) -> None:
    """Run a server on an event loop of its own; signals set the event that it gets.

    What it and its helper processes write, messages and keys among it, is its user's alone.
    """
    os.umask(0o077)
    with contextlib.suppress(ValueError):  # standard error is no file
        faulthandler.register(signal.SIGUSR1, all_threads=True)

    async def run_until_signal() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signal_number, stop.set)
        if parent_fd is not None:
            loop.add_reader(parent_fd, stop.set)
        await run(stop)

    import uvloop

    sys.setswitchinterval(_SWITCH_S)
    uvloop.run(run_until_signal())


def mesh_link(config: ServerConfig | ManagerConfig) -> TcpMesh:
    """Return the link of a server to all others."""
    assert config.mesh is not None  # only a standalone server has no mesh, and no file
    return TcpMesh(*split_host_port(config.mesh.listen), read_key_file(config.key_file))
