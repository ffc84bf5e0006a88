"""Client sessions for load processes: the product's own, with a receive path that only counts.

A subscriber opens each datagram and takes the first bytes of each notification's payload; it
builds no notification and forgets no repetition (`arrivals` counts each once). Handshake,
subscriptions, publications, receipts and timers are those of `ClientSession`.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from nearcast.experiments.latency.arrivals import Heard
from nearcast.experiments.latency.workload import HEAD
from nearcast.links.steady_clock import steady_now
from nearcast.sdk.credentials import Credentials
from nearcast.wire.actions import Confirmed, Disconnected, SendDatagram
from nearcast.wire.client_connection import ClientConnection
from nearcast.wire.client_link import ClientLink
from nearcast.wire.client_session import ClientSession
from nearcast.wire.codec import COPY, FRAME_BYTES, Refused, decode
from nearcast.wire.framing import Kind
from nearcast.wire.generated import nearcast_pb2
from nearcast.wire.group_datagram import GroupOpener
from nearcast.wire.group_hearing import GroupHearing
from nearcast.wire.settings import Address

__all__ = ["GroupListener", "LeanSession", "SessionSocket", "SharedOpener"]

_NOTIFY = 12
_KIND_BITS = 0x0F
_SEALED = int(Kind.SEALED)
_READ_BYTES = 2048
_INDEX = slice(2, 6)
"""Where a datagram says which session it is for."""
_parse_notify = nearcast_pb2.Notify.FromString


class LeanSession(ClientSession):
    """A client whose notifications go to `heard`.

    Parameters
    ----------
    probe_after_s
        When it asks a silent server whether it is there; None: as clients do.
    """

    def __init__(
        self, credentials: Credentials, carrier: SessionSocket, probe_after_s: float | None = None
    ) -> None:
        settings = credentials.settings()
        if probe_after_s is not None:
            settings = replace(settings, probe_after_s=probe_after_s)
        super().__init__(
            credentials.private_key,
            credentials.home,
            os.urandom,
            settings,
            credentials.credential,
            credentials.client,
        )
        self.heard = Heard()
        self.group = GroupHearing(self._context, self._on_group, carrier.opener)
        self.unicast_datagrams = 0
        """Datagrams with notifications in the session."""
        self.confirmed = 0
        """Subscriptions that the server accepted."""
        self.disconnections = 0
        self.wakeup_s = math.inf
        """When `Wakeups` will look at it."""
        self._due = -math.inf
        """When the session has something to do: nothing before; what arrives may move it."""
        self.carrier = carrier
        self.connect(steady_now())

    def take(self, data: bytes, now: float) -> None:
        """Take a datagram of the server: `receive` without what unknown senders make necessary."""
        link = self._home.link
        if link is None or data[0] & _KIND_BITS != _SEALED:
            self.receive((data,), now)
            return
        try:
            self._on_sealed(self._home, link, data, now)
        except Refused as refusal:
            self.drops[refusal.reason] += 1

    def is_receipt_due(self, now: float) -> bool:
        """Whether the server should hear at once what arrived."""
        link = self._home.link
        return link is not None and link.receipt_due <= now

    def send_published(self, now: float) -> None:
        """Send what was just published, before all that `run` has to see to."""
        for datagram in self.send_publications(now):
            self.carrier.send(datagram)

    def run(self, now: float) -> None:
        """Send what is due and note what happened."""
        self._due = -math.inf
        actions = self.poll(now)
        if self._home.handshake is not None:
            self.carrier.sessions[self._home.handshake.index.to_bytes(4, "big")] = self
        for action in actions:
            if isinstance(action, SendDatagram):
                self.carrier.send(action)
            elif isinstance(action, Confirmed):
                self.confirmed += action.accepted
            elif isinstance(action, Disconnected):
                self.disconnections += 1

    def _on_sealed(
        self, _connection: ClientConnection, link: ClientLink, data: bytes, now: float
    ) -> None:
        if self._take_frames(link.open(data, now), now):
            self.unicast_datagrams += 1
            link.note_notifications(now)
            if link.receipt_due < self._due:
                self._due = link.receipt_due

    def _on_group(self, frames: bytes, now: float) -> None:
        self.heard.by_group += self._take_frames(frames, now)

    def _take_frames(self, payload: bytes, now: float) -> int:
        """Note notifications and do what other frames ask for; return how many of the first."""
        heads, start, end = self.heard.heads, 0, len(payload)
        before = len(heads)
        while start < end and (number := payload[start]):
            body = start + FRAME_BYTES
            after = body + (payload[start + 1] << 8 | payload[start + 2])
            if number & ~COPY == _NOTIFY:
                heads.append(_parse_notify(payload[body:after]).payload[: HEAD.size])
            else:
                self._due = -math.inf
                for message, _ in decode(payload[start:after]):
                    try:
                        self._on_message(message, now)
                    except Refused as refusal:
                        self.drops[refusal.reason] += 1
            start = after
        if found := len(heads) - before:
            at_ns = time.monotonic_ns()
            if found == 1:
                self.heard.at_ns.append(at_ns)
            else:
                self.heard.at_ns += [at_ns] * found
        return found


class SharedOpener(GroupOpener):
    """Opens each datagram of a group once for all sessions of one socket, and takes the time."""

    def __init__(self, key: bytes, verifier: bytes) -> None:
        super().__init__(key, verifier)
        self._last: tuple[bytes, bytes] = (b"", b"")
        self.opened, self.seconds = 0, 0.0
        """How many datagrams, and the CPU time that they took."""

    def open(self, datagram: bytes) -> bytes:
        """Return the body, from the last time if it is the same datagram."""
        if datagram is not self._last[0]:
            began_s = time.thread_time()
            self._last = (datagram, super().open(datagram))
            self.seconds += time.thread_time() - began_s
            self.opened += 1
        return self._last[1]


class GroupListener:
    """The socket by which the sessions of another one hear their server's multicast group."""

    def __init__(self, group: Address, sessions: Sequence[LeanSession]) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(group)
        joined = socket.inet_aton(group[0]) + socket.inet_aton("127.0.0.1")
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        self.socket.setblocking(False)
        self._sessions = sessions
        self.datagrams = 0

    def read(self, now: float) -> Sequence[LeanSession]:
        """Hand out what has arrived to all sessions; return them if there was anything."""
        with suppress(BlockingIOError):
            while data := self.socket.recv(_READ_BYTES):
                self.datagrams += 1
                for session in self._sessions:
                    session.receive((data,), now)
        return self._sessions


class SessionSocket:
    """A UDP socket that carries one session or many: a datagram says which it is for."""

    def __init__(self, reads: int) -> None:
        self.reads = reads
        """Datagrams that `read` takes at a time: 1 where there is seldom another, since to find a
        socket empty costs as much as to read from it."""
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.sessions: dict[bytes, LeanSession] = {}
        """By the index in datagrams for them; those of given up handshakes stay."""
        self.openers: dict[bytes, SharedOpener] = {}
        """What opens datagrams of a multicast group, by key."""
        self.unsent = 0
        """Datagrams that the socket had no room for; what matters is repeated."""

    def send(self, datagram: SendDatagram) -> None:
        """Send a datagram, or drop it when there is no room."""
        try:
            self.socket.sendto(datagram.data, datagram.address)
        except BlockingIOError:
            self.unsent += 1

    def opener(self, key: bytes, verifier: bytes) -> SharedOpener:
        """Return what opens datagrams of a multicast group, the same for all sessions here."""
        if key not in self.openers:
            self.openers[key] = SharedOpener(key, verifier)
        return self.openers[key]

    def read(self, now: float) -> list[LeanSession]:
        """Hand out what has arrived, `reads` datagrams at most; return who got something."""
        receive, found = self.socket.recv, []
        for _ in range(self.reads):
            try:
                data = receive(_READ_BYTES)
            except BlockingIOError:
                break
            session = self.sessions.get(data[_INDEX])
            if session is not None:
                session.take(data, now)
                found.append(session)
                if session.is_receipt_due(now):
                    session.run(now)
        return found
