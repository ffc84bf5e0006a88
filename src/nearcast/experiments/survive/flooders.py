"""Who floods a server; each runs in a process of its own and counts what it has sent."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from multiprocessing.sharedctypes import Synchronized

from nearcast.sdk.credentials import Credentials
from nearcast.wire.actions import Home
from nearcast.wire.channel import Channel
from nearcast.wire.client_handshake import ClientHandshake
from nearcast.wire.codec import Refused, encode
from nearcast.wire.framing import InitKeys, Kind, read_header
from nearcast.wire.messages import Close, CloseReason, Echo, Heartbeat, Init, Publish
from nearcast.wire.settings import Address, WireSettings

__all__ = ["FLOODS", "Flooder", "strangers"]

Flooder = Callable[[Address, Credentials, float, "Synchronized[int]"], None]
"""Gets where the server is, who to be, datagrams or sessions per second, and where to count."""
_BURST = 50
_BOGUS = 300
_BOGUS_BYTES = 300
_SOURCES = 64
_ANSWER_S = 0.2


def strangers(
    target: Address, credentials: Credentials, rate_per_s: float, total: Synchronized[int]
) -> None:
    """Send random bytes, sealed datagrams of no session, and INITs by who knows the server."""
    keys = InitKeys(credentials.home.server_key)
    kinds = (
        lambda: os.urandom(_BOGUS_BYTES),
        lambda: b"\x14\x00" + os.urandom(_BOGUS_BYTES),
        lambda: keys.write_init(1, os.urandom(_BOGUS_BYTES)),
    )
    bogus = cycle([kinds[number % len(kinds)]() for number in range(_BOGUS)])
    sources = _sources(target)
    for _ in _paced(rate_per_s, total):
        source = next(sources)
        for _ in range(_BURST):
            source.send(next(bogus))


def greedy_member(
    target: Address, credentials: Credentials, rate_per_s: float, total: Synchronized[int]
) -> None:
    """Have a session and send publications, echoes and heartbeats without a pause."""
    source = next(_sources(target))
    channel = _open_session(source, target, credentials)
    messages = (
        Publish("flooded", 1, 1, 1, False, bytes(100)),
        Echo(bytes(16)),
        Heartbeat(bytes(8)),
    )
    frames = cycle([encode(one) for one in messages])
    for _ in _paced(rate_per_s, total):
        for _ in range(_BURST):
            source.send(channel.seal(next(frames)))


def restless_member(
    target: Address, credentials: Credentials, rate_per_s: float, total: Synchronized[int]
) -> None:
    """Open one session after the other, from many addresses, and leave each at once."""
    farewell = encode(Close(CloseReason.DONE))
    sources = _sources(target)
    while True:
        source = next(sources)
        source.send(_open_session(source, target, credentials).seal(farewell))
        total.value += 1


FLOODS: dict[str, Flooder] = {
    "strangers": strangers,
    "greedy_member": greedy_member,
    "restless_member": restless_member,
}


def _open_session(source: socket.socket, target: Address, credentials: Credentials) -> Channel:
    """Return the channel of a new session, as a visitor that has its home elsewhere."""
    source.settimeout(_ANSWER_S)
    settings, home = WireSettings(), Home(target, credentials.home.server_key)
    handshake = ClientHandshake(credentials.private_key, home, os.urandom, settings, 0.0)
    init = Init(credential=credentials.credential, visits=True)
    source.send(handshake.write_init(init, time.time()).data)
    while True:
        try:
            answer = source.recv(1 << 16)
            kind = read_header(answer).kind
            if kind is Kind.COOKIE:
                handshake.read_cookie(answer, time.time())
                source.send(handshake.write_init(init, time.time()).data)
            elif kind is Kind.ACKNOWLEDGE:
                return handshake.read_acknowledge(answer)[0]
        except Refused:
            continue  # an answer to what was sent before
        except TimeoutError:
            source.send(handshake.write_init(init, time.time()).data)


def _sources(target: Address) -> Iterator[socket.socket]:
    """Return sockets with addresses in many networks, again and again."""
    sockets = []
    for number in range(1, _SOURCES + 1):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.bind((f"127.{number}.{number}.1", 0))
        one.connect(target)
        sockets.append(one)
    return cycle(sockets)


def _paced(rate_per_s: float, total: Synchronized[int]) -> Iterator[None]:
    """Yield before each burst, when it is due."""
    began_s, sent = time.monotonic(), 0
    while True:
        yield
        sent += _BURST
        total.value = sent
        early_s = sent / rate_per_s - (time.monotonic() - began_s)
        if early_s > 0:
            time.sleep(early_s)
