"""What drives a driver in a loop: datagrams from its port, one timer, and calls in between."""

from __future__ import annotations

import asyncio

from nearcast.links.steady_clock import steady_now
from nearcast.sdk.driver import ClientDriver
from nearcast.sdk.udp_port import UdpPort

__all__ = ["Pump"]


class Pump:
    """Starts at once, in the running loop; there is no task, so that clients may be many."""

    def __init__(self, driver: ClientDriver) -> None:
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self.port = UdpPort(self._loop, self._on_datagrams, driver.credentials.delays_s())
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = float("inf")
        self._is_due = False
        self._is_closed = False
        driver.start(steady_now())
        self.wake()

    def wake(self) -> None:
        """Run soon: what one pass of the loop publishes shares its datagrams."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self.run)

    def run(self) -> None:
        """Send what the driver has and see when it wants to be asked again."""
        self._is_due, now = False, steady_now()
        if not self._is_closed and (published := self._driver.session.send_publications(now)):
            self.port.send(published)  # before all else that is due
        self._run(now)

    def _run(self, now: float) -> None:
        if self._is_closed:
            return
        if datagrams := self._driver.poll(now):
            self.port.send(datagrams)
        session = self._driver.session
        if session.group.address != self.port.group:
            self.port.listen_to(session.group.address, session.home.address)
        due = self._driver.next_wakeup()
        # A timer that is too early costs one pass; moving it each time would cost more.
        if due < self._timer_due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_due = due
            self._timer = self._loop.call_later(max(0.0, due - now), self._on_timer)

    def close(self) -> None:
        """Stop, and let go of the socket."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.port.close()

    def _on_datagrams(self, datagrams: list[bytes]) -> None:
        now = steady_now()
        self._driver.receive(datagrams, now)
        self._run(now)

    def _on_timer(self) -> None:
        self._timer, self._timer_due = None, float("inf")
        self.run()
