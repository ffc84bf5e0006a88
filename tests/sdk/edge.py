"""A small real edge server for tests: UDP on loopback, in a thread with a loop of its own.

It acknowledges durable publications and forwards everything to the subscribers. What the test
asks of it runs in its loop, between two batches.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import isnan
from typing import TypeVar

from nearcast.broker.sequence_gate import SequenceGate
from nearcast.links.steady_clock import steady_now
from nearcast.sdk.credentials import Credentials, new_private_key
from nearcast.testing.authority import admit_keys
from nearcast.wire.actions import Deliver, Home, ServerEvent, SessionClosed
from nearcast.wire.messages import (
    CloseReason,
    Notify,
    Proof,
    Report,
    Resume,
    Subscribe,
    Unsubscribe,
)
from nearcast.wire.noise import public_key
from nearcast.wire.publication import Origin, Publication
from nearcast.wire.server_sessions import ServerSessions
from nearcast.wire.settings import WireSettings

PROCESSING_US = 1_500
BETWEEN_US = 2_500
SETTINGS = WireSettings(prefix_inits_per_s=1e6, prefix_burst=1e6)

T = TypeVar("T")


@dataclass
class Site:
    """What the edges of a test share, as servers share it by their mesh."""

    enrolled: dict[bytes, str] = field(default_factory=dict)
    taken: dict[tuple[str, str], list[bytes]] = field(default_factory=dict)
    gates: dict[str, SequenceGate] = field(default_factory=dict)
    once: list[tuple[str, bytes]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    positions: list[tuple[float, float] | None] = field(default_factory=list)


class Edge:
    def __init__(self, site: Site | None = None, settings: WireSettings = SETTINGS) -> None:
        self.site = site or Site()
        self._key, self._settings = new_private_key(), settings
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.home = Home(self._socket.getsockname(), public_key(self._key))
        self.sessions = self._new_sessions()
        self.loses: Callable[[], bool] = lambda: False
        """Asked for each datagram, in and out: whether it is lost."""
        self.acknowledges = True
        self.subscribers: dict[str, list[str]] = {}
        self.heard = threading.Event()
        """Set when a Report came."""
        self._loop = asyncio.new_event_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Edge:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._socket.close()

    def enrol(self, client: str, **more: object) -> Credentials:
        credentials = Credentials(client, new_private_key(), self.home, **more)  # type: ignore[arg-type]
        self.site.enrolled[credentials.public_key] = client
        return credentials

    def do(self, work: Callable[[], T]) -> T:
        """Run something in the server's loop and wait for it."""
        done: Future[T] = Future()

        def run() -> None:
            self._drain()  # all that was sent before the question
            done.set_result(work())
            self._flush()

        self._loop.call_soon_threadsafe(run)
        return done.result(timeout=30)

    def restart(self) -> None:
        """Forget all sessions, as a server does that died and came back."""

        def forget() -> None:
            self.sessions = self._new_sessions()
            self.subscribers.clear()

        self.do(forget)

    def _new_sessions(self) -> ServerSessions:
        return ServerSessions(self._key, admit_keys(self.site.enrolled), os.urandom, self._settings)

    def redirect(self, client: str, home: Home) -> None:
        self.do(lambda: self.sessions.redirect(client, home))

    def revoke(self, client: str) -> None:
        self.do(lambda: self.sessions.close(client, CloseReason.REVOKED, steady_now()))

    def _run(self) -> None:
        self._loop.add_reader(self._socket, self._drain)
        self._loop.run_forever()

    def _drain(self) -> None:
        batch = []
        while True:
            try:
                datagram = self._socket.recvfrom(65_536)
            except BlockingIOError:
                break
            if not self.loses():
                batch.append(datagram)
        for event in self.sessions.receive(batch, steady_now()):
            self._handle(event)
        self._flush()

    def _flush(self) -> None:
        now = steady_now()
        for send in self.sessions.flush(now):
            if not self.loses():
                self._socket.sendto(send.data, send.address)
        if self._timer is not None:
            self._timer.cancel()
        wait_s = self.sessions.next_wakeup() - now
        if wait_s < float("inf"):
            self._timer = self._loop.call_later(max(0.0, wait_s), self._flush)

    def _handle(self, event: ServerEvent) -> None:
        if isinstance(event, SessionClosed):
            for names in self.subscribers.values():
                if event.client in names:
                    names.remove(event.client)
        elif isinstance(event, Publication):
            self._take_publication(event)
        elif isinstance(event, Deliver):
            self._take(event.client, event.message)

    def _take(
        self, client: str, message: Report | Subscribe | Unsubscribe | Resume | Proof
    ) -> None:
        if isinstance(message, Resume | Proof):
            return  # nothing is kept here that could be told again
        if isinstance(message, Report):
            self.site.reports.append(message)
            self.heard.set()
        elif message.topic == "forbidden":
            self.sessions.confirm(client, message.request, False, "no such topic")
        else:
            names = self.subscribers.setdefault(message.topic, [])
            if client in names:
                names.remove(client)
            if isinstance(message, Subscribe):
                names.append(client)
            self.sessions.confirm(client, message.request, True)

    def _take_publication(self, one: Publication) -> None:
        if one.origin is Origin.ONCE:
            self.site.once.append((one.topic, one.payload))
            self._forward(one)
            return
        client, topic = one.publisher, one.topic
        gate = self.site.gates.setdefault(topic, SequenceGate())
        released = gate.advance(client, one.epoch, one.oldest - 1)
        released += gate.admit(one)[1]
        for each in released:
            self.site.taken.setdefault((client, topic), []).append(each.payload)
            self._forward(each)
        if missing := gate.missing(client):
            (first, last), *_ = missing
            self.sessions.nack(client, topic, one.epoch, first, last - first + 1)
        if self.acknowledges:
            self.sessions.acknowledge(client, topic, one.epoch, gate.streams[client].sequence)

    def _forward(self, one: Publication) -> None:
        self.site.positions.append(None if isnan(one.x_km) else (one.x_km, one.y_km))
        for subscriber in self.subscribers.get(one.topic, ()):
            self.sessions.notify(
                subscriber,
                [
                    Notify(
                        topic=one.topic,
                        publisher=one.publisher,
                        epoch=one.epoch,
                        sequence=one.sequence,
                        durable=one.origin is not Origin.ONCE,
                        part=0,
                        payload=one.payload,
                        published_us=one.published_us,
                        received_us=one.received_us,
                        notified_us=one.received_us + PROCESSING_US + BETWEEN_US,
                        processing_us=PROCESSING_US,
                        envelope=one.envelope,
                    )
                ],
            )
