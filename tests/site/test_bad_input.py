"""A hundred thousand hostile datagrams at a real edge server, while honest clients go on."""

from __future__ import annotations

import os
import random
import select
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nearcast.links.steady_clock import steady_now
from nearcast.sdk import Credentials, Home, SyncClient, new_private_key
from nearcast.site.live_site import LiveSite, run_site
from nearcast.wire.actions import SendDatagram
from nearcast.wire.client_session import ClientSession
from nearcast.wire.framing import MAC_BYTES
from small_site.making import (
    health,
    memory_bytes,
    metrics_of,
    output_of,
    quick,
    until,
    write_small_scenario,
)

pytestmark = pytest.mark.slow

DATAGRAMS = 100_000
BURST = 250
"""Then an honest round trip: the server has read them all, none fell out of a full buffer."""
MEMORY_GROWTH_BYTES = 32 << 20


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    folder: Path = tmp_path_factory.mktemp("attacked")
    names = ["car", "sign", "mallory"]
    scenario = write_small_scenario(folder / "small", clients=names, topics=["road"])
    with run_site(scenario, folder / "site", quick(scenario)) as site:
        yield site


class Attacker:
    """Knows the server's public key, and has an enrolled client's session to copy from."""

    def __init__(self, credentials: Credentials, seed: int) -> None:
        self.chance = random.Random(seed)
        self._home = credentials.home
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.true: deque[bytes] = deque(maxlen=64)
        """Datagrams that the server took."""
        self._session = ClientSession(
            credentials.private_key, self._home, os.urandom, credential=credentials.credential
        )
        self._inits = [self._init(new_private_key(), self._home) for _ in range(64)]
        wrong = Home(self._home.address, os.urandom(32))
        self._inits_for_another = [self._init(new_private_key(), wrong) for _ in range(64)]
        self.kinds: dict[str, Callable[[], bytes]] = {
            "random bytes": lambda: self._random(self.chance.randrange(1, 1_500)),
            "oversized": lambda: self._random(self.chance.choice([1_201, 9_000, 65_000])),
            "truncated": self._truncated,
            "bits flipped": self._flipped,
            "forged seal": self._forged,
            "replayed": lambda: self.chance.choice(self.true),
            "not enrolled": lambda: self.chance.choice(self._inits),
            "for another server": lambda: self.chance.choice(self._inits_for_another),
        }

    def send(self, data: bytes) -> None:
        self._socket.sendto(data, self._home.address)

    def close(self) -> None:
        self._socket.close()

    def connect(self) -> None:
        """Open a session and publish, until there is something to copy from."""
        self._session.connect(steady_now())

        def is_done() -> bool:
            self.stay_connected()
            select.select([self._socket], [], [], 0.05)
            if self._session.is_connected and len(self.true) < 20:
                self._session.publish("road", b"mallory", steady_now())
            return len(self.true) >= 20 and not self._session.unacknowledged

        until(is_done, "the attacker has a session")

    def stay_connected(self) -> None:
        """Do what an honest client does: read, answer, report."""
        while select.select([self._socket], [], [], 0)[0]:
            self._session.receive([self._socket.recv(1 << 16)], steady_now())
        for action in self._session.poll(steady_now()):
            if isinstance(action, SendDatagram):
                self.true.append(action.data)
                self.send(action.data)

    @staticmethod
    def _init(key: bytes, home: Home) -> bytes:
        session = ClientSession(key, home, os.urandom)
        session.connect(steady_now())
        (init,) = session.poll(steady_now())
        assert isinstance(init, SendDatagram)
        return init.data

    def _random(self, size: int) -> bytes:
        return self.chance.randbytes(size)

    def _truncated(self) -> bytes:
        data = self.chance.choice(self.true)
        return data[: self.chance.randrange(len(data))]

    def _flipped(self) -> bytes:
        data = bytearray(self.chance.choice(self.true))
        # behind the last 16 bytes of an INIT lies nothing but a cookie, which is not asked for now
        data[self.chance.randrange(len(data) - MAC_BYTES)] ^= 1 << self.chance.randrange(8)
        return bytes(data)

    def _forged(self) -> bytes:
        """Return a sealed datagram of the session with a later counter and a body of our own."""
        header = self.true[-1][:6]
        counter = self.chance.randrange(1 << 32).to_bytes(8, "big")
        return header + counter + self._random(self.chance.randrange(16, 300))


def test_a_hundred_thousand_hostile_datagrams_do_not_disturb_honest_clients(
    live: LiveSite,
) -> None:
    credentials = live.enrol_clients()
    port, pid = live.site.place("e1").http_port, live.processes.pid("e1")
    sent: Counter[str] = Counter()
    acknowledged = heard = 0
    started_bytes = 0
    drops_before = sum(metrics_of(port).get("nearcast_drops_total", {}).values())
    with (
        closing(Attacker(credentials["mallory"], seed=5)) as attacker,
        SyncClient.connect(credentials["car"], timeout_s=60) as car,
        SyncClient.connect(credentials["sign"], timeout_s=60) as sign,
    ):
        attacker.connect()
        kinds = list(attacker.kinds)
        sign.subscribe("road")
        while sum(sent.values()) < DATAGRAMS:
            for _ in range(BURST):
                kind = kinds[sum(sent.values()) % len(kinds)]
                attacker.send(attacker.kinds[kind]())
                sent[kind] += 1
            attacker.stay_connected()
            car.publish("road", "honest").wait(60)
            acknowledged += 1
            told = sign.next_notification(timeout_s=60)
            heard += told is not None and told.payload == b"honest"
            if sum(sent.values()) == DATAGRAMS // 10:
                started_bytes = memory_bytes(pid)  # buffers and tables have their size by now
    grown_bytes = memory_bytes(pid) - started_bytes
    for _ in range(1_000):  # nobody waited for strangers: the last ones may not be read yet
        metrics = metrics_of(port)
        drops = metrics["nearcast_drops_total"]
        dropped = int(sum(drops.values()) - drops_before)
        strangers = int(metrics.get("nearcast_strangers_dropped_total", {}).get("", 0))
        missed = int(metrics.get("nearcast_kernel_drops_total", {}).get("", 0)) + strangers
        if dropped + missed >= sum(sent.values()):
            break
    print(
        f"\n{sum(sent.values())} hostile datagrams: {dropped} dropped by reason, {missed} by the "
        f"kernel; {acknowledged} acknowledged, {heard} notified; {grown_bytes / 1e6:.1f} MB more; "
        f"{dict(sorted((name, int(count)) for name, count in drops.items()))}"
    )
    assert sum(sent.values()) >= DATAGRAMS
    assert acknowledged == heard == DATAGRAMS // BURST
    assert dropped + missed >= sum(sent.values())
    assert missed - strangers <= DATAGRAMS // 100
    # How many datagrams of strangers the kernel refuses follows from how fast they come; enough of
    # each kind must have been looked at all the same.
    reasons = {"too_long", "too_short", "unknown_kind", "unknown_session", "init_mac1", "replayed"}
    assert all(drops.get(reason, 0) >= 100 for reason in reasons | {"seal"})
    assert drops.get("not_signed", 0) > 0
    assert health(live, "e1") == "ok"
    assert live.processes.pid("e1") == pid
    assert grown_bytes < MEMORY_GROWTH_BYTES
    assert "Traceback" not in output_of(live, "e1")
