"""The client for programs without asyncio: the same client in a thread of its own.

::

    with SyncClient.connect("car-7.json") as client:
        client.subscribe("alerts/north")
        client.publish("traffic/north", {"speed_kmh": 12}).wait()
        for notification in client.notifications(timeout_s=5):
            print(notification.text)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from nearcast.sdk.client import Client
from nearcast.sdk.client_options import ClientOptions, PublishOptions
from nearcast.sdk.credentials import Credentials, load_credentials
from nearcast.sdk.driver import Area, Payload
from nearcast.sdk.failures import NotAcknowledgedError, NotConnectedError
from nearcast.sdk.outcome import Receipt
from nearcast.wire.actions import Home
from nearcast.wire.cursors import SavedCursors
from nearcast.wire.notification import Notification

__all__ = ["SyncClient", "SyncReceipt"]

T = TypeVar("T")
_INTERRUPTIBLE_S = 1.0
"""A signal that comes just before a thread begins to wait does not end that wait: it waits again
and again, so that Ctrl-C always counts."""


class SyncReceipt:
    """What `SyncClient.publish` returns: wait for it to know that the publication is safe."""

    def __init__(self, owner: SyncClient, receipt: Receipt) -> None:
        self._owner = owner
        self._receipt = receipt
        self.topic = receipt.topic
        self.sequence = receipt.sequence

    def wait(self, timeout_s: float | None = 10.0) -> None:
        """Return once it is safe, as `Receipt`; NotAcknowledgedError when not in time."""
        if self._receipt.is_done:
            self._receipt.result()
        else:
            self._owner.run(self._wait(timeout_s))

    async def _wait(self, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._receipt
        except TimeoutError:
            name = f"{self.topic}, publication {self.sequence}"
            raise NotAcknowledgedError(f"{name}: not acknowledged yet", 1) from None


class SyncClient:
    """A client for threads; every method may be called from any thread but the client's own.

    Opens at once and raises what `Client` raises. Parameters are those of `Client`.
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
        self.inner = Client(
            credentials,
            timeout_s=timeout_s,
            notification_limit=notification_limit,
            cursors=cursors,
            ordered=ordered,
            degrees=degrees,
            discover=discover,
        )
        """The client in the thread, for coroutines that `run` runs there."""
        self._loop = _new_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"nearcast {credentials.client}", daemon=True
        )
        self._thread.start()
        try:
            self.run(self.inner.__aenter__())
        except BaseException:
            self._stop()
            raise

    @classmethod
    def connect(
        cls, credentials: Credentials | str | Path, **options: Unpack[ClientOptions]
    ) -> Self:
        """Return a connected client; use it in a ``with`` block or close it."""
        if not isinstance(credentials, Credentials):
            credentials = load_credentials(credentials)
        return cls(credentials, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop.is_closed():
            return
        try:
            self.run(self.inner.__aexit__(kind, error, trace))
        finally:
            self._stop()

    def close(self, timeout_s: float = 5.0) -> None:
        """Wait for acknowledgements and end the client, as `Client.close`."""
        if self._loop.is_closed():
            return
        try:
            self.run(self.inner.close(timeout_s))
        finally:
            self._stop()

    @property
    def home(self) -> Home:
        """The home that the client has or wants."""
        return self.inner.home

    @property
    def cursors(self) -> SavedCursors:
        """How far the client has certainly heard what it subscribes to, as `Client.cursors`."""

        async def cursors() -> SavedCursors:
            return self.inner.cursors

        return self.run(cursors())

    @property
    def dropped_notifications(self) -> int:
        """How many notifications nobody took in time."""
        return self.inner.dropped_notifications

    def publish(
        self,
        topic: str,
        payload: Payload,
        *,
        durable: bool = True,
        **options: Unpack[PublishOptions],
    ) -> SyncReceipt:
        """Publish; waits only while too many are unacknowledged."""
        publish = self.inner.publish(topic, payload, durable=durable, **options)
        return SyncReceipt(self, self.run(publish))

    def subscribe(
        self,
        topic: str,
        *,
        where: str = "",
        area: Area | None = None,
        within_km: float | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Ask for a topic's notifications, as `Client.subscribe`."""
        self.run(
            self.inner.subscribe(
                topic, where=where, area=area, within_km=within_km, timeout_s=timeout_s
            )
        )

    def unsubscribe(self, topic: str, *, timeout_s: float | None = None) -> None:
        """Ask for no more notifications of a topic."""
        self.run(self.inner.unsubscribe(topic, timeout_s=timeout_s))

    def notifications(self, timeout_s: float | None = None) -> Iterator[Notification]:
        """Yield notifications until none comes for `timeout_s` seconds (None: for ever)."""
        while (notification := self.next_notification(timeout_s)) is not None:
            yield notification

    def next_notification(self, timeout_s: float | None = None) -> Notification | None:
        """Return the next notification; None after the timeout."""
        notification = self.inner.take_notification()  # one that is here needs no other thread
        if notification is not None:
            return notification
        return self.run(self.inner.next_notification(timeout_s))

    def report(
        self, x_km: float, y_km: float, direction_deg: float = 0.0, speed_mps: float = 0.0
    ) -> None:
        """Say where the client is, at once."""

        async def report() -> None:
            self.inner.report(x_km, y_km, direction_deg, speed_mps, at_once=True)

        self.run(report())

    def echo(self, payload: bytes = b"", *, timeout_s: float | None = None) -> float:
        """Return the round trip to the home in seconds."""
        return self.run(self.inner.echo(payload, timeout_s=timeout_s))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the client's loop and wait for it: many calls at the price of one."""
        if not self._thread.is_alive():
            work.close()
            self.inner.check_open()
            raise NotConnectedError("the client was closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            while not wait((future,), _INTERRUPTIBLE_S).done:
                pass
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _stop(self) -> None:
        self.run(_end_other_tasks())  # an interrupted call is still on its way
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return the cheapest loop of this system; nothing else runs in it."""
    try:
        import uvloop
    except ImportError:  # not on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _end_other_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
