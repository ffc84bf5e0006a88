"""A client of a simulated site and all that it was told."""

from __future__ import annotations

from nearcast.content.attributes import Attributes
from nearcast.testing.machine_clock import MachineClock
from nearcast.testing.simulated_world import SimulatedWorld
from nearcast.wire.actions import ClientEvent, SendDatagram
from nearcast.wire.client_session import ClientSession
from nearcast.wire.envelope import make_envelope
from nearcast.wire.message_class import is_marked
from nearcast.wire.messages import Report
from nearcast.wire.notification import Notification
from nearcast.wire.settings import Address
from nearcast.wire.terms import Terms

__all__ = ["SimulatedClient"]


class SimulatedClient:
    """A client with a clock of its own."""

    def __init__(
        self,
        site: SimulatedWorld,
        name: str,
        key: bytes,
        credential: bytes,
        session: ClientSession,
    ) -> None:
        self.site, self.name, self.key, self.session = site, name, key, session
        self.credential = credential
        """What it shows to servers."""
        self.clock = MachineClock(site.clock)
        self.events: list[tuple[float, ClientEvent]] = []
        self.port = 1
        """Of its address; another one: it has moved to another network."""
        self._wakeup = float("inf")

    @property
    def address(self) -> Address:
        """Where it is now."""
        return self.name, self.port

    @property
    def notified(self) -> list[Notification]:
        """All notifications, in the order they came."""
        return [event for _, event in self.events if isinstance(event, Notification)]

    def connect(self) -> None:
        """Open a session."""
        self.session.connect(self.clock.read())
        self.go_on()

    def go_on(self) -> None:
        """Send what the session has to send, and plan its next turn."""
        site = self.site
        for item in self.session.poll(self.clock.read()):
            if isinstance(item, SendDatagram):
                site.send_datagram(self.name, self.address, item)
            else:
                self.events.append((site.now, item))
        group = self.session.group.address
        if group is not None:
            site.listeners[self.name] = (group, self.on_group_datagram)
        else:
            site.listeners.pop(self.name, None)
        at = max(site.now, self.clock.true_time(self.session.next_wakeup()))
        if at < self._wakeup:
            self._wakeup = at
            site.at(at, lambda: self._on_timer(at))

    def on_datagram(self, data: bytes, _source: Address, port: int) -> None:
        """Take a datagram, unless it was sent to where the client was before."""
        if port != self.port:
            return
        self.session.receive([data], self.clock.read())
        self.go_on()

    def on_group_datagram(self, data: bytes) -> None:
        """Take a datagram of the multicast group that it listens to."""
        self.session.receive([data], self.clock.read())
        self.go_on()

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        durable: bool = True,
        attributes: Attributes | None = None,
        area: str = "",
        valid_s: float | None = None,
        position: tuple[float, float] | None = None,
        message_class: str = "",
    ) -> int:
        """Publish now."""
        now = self.clock.read()
        until_us = 0 if valid_s is None else self.session.site_clock.there_us(now + valid_s)
        envelope = make_envelope(attributes, area, until_us, message_class)
        sequence = self.session.publish(
            topic,
            payload,
            now,
            durable=durable,
            position=position,
            envelope=envelope,
            urgent=is_marked(message_class),
        )
        self.go_on()
        return sequence

    def report(self, report: Report) -> None:
        """Say now where it is."""
        self.session.report(report)
        self.session.moved(self.clock.read())
        self.go_on()

    def subscribe(self, topic: str, where: str = "", area: str = "", follows: bool = False) -> None:
        """Subscribe now."""
        self.session.subscribe(topic, Terms(where, area, follows))
        self.go_on()

    def unsubscribe(self, topic: str) -> None:
        """End a subscription now."""
        self.session.unsubscribe(topic)
        self.go_on()

    def _on_timer(self, at: float) -> None:
        if at == self._wakeup:
            self._wakeup = float("inf")
            self.go_on()
