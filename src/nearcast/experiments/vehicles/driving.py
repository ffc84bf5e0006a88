"""Vehicles on a simulated site: the true servers, brokers and sessions, made-up time and network."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil, sqrt
from typing import Any

import numpy as np

from nearcast.experiments.vehicles.audit import Audit
from nearcast.experiments.vehicles.incidents import KINDS, MESSAGE_CLASSES, Incident
from nearcast.geo.bounds import Bounds
from nearcast.mobility.moment import Moment
from nearcast.server.site_orders import ClientOrder, CoverageOrder, Orders, TopicOrder
from nearcast.testing.simulated_client import SimulatedClient
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.actions import Confirmed, Connected
from nearcast.wire.message_class import CONSUMER
from nearcast.wire.messages import Report
from nearcast.wire.notification import Notification

__all__ = ["Fleet", "edge_places"]

_ROAD, _NEWS = "road", "news"
_SIGN = "sign"
_ACCESS_S, _BETWEEN_S, _JITTER_S = 0.010, 0.002, 0.001
"""One way: radio to the edge server, between edge servers; as seed 003 has it, Sec. 5."""
_GATHER_S = 0.001
_MIDDLE_S = 0.5
"""When in a second things happen: all reports of the second have arrived."""
_NEWS_EVERY_S = 20
_NEWCOMER_S = 10
"""Who has come within this time, or goes within it, need not have heard what is for all."""


def edge_places(field: Bounds, edges: int) -> dict[str, tuple[float, float]]:
    """Return places of edge servers, spread evenly over the field."""
    columns = ceil(sqrt(edges))
    rows = ceil(edges / columns)
    wide, high = field.east_km - field.west_km, field.north_km - field.south_km
    return {
        f"e{number + 1}": (
            field.west_km + (number % columns + 0.5) * wide / columns,
            field.south_km + (number // columns + 0.5) * high / rows,
        )
        for number in range(edges)
    }


class Fleet:
    """All vehicles and the servers that they drive past.

    Parameters
    ----------
    report_s
        How often each vehicle says where it is.
    kinds
        What the event broker is configured with.
    """

    def __init__(
        self,
        field: Bounds,
        names: Iterable[str],
        edges: int,
        report_s: int,
        seed: int,
        kinds: Mapping[str, Mapping[str, Any]] = KINDS,
    ) -> None:
        self.edges, self._report_s = edge_places(field, edges), report_s
        servers = frozenset(self.edges)

        def delay_s(sender: str, receiver: str) -> float:
            return _BETWEEN_S if sender in servers and receiver in servers else _ACCESS_S

        network = Network(jitter_s=_JITTER_S, delay_s=delay_s, keeps_frame_order=True)
        self.site = SimulatedSite(seed, network)
        self.site.inline_processors |= {"events"}
        self.site.gather_s = _GATHER_S
        for name in self.edges:
            self.site.add_server(name)
        first, second = next(iter(self.edges)), list(self.edges)[len(self.edges) // 2]
        options = {"field_km": list(field.grown(0.1)), "kinds": kinds, "congestion": False}
        topics = (
            TopicOrder(_ROAD, 10_000, (second,), "events", options, version=1),
            TopicOrder(_NEWS, 1_000, (first,), version=1),
        )
        clients = tuple(ClientOrder(one, first, {_ROAD: second}) for one in (_SIGN, *names))
        coverage = CoverageOrder(self.edges)
        orders = Orders(1, 1, "", self.site.server_orders(), topics, clients, coverage=coverage)
        self.site.obey(orders)
        self._sign = self.site.add_client(_SIGN, first)
        self._sign.connect()
        middle = [(field.west_km + field.east_km) / 2, (field.south_km + field.north_km) / 2]
        # the event broker judges bins when messages come: one a second, of something that stands
        self._clock_tick = json.dumps({"position": middle, "speed": 0}).encode()
        self._vehicles: dict[str, SimulatedClient] = {}
        self._joined: dict[str, int] = {}
        self.places: dict[str, tuple[float, float]] = {}
        """As each vehicle last reported; of those whose subscription is confirmed."""
        self._waiting: dict[str, tuple[float, float]] = {}
        self._homes: dict[str, str] = {}
        self._home_names = {one.home: name for name, one in self.site.servers.items()}
        self.audit, self.handovers, self._second = Audit(), 0, 0
        self._news: dict[str, tuple[int, Counter[str]]] = {}
        """By text: when it was told, and who heard it how often."""
        self._left: dict[str, int] = {}
        self.reports = 0

    def drive(self, moment: Moment, incidents: list[Incident]) -> None:
        """Let one second pass."""
        self._second = second = round(moment.time_s)
        known = set(moment.vehicles)
        for name in [one for one in self._vehicles if one not in known]:
            self._leave(name)
        is_first = not self._vehicles
        for row, name in enumerate(moment.vehicles):
            if name not in self._vehicles:
                self._join(name, moment, row)
            elif (second + row) % self._report_s == 0:
                self._report(name, moment, row)
        self._pass(5.0 if is_first else _MIDDLE_S)
        for incident in incidents:
            for row in incident.sensed_by(moment):
                self._sense(moment, row, incident)
        self._sign.publish(_ROAD, self._clock_tick)
        if second % _NEWS_EVERY_S == _NEWS_EVERY_S // 2:
            self._news[str(second)] = second, Counter()
            self._sign.publish(_NEWS, str(second).encode())
        self._pass(_MIDDLE_S)

    def end(self) -> None:
        """Let what is under way arrive."""
        self._pass(10.0)

    @property
    def homes(self) -> dict[str, str]:
        """The home of each vehicle."""
        return {name: self._homes[name] for name in self.places if name in self._homes}

    def news(self) -> tuple[int, int, int]:
        """Return how many notifications of what is for all were due, lost and doubled."""
        due = lost = doubled = 0
        for told, heard in self._news.values():
            for name, joined in self._joined.items():
                left = self._left.get(name, self._second + _NEWCOMER_S)
                if joined + _NEWCOMER_S <= told <= left - _NEWCOMER_S:
                    due += 1
                    lost += not heard[name]
                doubled += max(0, heard[name] - 1)
        return due, lost, doubled

    def _join(self, name: str, moment: Moment, row: int) -> None:
        place = float(moment.x_km[row]), float(moment.y_km[row])
        home = min(self.edges, key=lambda one: np.hypot(*np.subtract(self.edges[one], place)))
        client = self._vehicles[name] = self.site.add_client(name, home, *place)
        self._joined[name], self._homes[name], self._waiting[name] = self._second, home, place
        client.connect()
        for topic in (_NEWS, _ROAD):
            client.subscribe(topic)

    def _leave(self, name: str) -> None:
        client = self._vehicles.pop(name)
        client.session.close()
        client.go_on()
        self._left[name] = self._second
        self.places.pop(name, None)
        self._waiting.pop(name, None)
        self.site.clients.pop(name, None)

    def _report(self, name: str, moment: Moment, row: int) -> None:
        x_km, y_km = place = float(moment.x_km[row]), float(moment.y_km[row])
        (self.places if name in self.places else self._waiting)[name] = place
        said = Report(x_km, y_km, float(moment.angle_deg[row]), float(moment.speed_mps[row]))
        self._vehicles[name].report(said)
        self.reports += 1

    def _sense(self, moment: Moment, row: int, incident: Incident) -> None:
        """Let a vehicle publish where it is, and what it senses."""
        name = moment.vehicles[row]
        if name not in self.places:
            return  # it has just come
        told = {
            "position": [float(moment.x_km[row]), float(moment.y_km[row])],
            "speed": float(moment.speed_mps[row]) * 3.6,
            "direction": float(moment.angle_deg[row]),
            "event": incident.kind,
            "at": [incident.x_km, incident.y_km],
        }
        message_class = MESSAGE_CLASSES[incident.kind]
        payload = json.dumps(told).encode()
        self._vehicles[name].publish(_ROAD, payload, message_class=message_class)

    def _pass(self, seconds: float) -> None:
        self.site.run(seconds)
        for name, client in self._vehicles.items():
            if client.events:
                events, client.events = client.events, []
                for at, event in events:
                    self._on_event(name, at, event)
        for server in self.site.servers.values():  # rows of an event log that nobody reads
            server.publications.clear()
            server.notifications.clear()

    def _on_event(self, name: str, at: float, event: object) -> None:
        match event:
            case Notification(topic="road", attributes=attributes) if "alert" in attributes:
                found = event.json()
                # one message may bring several alerts of a kind
                alert = f"{found['alert']} {found['position']}"
                key = (event.publisher, event.epoch, event.sequence, alert)
                delay_ms = (at - event.published_us / 1e6) * 1000
                urgent = event.message_class or CONSUMER
                self.audit.note(key, found, urgent, name, delay_ms, self._second, self.places)
            case Notification(topic="news"):
                self._news[event.text][1][name] += 1
            case Confirmed(topic="road", accepted=True):
                if name in self._waiting:
                    self.places[name] = self._waiting.pop(name)
            case Connected(home=home):
                is_other = self._homes.get(name) != self._home_names[home]
                self.handovers += is_other
                self._homes[name] = self._home_names[home]
