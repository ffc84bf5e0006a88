"""The asyncio client: a driver, its pump and a queue of notifications; no task.

::

    async with Client.connect("car-7.json") as client:
        await client.subscribe("alerts/north")
        await client.publish_and_wait("traffic/north", {"speed_kmh": 12})
        async for notification in client.notifications():
            print(notification.text, notification.total_ms)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack

from nearcast.links.steady_clock import steady_now
from nearcast.sdk.client_options import ClientOptions, PublishOptions
from nearcast.sdk.credentials import Credentials, load_credentials
from nearcast.sdk.degrees import Degrees
from nearcast.sdk.discovery import check_discovery, discover
from nearcast.sdk.driver import Area, ClientDriver, Event, Payload, encode_payload
from nearcast.sdk.failures import ClientError, NotAcknowledgedError, NotConnectedError
from nearcast.sdk.notification_queue import NotificationQueue
from nearcast.sdk.outcome import Outcome, Receipt
from nearcast.sdk.pump import Pump
from nearcast.wire.actions import Home
from nearcast.wire.cursors import SavedCursors
from nearcast.wire.messages import Report
from nearcast.wire.notification import Notification

__all__ = ["Client"]

T = TypeVar("T")
_DISCOVERY_S = 3.0
"""How long servers are looked for."""


class Client:
    """A client of a site. Use it in the loop that started it.

    Parameters
    ----------
    credentials
        Who the client is and where its home is.
    timeout_s
        How long `async with` waits for the first session, and each request for its answer.
    notification_limit
        Notifications kept for `notifications`; the oldest ones are dropped and counted.
    cursors
        Of an earlier client: subscriptions go on where they were.
    ordered
        Whether a notification waits a little for those before it that are late.
    degrees
        Whether positions, reports and areas are given as longitude and latitude (WGS84) instead
        of kilometres east and north; the credential file has to know the site's plane.
    discover
        Where `async with` looks for servers first: ``dns:DOMAIN`` or ``mdns``, see
        `nearcast.sdk.discovery`; empty: the credential file knows them.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeout_s: float = 10.0,
        notification_limit: int = 10_000,
        cursors: SavedCursors | None = None,
        ordered: bool = True,
        degrees: bool = False,
        discover: str = "",
    ) -> None:
        self._make_driver = partial(
            ClientDriver,
            random_bytes=os.urandom,
            cursors=cursors,
            ordered=ordered,
            degrees=degrees,
        )
        self._driver = self._make_driver(credentials)
        self._timeout_s, self._discover = timeout_s, discover
        if discover:
            check_discovery(discover)
        self._notifications = NotificationQueue(notification_limit)
        self._driver.on_notification = self._notifications.put
        self._pump: Pump | None = None

    def check_open(self) -> None:
        """Raise NotConnectedError with the reason, when the client has ended."""
        self._driver.check_open()

    @classmethod
    def connect(
        cls, credentials: Credentials | str | Path, **options: Unpack[ClientOptions]
    ) -> Self:
        """Return a client for ``async with``, which connects it and closes it at the end."""
        if not isinstance(credentials, Credentials):
            credentials = load_credentials(credentials)
        return cls(credentials, **options)

    async def __aenter__(self) -> Self:
        if self._discover:
            await self._look_for_servers()
        self.start()
        try:
            await self.wait_connected()
        except BaseException:
            self._shut()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close(timeout_s=self._timeout_s if error is None else 0.0)
        except ClientError:
            if error is None:
                raise  # else the first error is the one to tell

    # The session

    async def _look_for_servers(self) -> None:
        before = self._driver
        limit_s = min(_DISCOVERY_S, self._timeout_s / 2)
        found = await discover(before.credentials, self._discover, limit_s)
        if found is not before.credentials:
            self._driver = self._make_driver(found)
            self._driver.on_notification = before.on_notification
            self._driver.on_event = before.on_event
            before.abandon("servers were looked for")

    def start(self) -> None:
        """Begin to connect, in the running loop; once per client."""
        self._driver.check_open()
        self._pump = Pump(self._driver)

    async def wait_connected(self, timeout_s: float | None = None) -> Home:
        """Return the first home; NotConnectedError when it does not answer in time."""
        host, port = self.home.address
        problem = (
            f"client {self.name!r}: the server at {host}:{port} did not let it in; is it running, "
            "is the client enrolled there, is its server_key right, are the clocks in step?"
        )
        return await self._wait(self._driver.connected, problem, timeout_s)

    @property
    def name(self) -> str:
        """The client's id."""
        return self._driver.credentials.client

    @property
    def home(self) -> Home:
        """The home that the client has or wants."""
        return self._driver.session.home

    @property
    def is_connected(self) -> bool:
        """Whether there is a session now."""
        return self._driver.session.is_connected

    @property
    def unacknowledged(self) -> int:
        """How many durable publications are not known to be safe."""
        return self._driver.session.unacknowledged

    @property
    def credentials(self) -> Credentials:
        """The credentials with what the client knows now: save them to start there the next time."""
        session = self._driver.session
        return replace(
            self._driver.credentials,
            home=session.home,
            servers=session.servers,
            revoked=session.revoked,
        )

    def on_event(self, callback: Callable[[Event], object]) -> None:
        """Have every later change of the session told: see `nearcast.sdk.driver.Event`."""
        self._driver.on_event = callback

    async def close(self, timeout_s: float = 5.0) -> None:
        """Wait for acknowledgements, say goodbye and let go of the socket.

        Raises
        ------
        NotAcknowledgedError
            When durable publications are still open after the timeout; the client is closed
            all the same.
        """
        pump = self._pump
        if pump is None or self._driver.is_ended:
            self._shut()
            return
        try:
            with contextlib.suppress(TimeoutError, NotConnectedError):
                async with asyncio.timeout(timeout_s):
                    while self.unacknowledged:
                        await self._driver.room
            left = self.unacknowledged
            pump.run()  # what was published just now
            self._driver.close()
            pump.run()
            # let the goodbye out of the emulated distance
            await asyncio.sleep(pump.port.longest_delay_s())
        finally:
            self._shut()
        if left:
            raise NotAcknowledgedError(
                f"client {self.name!r}: {left} publications were not acknowledged", left
            )

    def _shut(self) -> None:
        self._driver.end("the client was closed")
        self._notifications.close()
        if self._pump is not None:
            self._pump.close()

    # Publishing

    async def publish(
        self,
        topic: str,
        payload: Payload,
        *,
        durable: bool = True,
        **options: Unpack[PublishOptions],
    ) -> Receipt:
        """Publish, and return a receipt to await or to forget.

        Waits while too many durable publications are unacknowledged. WireError says that the
        payload is too large, or the topic or an attribute is invalid.
        """
        while durable and self._driver.is_full:
            await self._driver.room
        return self.publish_now(topic, payload, durable=durable, **options)

    def publish_now(
        self,
        topic: str,
        payload: Payload,
        *,
        durable: bool = True,
        **options: Unpack[PublishOptions],
    ) -> Receipt:
        """Publish without waiting: WireError when too many are unacknowledged."""
        data = encode_payload(payload)
        receipt = self._driver.publish(topic, data, steady_now(), durable=durable, **options)
        self._wake()
        return receipt

    async def publish_and_wait(
        self,
        topic: str,
        payload: Payload,
        *,
        timeout_s: float | None = None,
        **options: Unpack[PublishOptions],
    ) -> Receipt:
        """Publish durably and return once it is acknowledged; NotConnectedError if not in time.

        After the timeout it is still repeated, as long as the client is open.
        """
        receipt = await self.publish(topic, payload, **options)
        await self._wait(receipt, f"{topic}: not acknowledged yet", timeout_s)
        return receipt

    # Hearing

    async def subscribe(
        self,
        topic: str,
        *,
        where: str = "",
        area: Area | None = None,
        within_km: float | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Ask for a topic's notifications, in this session and in later ones.

        With a filter (``kind = "fuel" and price < 1.80``) only for those of messages whose
        attributes match it; with an area (GeoJSON or well-known text in km) only for those of
        messages that happen there, or within a distance of where the client is at the time. The
        last terms given for a topic count.

        Raises
        ------
        RequestRefusedError
            With the server's reason.
        NotConnectedError
            When there is no answer in time; the client goes on asking.
        """
        answer = self._driver.subscribe(topic, where, area, within_km)
        self._wake()
        await self._wait(answer, f"{topic}: no answer to the subscription", timeout_s)

    async def unsubscribe(self, topic: str, *, timeout_s: float | None = None) -> None:
        """Ask for no more notifications of a topic; errors as in `subscribe`."""
        answer = self._driver.unsubscribe(topic)
        self._wake()
        await self._wait(answer, f"{topic}: no answer to its end", timeout_s)

    async def notifications(self) -> AsyncIterator[Notification]:
        """Yield notifications as they come, until the client is closed."""
        while (notification := await self.next_notification()) is not None:
            yield notification

    async def next_notification(self, timeout_s: float | None = None) -> Notification | None:
        """Return the next notification; None after the timeout or once the client is closed."""
        return await self._notifications.take(timeout_s)

    def take_notification(self) -> Notification | None:
        """Return a notification that is here already, or None; any thread may call it."""
        return self._notifications.take_now()

    def on_notification(self, callback: Callable[[Notification], object]) -> None:
        """Have later notifications passed to a function instead of `notifications`."""
        self._driver.on_notification = callback

    @property
    def cursors(self) -> SavedCursors:
        """How far the client has certainly heard what it subscribes to; for a later client.

        It is some seconds behind: what came last may be heard again.
        """
        return self._driver.session.cursors

    @property
    def dropped_notifications(self) -> int:
        """How many notifications nobody took in time."""
        return self._notifications.dropped

    # The rest

    def report(
        self,
        x_km: float,
        y_km: float,
        direction_deg: float = 0.0,
        speed_mps: float = 0.0,
        *,
        at_once: bool = False,
    ) -> None:
        """Say where the client is: with the next regular report, or at once.

        With `degrees` the first two are longitude and latitude.
        """
        self._driver.report(Report(x_km, y_km, direction_deg, speed_mps))
        if at_once:
            self._driver.session.moved(steady_now())
            if self._pump is not None:
                self._pump.run()

    @property
    def degrees(self) -> Degrees | None:
        """From degrees to the site's km and back, if the client counts in degrees."""
        return self._driver.degrees

    def emulate_delays(self, delays_ms: Mapping[str, float]) -> None:
        """Hold datagrams as if the client were elsewhere: see `Credentials.delays_ms`."""
        if self._pump is not None:
            elsewhere = replace(self._driver.credentials, delays_ms=delays_ms)
            self._pump.port.hold(elsewhere.delays_s())

    async def echo(self, payload: bytes = b"", *, timeout_s: float | None = None) -> float:
        """Return the round trip to the home in seconds; NotConnectedError when it is lost."""
        answer = self._driver.echo(payload, steady_now())
        self._wake()
        return await self._wait(answer, "the echo did not come back", timeout_s)

    async def _wait(self, outcome: Outcome[T], problem: str, timeout_s: float | None) -> T:
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await outcome
        except TimeoutError:
            found = self._pump.port.problem if self._pump is not None else "it was never started"
            cause = f": {found}" if found else ""
            raise NotConnectedError(f"{problem} (waited {limit_s:g} s){cause}") from None

    def _wake(self) -> None:
        if self._pump is not None:
            self._pump.wake()
