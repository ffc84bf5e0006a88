"""A client without a loop: what an application asks and hears, over the session's state machine.

Time comes in, datagrams go out, and results are `Outcome`s or calls back. The asyncio client
drives it with a socket; a simulator may drive thousands with a clock of its own.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from msgspec import structs

from nearcast.content.attributes import Attributes
from nearcast.errors import WireError
from nearcast.sdk.credentials import Credentials
from nearcast.sdk.degrees import Degrees, place_km
from nearcast.sdk.failures import (
    NotAcknowledgedError,
    NotConnectedError,
    RequestRefusedError,
)
from nearcast.sdk.forking import end_in_children
from nearcast.sdk.outcome import Outcome, Receipt
from nearcast.wire.actions import (
    Acknowledged,
    ClientEvent,
    Confirmed,
    Connected,
    Disconnected,
    EchoReturned,
    Home,
    HomeUnreachable,
    Missed,
    PublicationRefused,
    SendDatagram,
)
from nearcast.wire.client_session import ClientSession
from nearcast.wire.cursors import SavedCursors
from nearcast.wire.envelope import make_envelope
from nearcast.wire.message_class import is_marked
from nearcast.wire.messages import CloseReason, Report
from nearcast.wire.notification import Notification
from nearcast.wire.settings import RandomBytes
from nearcast.wire.terms import NO_TERMS, Terms

__all__ = [
    "Area",
    "ClientDriver",
    "Event",
    "Payload",
    "Redirected",
    "area_text",
    "encode_payload",
]

_log = logging.getLogger(__name__)

Payload = bytes | str | Mapping[str, Any]
Area = str | Mapping[str, Any]
"""GeoJSON, as text or as a dict, or well-known text; in km, or as the client counts."""
_NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Redirected:
    """The client changed its home; Connected follows."""

    from_home: Home
    to_home: Home


Event = (
    Connected
    | Disconnected
    | HomeUnreachable
    | Confirmed
    | Missed
    | Redirected
    | PublicationRefused
)
"""Confirmed is an event only when nobody waits for it: a subscription in a later session."""


def encode_payload(payload: Payload) -> bytes:
    """Return the bytes of a payload: text as UTF-8, a mapping as JSON; WireError if impossible."""
    if isinstance(payload, bytes):
        return payload
    try:
        if isinstance(payload, Mapping):
            payload = json.dumps(
                dict(payload), ensure_ascii=False, allow_nan=False, separators=(",", ":")
            )
        return payload.encode()
    except (ValueError, TypeError, AttributeError) as error:
        raise WireError(f"the payload cannot be sent: {error}") from None


def area_text(area: Area | None) -> str:
    """Return an area as text; WireError when it is none."""
    if area is None or isinstance(area, str):
        return area or ""
    try:
        return json.dumps(area, separators=(",", ":"))  # what is NaN, who reads it names
    except (TypeError, ValueError) as error:
        raise WireError(f"area, {error}") from None


class ClientDriver:
    """One client. Call `poll` after every other call and at `next_wakeup`."""

    def __init__(
        self,
        credentials: Credentials,
        random_bytes: RandomBytes,
        cursors: SavedCursors | None = None,
        *,
        ordered: bool = True,
        degrees: bool = False,
    ) -> None:
        self.credentials = credentials
        self.degrees = Degrees(credentials.plane) if degrees else None
        """Reads places and areas that are in degrees; None: they are in km."""
        self._settings = credentials.settings()
        if not ordered:
            self._settings = replace(self._settings, order_wait_s=0.0)
        self.session = ClientSession(
            credentials.private_key,
            credentials.home,
            random_bytes,
            self._settings,
            credentials.credential,
            credentials.client,
            credentials.servers,
            cursors,
            credentials.authority,
            credentials.revoked + (cursors.revoked if cursors is not None else ()),
        )
        self.receive = self.session.receive
        """Takes datagrams of the server."""
        self.next_wakeup = self.session.next_wakeup
        """Returns when to poll again at the latest."""
        self.connected: Outcome[Home] = Outcome()
        """Done with the first session."""
        self.on_notification: Callable[[Notification], object] = lambda notification: None
        self.on_event: Callable[[Event], object] = lambda event: None
        self._home = credentials.home
        self._room: Outcome[None] | None = None
        self._receipts: dict[str, deque[Receipt]] = defaultdict(deque)
        self._requests: dict[tuple[str, bool], Outcome[None]] = {}
        self._asked: dict[str, Terms] = {}
        """By topic: the last terms."""
        self._echoes: dict[bytes, Outcome[float]] = {}
        self._echo_number = 0
        self._end_reason = ""
        end_in_children(self)
        if credentials.x_km is not None and credentials.y_km is not None:
            self.session.report(Report(credentials.x_km, credentials.y_km))

    @property
    def is_full(self) -> bool:
        """Whether another durable publication would be refused because too many wait."""
        return self.session.unacknowledged >= self._settings.publish_limit

    @property
    def room(self) -> Outcome[None]:
        """Done when publications were acknowledged; then there is another one."""
        if self._room is None:
            self._room = Outcome()
            if self.is_ended:
                self._room.fail(NotConnectedError(self._end_reason))
        return self._room

    # Calls of the application

    def start(self, now: float) -> None:
        """Begin to connect."""
        self.session.connect(now)

    def publish(
        self,
        topic: str,
        payload: bytes,
        now: float,
        *,
        durable: bool = True,
        position: tuple[float, float] | None = None,
        attributes: Attributes | None = None,
        area: Area | None = None,
        valid_s: float | None = None,
        message_class: str = "",
    ) -> Receipt:
        """Publish; WireError: too large, topic, attributes or area are invalid, or `is_full`."""
        self.check_open()
        is_connected = self.session.is_connected
        envelope = b""
        if attributes or area or valid_s is not None or message_class:
            until_us = 0 if valid_s is None else self.session.site_clock.there_us(now + valid_s)
            envelope = make_envelope(attributes, self._area(area), until_us, message_class)
        sequence = self.session.publish(
            topic,
            payload,
            now,
            durable=durable,
            position=None if position is None else place_km(self.degrees, *position),
            envelope=envelope,
            urgent=is_marked(message_class),
        )
        receipt = Receipt(topic, sequence, durable)
        if durable:
            self._receipts[topic].append(receipt)
        elif is_connected:
            receipt.resolve(None)
        else:
            receipt.fail(NotConnectedError(f"{topic}: not sent, there is no session"))
        return receipt

    def subscribe(
        self,
        topic: str,
        where: str = "",
        area: Area | None = None,
        within_km: float | None = None,
    ) -> Outcome[None]:
        """Ask for the notifications of a topic that terms let through; fails with the reason."""
        if area is not None and within_km is not None:
            raise WireError(f"{topic}: an area or a distance, not both")
        if within_km is not None:
            point = {"type": "Point", "coordinates": [0, 0]}
            around = {"type": "Feature", "geometry": point, "properties": {"radius_km": within_km}}
            return self._request(topic, True, Terms(where, area_text(around), follows=True))
        return self._request(topic, True, Terms(where, self._area(area)))

    def unsubscribe(self, topic: str) -> Outcome[None]:
        """Ask for no more notifications of a topic."""
        return self._request(topic, False)

    def _request(self, topic: str, subscribed: bool, terms: Terms = NO_TERMS) -> Outcome[None]:
        self.check_open()
        pending = self._requests.get((topic, subscribed))
        if pending is not None and self._asked.get(topic, NO_TERMS) == terms:
            return pending
        if subscribed:
            self.session.subscribe(topic, terms)
        else:
            self.session.unsubscribe(topic)
        self._asked[topic] = terms
        if pending is not None:  # the answer to the last one is the answer to both
            return pending
        opposite = self._requests.pop((topic, not subscribed), None)
        if opposite is not None:
            opposite.fail(RequestRefusedError(f"{topic}: the opposite was asked", "superseded"))
        return self._requests.setdefault((topic, subscribed), Outcome())

    def report(self, report: Report) -> None:
        """Set what the next reports say; the place as the client counts."""
        x_km, y_km = place_km(self.degrees, report.x_km, report.y_km)
        self.session.report(structs.replace(report, x_km=x_km, y_km=y_km))

    def _area(self, area: Area | None) -> str:
        text = area_text(area)
        return self.degrees.area_km(text) if text and self.degrees is not None else text

    def echo(self, payload: bytes, now: float) -> Outcome[float]:
        """Send an echo once; the value is the round trip in seconds. A lost one never ends."""
        self.check_open()
        if not self.session.is_connected:
            raise NotConnectedError("no echo without a session")
        # a number makes each one different: the session knows echoes by their payload
        self._echo_number = (self._echo_number + 1) % (1 << 8 * _NUMBER_BYTES)
        numbered = self._echo_number.to_bytes(_NUMBER_BYTES, "big") + payload
        self.session.echo(numbered, now)
        outcome: Outcome[float] = Outcome()
        self._echoes[numbered] = outcome
        if len(self._echoes) > 64:  # the session remembers no more either
            del self._echoes[next(iter(self._echoes))]
        return outcome

    def close(self) -> None:
        """Say goodbye with the next `poll`; what is still open fails."""
        self.session.close()
        self.end("the client was closed")

    def end(self, reason: str) -> None:
        """Fail all that is open, and every later call."""
        if self.is_ended:
            return
        self._end_reason = reason
        left = self.session.unacknowledged
        for receipt in chain.from_iterable(self._receipts.values()):
            name = f"{receipt.topic}, publication {receipt.sequence}"
            receipt.fail(NotAcknowledgedError(f"{name}: not acknowledged, {reason}", left))
        waiting: list[Outcome[Any]] = [self.connected]
        waiting += [*self._requests.values(), *self._echoes.values()]
        waiting += [self._room] if self._room is not None else []
        for outcome in waiting:
            outcome.fail(NotConnectedError(reason))
        self._receipts.clear()
        self._requests.clear()
        self._echoes.clear()

    def abandon(self, reason: str) -> None:
        """Send nothing any more, and have every later call fail; nobody is told now."""
        self._end_reason = reason
        self.session.abandon()

    @property
    def is_ended(self) -> bool:
        """Whether the client was closed or lost its access."""
        return bool(self._end_reason)

    def check_open(self) -> None:
        """Raise NotConnectedError when the client has ended."""
        if self.is_ended:
            raise NotConnectedError(self._end_reason)

    # Datagrams and time

    def poll(self, now: float) -> list[SendDatagram]:
        """Return the datagrams to send; results and calls back come first."""
        datagrams = []
        for action in self.session.poll(now):
            if type(action) is Notification:
                try:  # as in _call, for what comes most
                    self.on_notification(action)
                except Exception:
                    _log.exception("a callback failed")
            elif isinstance(action, SendDatagram):
                datagrams.append(action)
            else:
                self._on_event(action)
        return datagrams

    def _on_event(self, event: ClientEvent) -> None:
        match event:
            case Acknowledged():
                self._on_acknowledged(event)
            case PublicationRefused():
                self._on_refused(event)
            case EchoReturned(payload=payload):
                echo = self._echoes.pop(payload, None)
                if echo is not None:
                    echo.resolve(event.round_trip_s)
            case Confirmed(topic=topic):
                request = self._requests.pop((topic, event.subscribed), None)
                if request is None:
                    _call(self.on_event, event)
                elif event.accepted:
                    request.resolve(None)
                else:
                    reason = event.reason or "no reason given"
                    request.fail(RequestRefusedError(f"{topic}: refused: {reason}", reason))
            case Connected(home=home):
                if home != self._home:
                    _call(self.on_event, Redirected(self._home, home))
                    self._home = home
                _call(self.on_event, event)
                self.connected.resolve(home)
            case Disconnected() | HomeUnreachable() | Missed():
                _call(self.on_event, event)
                if isinstance(event, Disconnected) and event.reason is CloseReason.REVOKED:
                    self.end("the server revoked the client's access")

    def _on_refused(self, event: PublicationRefused) -> None:
        reason = event.reason.name.lower().replace("_", " ")
        for receipt in self._receipts.get(event.topic, ()) if event.durable else ():
            if receipt.sequence == event.sequence:
                name = f"{event.topic}, publication {event.sequence}"
                receipt.fail(RequestRefusedError(f"{name}: refused: {reason}", reason))
        _call(self.on_event, event)
        self._make_room()

    def _on_acknowledged(self, event: Acknowledged) -> None:
        waiting = self._receipts.get(event.topic)
        while waiting and waiting[0].sequence <= event.up_to:
            receipt = waiting.popleft()
            receipt.level = event.level
            receipt.resolve(None)
        self._make_room()

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.resolve(None)


def _call(callback: Callable[[Any], object], value: Any) -> None:
    """Call the application; an exception is logged and ends no session."""
    try:
        callback(value)
    except Exception:
        _log.exception("a callback failed")
