"""The mesh in life: Zenoh peers that know each other's endpoints, over TCP or mutual TLS.

Two servers reach each other when at least one of them connects to the other; nothing is routed
through a third. Zenoh counts as lossy here: it drops rather than waits, and after a restart what
was under way is gone. The channels above repeat it.

Releases of Zenoh are known whose `put` never returns after peers came and went, so threads call it
and not the event loop: clients are served on, and `stuck_s` tells that the server should start anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import zenoh

from nearcast.errors import ConfigError
from nearcast.links.daemon_thread import in_daemon_thread
from nearcast.links.mesh import OnMeshMessage
from nearcast.links.send_lane import SendLane

__all__ = ["MeshTls", "ZenohMesh"]

_LARGE_BYTES = 32 << 10
_LARGEST_BYTES = 64 << 20
_CLOSE_S = 2.0
# one runtime instead of five: any of its threads can run the task that the others wait for
_RUNTIME = (
    "(app: (worker_threads: 4, max_blocking_threads: 50), acc: (handover: app), "
    "tx: (handover: app), rx: (handover: app), net: (handover: app))"
)


@dataclass(frozen=True, slots=True)
class MeshTls:
    """Files in PEM that prove to other servers who this one is, and check the others."""

    root_ca: Path
    certificate: Path
    private_key: Path


class ZenohMesh:
    """One server's `MeshLink`.

    Parameters
    ----------
    server_id
        What others send to.
    listen, connect
        Endpoints such as ``tcp/127.0.0.1:7101``; connections are tried for ever.
    tls
        Needed when the endpoints begin with ``tls/``.
    """

    def __init__(
        self,
        server_id: str,
        listen: str,
        connect: Sequence[str] = (),
        tls: MeshTls | None = None,
    ) -> None:
        self._server_id, self._listen = server_id, listen
        self._settings = _settings(listen, connect, tls)
        self._session: zenoh.Session | None = None
        self._publishers: dict[tuple[str, bool], zenoh.Publisher] = {}
        self._arrived: deque[tuple[str, bytes]] = deque()
        self._is_woken = False
        self._lanes: dict[bool, SendLane] = {}
        """For small and, as their parts may have to wait for room, for large messages."""
        self.failed_sends = 0
        """Messages that Zenoh refused; those that it drops later are not known."""

    async def start(self, on_message: OnMeshMessage) -> None:
        """Listen, and begin to connect; peers need not be there."""
        loop = asyncio.get_running_loop()
        os.environ.setdefault("ZENOH_RUNTIME", _RUNTIME)

        def drain() -> None:
            # first the flag: what arrives after it wakes the loop again
            self._is_woken = False
            for _ in range(len(self._arrived)):
                on_message(*self._arrived.popleft())

        def arrive(sample: zenoh.Sample) -> None:
            sender = sample.attachment
            if sender is None:
                return
            with contextlib.suppress(UnicodeDecodeError, RuntimeError):  # the loop is closed
                self._arrived.append((sender.to_bytes().decode(), sample.payload.to_bytes()))
                if not self._is_woken:
                    self._is_woken = True
                    loop.call_soon_threadsafe(drain)

        config = zenoh.Config.from_json5(json.dumps(self._settings))
        try:
            self._session = await asyncio.to_thread(zenoh.open, config)
        except zenoh.ZError as error:
            raise ConfigError(
                f"cannot listen at {self._listen} for other servers: {_reason(error)}"
            ) from None
        self._lanes = {
            False: SendLane("mesh-send", partial(self._put, is_large=False)),
            True: SendLane("mesh-send-large", partial(self._put, is_large=True)),
        }
        self._session.declare_subscriber(
            _key(self._server_id), zenoh.handlers.Callback(arrive, indirect=False)
        )

    def send(self, to_server: str, data: bytes) -> None:
        """Send bytes, or drop them when the way is congested."""
        if self._lanes:
            self._lanes[len(data) >= _LARGE_BYTES].send(to_server, data)

    def stuck_s(self) -> float:
        """Return for how long Zenoh has not returned from a message."""
        return max((lane.stuck_s() for lane in self._lanes.values()), default=0.0)

    async def close(self) -> None:
        """Leave the mesh, with what waits sent if that does not take long."""
        lanes, self._lanes = list(self._lanes.values()), {}

        def leave() -> None:
            ended = [lane.close(_CLOSE_S) for lane in lanes]
            session, self._session = self._session, None
            if all(ended) and session is not None:
                session.close()  # type: ignore[no-untyped-call]

        with contextlib.suppress(TimeoutError):  # a session that is stuck ends with the process
            async with asyncio.timeout((len(lanes) + 1) * _CLOSE_S):
                await in_daemon_thread(leave)

    def _put(self, to_server: str, data: bytes, *, is_large: bool) -> None:
        try:
            publisher = self._publishers.get((to_server, is_large))
            if publisher is None:
                publisher = self._declare(to_server, is_large=is_large)
            publisher.put(data, attachment=self._server_id)
        except zenoh.ZError:
            self.failed_sends += 1

    def _declare(self, to_server: str, *, is_large: bool) -> zenoh.Publisher:
        session = self._session
        if session is None:
            raise zenoh.ZError("closed")
        # of different priorities, so that no small message waits behind the parts of a large one
        priority = zenoh.Priority.DATA_LOW if is_large else zenoh.Priority.DATA_HIGH
        publisher = self._publishers[to_server, is_large] = session.declare_publisher(
            _key(to_server),
            congestion_control=zenoh.CongestionControl.DROP,
            priority=priority,
            reliability=zenoh.Reliability.RELIABLE,
        )
        return publisher


def _key(server_id: str) -> str:
    return f"nearcast/mesh/{quote(server_id, safe='')}"


def _reason(error: Exception) -> str:
    if "in use" in str(error):
        return "another program uses the port; choose another one, or end that program"
    found = re.search(r"[^:\[]+(?=\(os error)", str(error))
    return found[0].strip() if found else re.sub(r" at /\S+", "", str(error))


def _settings(listen: str, connect: Sequence[str], tls: MeshTls | None) -> dict[str, Any]:
    link: dict[str, Any] = {
        "tx": {
            "queue": {
                "size": {"data_high": 16, "data_low": 16},
                "congestion_control": {
                    # microseconds: the event loop waits the first, a thread the second
                    "drop": {
                        "wait_before_drop": 100,
                        "max_wait_before_drop_fragments": 2_000_000,
                    }
                },
            }
        },
        "rx": {"max_message_size": _LARGEST_BYTES},
    }
    if tls is not None:
        link["tls"] = {
            "root_ca_certificate": str(tls.root_ca),
            "listen_certificate": str(tls.certificate),
            "listen_private_key": str(tls.private_key),
            "connect_certificate": str(tls.certificate),
            "connect_private_key": str(tls.private_key),
            "enable_mtls": True,
            "verify_name_on_connect": True,
        }
    return {
        "mode": "peer",
        "listen": {"endpoints": [listen], "timeout_ms": 0, "exit_on_failure": True},
        "connect": {
            "endpoints": list(connect),
            "timeout_ms": -1,
            "exit_on_failure": False,
            "retry": {
                "period_init_ms": 100,
                "period_max_ms": 2_000,
                "period_increase_factor": 2,
            },
        },
        "open": {"return_conditions": {"connect_scouted": False, "declares": False}},
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "transport": {"link": link, "shared_memory": {"enabled": False}},
    }
