"""Which of its clients a home tells of a notification: those that are meant and that want it now.

A message may have an area in which its receivers have to be, a subscription one in which the
message has to happen, and a filter. Brokers leave out most of the others already, by the places
that they were told; a home knows the present ones. What is told again, or was on its way when a
client moved or changed its terms, is its to judge. Clients with terms do not hear all that others
hear: what each of them was told before is said to it in particular, so that it waits for nothing
else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from msgspec import structs

from nearcast.server.effects import Effects
from nearcast.server.home_clients import HomeClients
from nearcast.wire.areas import area_of
from nearcast.wire.envelope import Envelope, open_envelope
from nearcast.wire.hot_frames import encode_notify
from nearcast.wire.messages import Notify
from nearcast.wire.terms import Place

__all__ = ["Selection"]

_TOLD_LIMIT = 100_000
"""Streams of publishers to clients with terms of which the last sequence is remembered."""

Told = tuple[int, int]
"""Epoch and sequence."""


class Selection:
    """What clients with terms want, and what each of them was told."""

    def __init__(self, clients: HomeClients, effects: Effects) -> None:
        self._clients, self._effects = clients, effects
        self.selective = clients.selective
        """Empty: what says nothing of itself is for everybody here."""
        self._told: OrderedDict[tuple[str, str, str], Told] = OrderedDict()
        """By client, topic and publisher."""
        self._limit = effects.tables.add("selective_streams", _TOLD_LIMIT, lambda: len(self._told))

    def split(
        self,
        notify: Notify,
        body: bytes,
        clients: Iterable[str],
        place: Place | None,
        now_s: float,
    ) -> list[tuple[bytes, tuple[str, ...]]]:
        """Return the clients that get a notification, with the body that each of them gets.

        Parameters
        ----------
        place
            Where the message happened; None: nobody here asked.
        """
        clients = tuple(clients)
        envelope = open_envelope(notify.envelope)
        if envelope.is_for_all and not self._clients.has_selective(notify.topic):
            return [(body, clients)]
        if envelope.is_over(now_s):
            self._effects.counts["notifications_expired"] += len(clients)
            return []
        by_body: dict[bytes, list[str]] = {}
        for client in self._inside(envelope, clients, now_s):
            own = self._body(notify, envelope, body, client, place, now_s)
            if own is not None:
                by_body.setdefault(own, []).append(client)
        told = sum(map(len, by_body.values()))
        self._effects.counts["notifications_ruled_out"] += len(clients) - told
        return [(own, tuple(some)) for own, some in by_body.items()]

    def body_for(
        self, notify: Notify, body: bytes, client: str, place: Place | None, now_s: float
    ) -> bytes | None:
        """Return what a client gets of a notification; None: nothing."""
        if not notify.envelope and not self.selective:
            return body
        now_s += self._effects.site_clock.ahead_s
        found = self.split(notify, body, (client,), place, now_s)
        return found[0][0] if found else None

    def _inside(self, envelope: Envelope, clients: Sequence[str], now_s: float) -> Iterable[str]:
        """Return the clients that are in the message's area now."""
        if not envelope.area:
            return clients
        places = [self._clients.place(one) for one in clients]
        headings = [self._clients.heading(one) for one in clients]
        meant = area_of(envelope.area).selects_each(places, headings, now_s)
        return [one for one, is_meant in zip(clients, meant, strict=True) if is_meant]

    def _body(
        self,
        notify: Notify,
        envelope: Envelope,
        body: bytes,
        client: str,
        place: Place | None,
        now_s: float,
    ) -> bytes | None:
        terms = self._clients.terms_to_hear(client, notify.topic)
        if not terms:
            return body
        own = self._clients.place(client)
        if not any(one.hold(envelope.attributes, place, own, now_s) for one in terms):
            return None
        previous = self._tell(notify, client)
        if previous == notify.previous:
            return body
        return encode_notify(structs.replace(notify, previous=previous, notified_us=0))

    def _tell(self, notify: Notify, client: str) -> int:
        """Note that a client is told; return which sequence it was told before."""
        if not notify.durable:
            return 0
        key, told = (client, notify.topic, notify.publisher), self._told
        epoch, sequence = told.pop(key, (0, 0))
        if notify.epoch < epoch:
            told[key] = (epoch, sequence)
            return 0
        if notify.epoch > epoch:
            sequence = 0
        told[key] = (notify.epoch, max(sequence, notify.sequence))
        if len(told) > self._limit:
            told.popitem(last=False)
        # what is told again waits for nothing: not all before it was meant for this client
        return sequence if notify.previous and sequence < notify.sequence else 0
