"""The event broker as a processor: reports of vehicles in, alerts to those in their areas out.

A message is a JSON object:

====================  =================================================================
``position``          [x, y] in km; the message's own position when it is left out
``speed``             km/h; ``direction`` in degrees clockwise from north, if known
``event``             a kind: what the vehicle senses; ``at`` [x, y] where, if not here
``query``             an area, as GeoJSON or text: what is going on there?
====================  =================================================================

Each message tells where its publisher is, but for queries. Times are those at which the publishers'
homes got the messages: vehicles' own clocks are not believed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nearcast.broker.events.congestion import SlowTraffic
from nearcast.broker.events.event_broker import EventBroker
from nearcast.broker.events.kinds import configured_kinds
from nearcast.broker.events.plausibility import Plausibility, PlausibilityParams
from nearcast.broker.events.report import Alert, EventReport, PositionReport
from nearcast.broker.notifications import AllSubscribers, NamedClients, Notification
from nearcast.broker.payloads import read_number, read_object, write_object
from nearcast.broker.topic_spool import SpoolView
from nearcast.content.attributes import Value
from nearcast.errors import AreaError, ConfigError
from nearcast.geo.area_text import read_shape
from nearcast.geo.bounds import Bounds
from nearcast.geo.shapes import Rectangle
from nearcast.wire.publication import Origin, Publication

__all__ = ["Events"]

_MOST_ANSWERED = 8
"""Situations in an answer: it has to fit a datagram."""


class Events:
    """Gathers reports in bins, and alerts subscribers in the area of what they agree on.

    Parameters
    ----------
    field_km
        West, south, east and north of where vehicles can be; a position outside is not believed.
    kinds
        Changes of the kinds of events, and further ones: tables of numbers.
    congestion
        Whether slow traffic counts as a report of congestion.
    """

    def __init__(
        self,
        field_km: Sequence[float],
        kinds: Mapping[str, Mapping[str, Any]] | None = None,
        congestion: bool = True,
    ) -> None:
        if len(field_km) != 4:
            raise ConfigError("events needs field_km = [west, south, east, north]")
        try:
            field = Rectangle(Bounds(*map(float, field_km))).bounds
        except (AreaError, TypeError, ValueError) as error:
            raise ConfigError(f"events, field_km: {error}") from None
        self._kinds, self._field = configured_kinds(kinds or {}), field
        self._congestion = congestion
        self._broker: EventBroker | None = None
        self._seen = 0
        self._now_s = float("-inf")
        self.malformed = 0
        """Messages that are no report and no query."""

    @property
    def refused(self) -> Counter[str]:
        """Reports that were not believed or found no room, by reason."""
        return Counter() if self._broker is None else self._broker.counts

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return the alerts and answers that a batch causes.

        What the spool has from before a restart is read again, and alerts about it are not
        repeated. Copies of other brokers' messages count as soon as this one is next looked at.
        """
        is_first = self._broker is None
        for message in spool.until(spool.end - len(batch)).since(self._seen):
            broker = self._at(message)
            if is_first:
                broker.tick(self._now_s)
            self._read(broker, message)
        self._seen = spool.end
        for message in batch:
            broker = self._at(message)
            alerts = broker.tick(self._now_s)
            alerts += self._read(broker, message)
            yield from self._told(alerts, message)
            found = read_object(message.payload)
            if found is not None and "query" in found:
                yield from self._answer(broker, found["query"], message)

    def _at(self, message: Publication) -> EventBroker:
        """Go on to the time of a message; clocks of homes may differ, time does not go back."""
        self._now_s = max(self._now_s, message.received_at_s)
        if self._broker is None:
            self._broker = EventBroker(
                self._kinds,
                Plausibility(PlausibilityParams(self._field)),
                now_s=self._now_s,
                slow_traffic=SlowTraffic() if self._congestion else None,
            )
        return self._broker

    def _read(self, broker: EventBroker, message: Publication) -> list[Alert]:
        """Take in what a message reports."""
        found = read_object(message.payload)
        if found is None:
            self.malformed += message.origin is not Origin.COPY
            return []
        if "query" in found:
            return []
        place = _pair(found.get("position", [message.x_km, message.y_km]))
        speed_kmh = read_number(found.get("speed", 0.0))
        if place is None or speed_kmh is None:
            self.malformed += message.origin is not Origin.COPY
            return []
        who, now_s = message.publisher, self._now_s
        heading_deg = read_number(found.get("direction"))
        here = PositionReport(who, *place, now_s, speed_kmh / 3.6, heading_deg)
        if not broker.position(here, now_s) or "event" not in found:
            return []
        at = _pair(found["at"]) if "at" in found else place
        if at is None or not isinstance(found["event"], str):
            self.malformed += 1
            return []
        return broker.report(EventReport(found["event"], who, *at, now_s), now_s)

    def _told(self, alerts: Iterable[Alert], cause: Publication) -> Iterator[Notification]:
        for alert in alerts:
            one, circle = alert.situation, alert.area.shape.bounds
            x_km, y_km = alert.area.shape.centre
            radius_km = (circle.east_km - circle.west_km) / 2
            payload = write_object(
                alert=one.kind,
                position=[x_km, y_km],
                radius_km=radius_km,
                reporters=one.reporters,
                is_new=alert.is_new,
            )
            area = _circle_text(x_km, y_km, radius_km)
            attributes: dict[str, Value] = {"alert": one.kind, "is_new": alert.is_new}
            until_s, urgent = alert.area.valid_until_s, alert.message_class
            # who happened to send the last report is as much concerned as the others
            for audience in (AllSubscribers(), NamedClients((cause.publisher,))):
                yield Notification(payload, audience, cause, attributes, area, until_s, urgent)

    def _answer(
        self, broker: EventBroker, query: object, cause: Publication
    ) -> Iterator[Notification]:
        try:
            shape = read_shape(query if isinstance(query, str) else json.dumps(query))
        except AreaError as error:
            self.malformed += 1
            said = write_object(refused=str(error)[:200])
        else:
            known = broker.going_on(shape, self._now_s)
            situations = [
                {
                    "kind": one.kind,
                    "position": [round(one.x_km, 4), round(one.y_km, 4)],
                    "radius_km": round(one.radius_km, 4),
                    "reporters": one.reporters,
                    "is_alerted": one.is_alerted,
                }
                for one in known[:_MOST_ANSWERED]
            ]
            said = write_object(going_on=situations, count=len(known))
        yield Notification(said, NamedClients((cause.publisher,)), cause, {"answer": True}, "")


def _pair(value: object) -> tuple[float, float] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    x_km, y_km = read_number(value[0]), read_number(value[1])
    return None if x_km is None or y_km is None else (x_km, y_km)


def _circle_text(x_km: float, y_km: float, radius_km: float) -> str:
    geometry = {"type": "Point", "coordinates": [x_km, y_km]}
    feature = {"type": "Feature", "geometry": geometry, "properties": {"radius_km": radius_km}}
    return json.dumps(feature, separators=(",", ":"))
