"""Defects that were there once, in parts of a server or client by themselves."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from nearcast.broker.once_gate import OnceGate
from nearcast.errors import RestartNeededError, SpoolFullError, TrustError
from nearcast.links.memory_mesh import MemoryHub
from nearcast.links.steady_clock import SteadyClock
from nearcast.runtime.config import ManagerEntry, MeshConfig, ServerConfig
from nearcast.runtime.event_log_files import Retention, Segment
from nearcast.runtime.metrics import ServerMetrics
from nearcast.runtime.server import LiveServer
from nearcast.runtime.spool_writer import SpoolWriter
from nearcast.sdk.enrolment import read_answer
from nearcast.server.authorise import Authoriser
from nearcast.server.enrolment import EnrolledClient, Enroller, Enrolment, EnrolmentRules
from nearcast.server.home_choice import HomeChoice
from nearcast.server.manager_state import SiteServer
from nearcast.server.site_orders import Orders, ServerOrder
from nearcast.server.stream_targets import Capacity, StreamTargets
from nearcast.site.authority import Authority
from nearcast.testing.authority import ALWAYS, SmallAuthority
from nearcast.trust.credentials import ServerCredential, issue_server
from nearcast.trust.revocations import RevocationList
from nearcast.trust.rights import EVERYTHING
from nearcast.trust.signed import SigningKey
from nearcast.wire.noise import public_key
from nearcast.wire.publication import Origin, Publication

__all__ = [
    "any_token",
    "false_manager",
    "full_disk",
    "log_size",
    "losses",
    "once_publishers",
    "replaced_key",
    "sleep",
    "stream_targets",
]

_HOUR_S = 3_600.0


def replaced_key() -> bool:
    """Come back with a key when a server knows that the client has another one since."""
    authority, old, new = SmallAuthority(), b"o" * 32, b"n" * 32
    authoriser = Authoriser(authority.trust(), 10)
    newer = authority.client("a", new, serial=2)
    authoriser.begin_session(authoriser.check(newer, new, 0.0), newer)
    try:
        authoriser.check(authority.client("a", old), old, 0.0)
    except TrustError:
        return False
    return True


def sleep() -> bool:
    """Let a machine sleep for an hour: its clients have to know it."""
    readings = {time.CLOCK_BOOTTIME: 1_000.0, time.CLOCK_MONOTONIC: 500.0}
    with patch.object(time, "clock_gettime", readings.__getitem__):
        clock = SteadyClock()
        before = clock()
        readings[time.CLOCK_BOOTTIME] += _HOUR_S  # the other one stands still
        return clock() - before < _HOUR_S


def log_size() -> bool:
    """Write more of an event log than may be kept."""
    kept = Retention([], keep_bytes=100, keep_s=float("inf"))
    for number in range(10):
        kept.add(Segment(float(number), number, Path(f"/absent/{number}"), 60))
        kept.remove_old(float(number))
    return kept.size_bytes > 100


def losses() -> bool:
    """Lose something that a part beside the state machine counts."""
    metrics = ServerMetrics("e1")
    metrics.read_losses = lambda: {"notifications_dropped": 3}
    line = 'nearcast_notifications_dropped_total{server="e1"} 3'
    return metrics.losses()["notifications_dropped"] != 3 or line not in metrics.text().decode()


def full_disk() -> bool:
    """Start a server on a full disk: whoever watches it has to try again."""

    async def is_full(_writer: SpoolWriter) -> None:
        raise SpoolFullError("the spool's disk is full")

    async def start(config: ServerConfig) -> None:
        await LiveServer(config, MemoryHub().link("cloud"), b"k" * 32).start()

    with tempfile.TemporaryDirectory(prefix="nearcast-survive-") as name:
        try:
            with patch.object(SpoolWriter, "start", is_full):
                asyncio.run(start(_cloud(Path(name))))
        except RestartNeededError:
            return False
        except SpoolFullError:  # the command line would say that the configuration is wrong
            return True
    return True


def _cloud(folder: Path) -> ServerConfig:
    authority = Authority.open_or_create(folder / "keys")
    authority.ensure_server("manager", "manager", time.time())
    authority.ensure_server("cloud", "cloud", time.time())
    credential = authority.credential_file("manager").read_text().strip()
    return ServerConfig(
        role="cloud",
        id="cloud",
        data=folder,
        key_file=authority.server_key_file("cloud"),
        authority=authority.public_key.hex(),
        credential_file=authority.credential_file("cloud"),
        mesh=MeshConfig("127.0.0.1:1", ManagerEntry("127.0.0.1:2", credential)),
    )


class _Enrolled:
    """One client, which has its key."""

    def __init__(self) -> None:
        self._client = EnrolledClient("a", b"a" * 32, "e0", None, 1, 1 << 40, EVERYTHING, b"")

    def enrolled(self, client: str) -> EnrolledClient | None:
        """Return it."""
        return self._client if client == "a" else None

    def owner_of(self, public_key: bytes) -> str | None:
        """Return whose key it is."""
        return "a" if public_key == self._client.public_key else None

    def planned_home(self, client: str) -> str | None:
        """Return its home."""
        return "e0"


def any_token() -> bool:
    """Enrol a known client with another key, by a token that is for enrolment only."""
    enroller = Enroller(_Enrolled(), SigningKey(b"s" * 32), EnrolmentRules())
    homes = HomeChoice({"e0": SiteServer(ServerOrder("e0", "h", 1, b""))}, {})
    try:
        thief = Enrolment("a", b"b" * 32)
        enroller.enrol([thief], homes, RevocationList(), 1.7e9, is_operator=False)
    except TrustError:
        return False
    return True


def false_manager() -> bool:
    """Enrol at somebody who is not the manager of the site, over plain HTTP."""
    evil, key = SmallAuthority(b"\x07" * 32), b"k" * 32
    manager = ServerCredential(
        "manager", "manager", bytes(32), 1, ALWAYS, evil.key.public_key, ("clients",)
    )
    home = {"host": "10.6.6.6", "port": 1, "credential": evil.server("e1", bytes(32)).hex()}
    client = {
        "client": "car",
        "credential": evil.client("car", public_key(key)).hex(),
        "home": "e1",
        "ways": [],
    }
    answer = {
        "manager": issue_server(evil.key, manager).hex(),
        "servers": {"e1": home},
        "clients": [client],
    }
    try:
        read_answer(answer, {"car": key}, SmallAuthority().key.public_key)
    except TrustError:
        return False
    return True


def stream_targets() -> bool:
    """Publish to ever new topics: where each stream goes is remembered for so many only."""
    targets = StreamTargets("e0", Capacity(streams=100), 10)
    servers = (ServerOrder("e0", "e0", 1, bytes(32)),)
    targets.obey(Orders(1, 1, "cloud", servers, (), ()))
    for number in range(1_000):
        targets.target(f"t{number}", "p")
    return len(targets) > 100


def once_publishers() -> bool:
    """Publish as ever new clients that want no acknowledgement."""
    gate = OnceGate(3)
    for number in range(10):
        gate.note(Publication("t", f"p{number}", 1, 1, 1, 2, 0.0, 0.0, b"x", Origin.ONCE))
    return len(gate) > 3
