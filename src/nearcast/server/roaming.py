"""Clients that drive from one edge server's coverage into the next: their home goes with them.

The home decides, by the position, direction and speed that a client reports: where it will be in a
few seconds, another server may cover. That one is told beforehand what the client subscribes to,
and has itself told of by the brokers; what it hears for the client it keeps. Once the client is
there, its home sends it on. A margin keeps who stands at a border from going to and fro.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nearcast.errors import AreaError, WireError
from nearcast.server.effects import Effects
from nearcast.server.home_clients import HomeClients
from nearcast.server.mesh_messages import Arriving
from nearcast.server.peers import Peers
from nearcast.server.site_orders import CoverageOrder, Orders
from nearcast.server.subscriptions import Subscriptions
from nearcast.trust.rights import Action
from nearcast.trust.topic_pattern import check_pattern, is_pattern
from nearcast.wire.areas import check_places, heading_of
from nearcast.wire.init_gate import TokenBuckets
from nearcast.wire.messages import Init, Report, Subscribe
from nearcast.wire.server_sessions import ServerSessions
from nearcast.wire.terms import check_terms

if TYPE_CHECKING:  # servers without coverage need no numpy
    from nearcast.geo.coverage import Coverage

__all__ = ["Roaming", "coverage_of"]

_LEAD_S = 5.0
"""How long before a client reaches another coverage its next home gets ready."""
_MARGIN_KM = 0.03
"""How far a client may be outside before it is sent on."""
_EXPECTED_S = 15.0
"""How long a client is expected that does not come."""
_EXPECTED_LIMIT = 20_000
_WANTED_LIMIT = 200_000
"""Subscriptions of all clients that are expected."""
_ANNOUNCE_S = 1.0
"""How often the next home hears of a client at most: it may have many subscriptions, and report as
fast as it likes."""
_HOMES_LIMIT = 100_000
_FASTEST_MPS = 100.0


class Roaming:
    """Where clients belong by where they are.

    Parameters
    ----------
    show
        Shows a server the credentials of clients, before it is told of them.
    subscription_limit, pattern_limit
        Most subscriptions of a client, and most with wildcards.
    """

    def __init__(
        self,
        peers: Peers,
        sessions: ServerSessions,
        clients: HomeClients,
        subscriptions: Subscriptions,
        effects: Effects,
        authorise: Callable[[str, Action, str], str | None],
        show: Callable[[str, Iterable[str]], None],
        subscription_limit: int,
        pattern_limit: int,
    ) -> None:
        self._peers, self._sessions, self._clients = peers, sessions, clients
        self._subscriptions, self._effects = subscriptions, effects
        self._authorise, self._show = authorise, show
        self._limit, self._pattern_limit = subscription_limit, pattern_limit
        self._coverage: Coverage[str] | None = None
        self._order: CoverageOrder | None = None
        self._homes: OrderedDict[str, str] = OrderedDict()
        """By client: the server that it was sent to, or that it belongs to."""
        self._expected: dict[str, float] = {}
        """Clients on their way here, and until when they are expected."""
        tables = effects.tables
        self._expected_limit = tables.add(
            "roaming_expected", _EXPECTED_LIMIT, lambda: len(self._expected)
        )
        self._wanted_limit = tables.add("roaming_wanted", _WANTED_LIMIT, lambda: self.wanted)
        self._homes_limit = tables.add("roaming_homes", _HOMES_LIMIT, lambda: len(self._homes))
        self._wanted: dict[str, int] = {}
        self.wanted = 0
        """What they subscribe to: of each, and of all."""
        self._announced = TokenBuckets(1 / _ANNOUNCE_S, 2.0, _HOMES_LIMIT)
        self.on_expected: Callable[[str], None] = lambda client: None
        """Is told of a client that is expected, whatever was before."""
        peers.on(Arriving, self._on_arriving)

    def obey(self, orders: Orders) -> None:
        """Take the coverage of new orders."""
        if orders.coverage == self._order:
            return
        self._order, self._coverage = orders.coverage, None
        self._homes.clear()
        if orders.coverage is not None and self._peers.server in orders.coverage.places:
            try:
                self._coverage = coverage_of(orders.coverage)
            except AreaError as error:  # its manager checks that; clients stay where they are
                self._effects.incident("coverage_refused", reason=str(error))

    def home_of(self, client: str) -> str | None:
        """Return where a client belongs by where it is; None: nothing is known about that."""
        return self._peers.server if client in self._expected else self._homes.get(client)

    def is_expected(self, client: str) -> bool:
        """Tell whether a client is on its way here."""
        return client in self._expected

    def moved(self, client: str, said: Report | Init, now: float) -> bool:
        """Look where a client is and will be; tell whether its home is another one now."""
        self._expect_no_more(client)
        coverage, own = self._coverage, self._peers.server
        # who has never said where it is does not drive
        if coverage is None or (said.x_km == 0.0 and said.y_km == 0.0):
            return False
        here = coverage.at(said.x_km, said.y_km)
        stays = here == own or coverage.is_near(own, said.x_km, said.y_km, _MARGIN_KM)
        home = own if stays else here
        following = here if here != own else coverage.at(*_ahead(said))
        if following != own and self._announced.take(client, now):
            self._announce(client, said, following)
        is_other = self._homes.get(client, own) != home
        self._homes[client] = home
        self._homes.move_to_end(client)
        if len(self._homes) > self._homes_limit:
            self._homes.popitem(last=False)
        return is_other

    def expire(self, now: float) -> None:
        """Forget who was expected and did not come."""
        for client in [one for one, until in self._expected.items() if until <= now]:
            self._expect_no_more(client)
            self._effects.counts["roaming_not_arrived"] += 1
            if client not in self._sessions:
                self._subscriptions.end(client, self._subscriptions.forget(client))
            elif self._sessions.is_visitor(client):
                self._unsubscribe(client, list(self._clients.topics(client)))

    def _unsubscribe(self, client: str, topics: Iterable[str]) -> None:
        for topic in topics:
            self._clients.unsubscribe(client, topic)
            self._subscriptions.end(client, [topic])

    def _announce(self, client: str, said: Report | Init, server: str) -> None:
        """Have the next home get ready; it hears it again with each report until then."""
        wanted = tuple(
            (topic, self._clients.terms(client, topic)) for topic in self._clients.topics(client)
        )
        self._effects.counts["roaming_announced"] += 1
        self._show(server, (client,))
        speed_mps = min(max(said.speed_mps, 0.0), _FASTEST_MPS)
        self._peers.send(
            server, Arriving(client, said.x_km, said.y_km, said.direction_deg, speed_mps, wanted)
        )

    def _has_room(self, client: str, subscriptions: int) -> bool:
        if client not in self._expected and len(self._expected) >= self._expected_limit:
            return False
        return self.wanted - self._wanted.get(client, 0) + subscriptions <= self._wanted_limit

    def _expect(self, client: str, subscriptions: int, until: float) -> None:
        self.wanted += subscriptions - self._wanted.get(client, 0)
        self._expected[client], self._wanted[client] = until, subscriptions

    def _expect_no_more(self, client: str) -> None:
        self._expected.pop(client, None)
        self.wanted -= self._wanted.pop(client, 0)

    def _on_arriving(self, _server: str, message: Arriving, now: float) -> None:
        client, wanted = message.client, dict(message.subscriptions)
        numbers = message.direction_deg, message.speed_mps
        check_places([(message.x_km, message.y_km)])
        patterns = [topic for topic in wanted if is_pattern(topic)]
        are_too_many = len(wanted) > self._limit or len(patterns) > self._pattern_limit
        if not all(map(math.isfinite, numbers)) or are_too_many:
            raise WireError("Arriving holds a place or subscriptions that cannot be")
        for pattern in patterns:
            check_pattern(pattern)
        for terms in wanted.values():
            check_terms(terms)
        is_here = client in self._sessions and not self._sessions.is_visitor(client)
        if self._coverage is None or is_here:
            return  # this server knows nothing of coverage as yet, or the client was faster
        if not self._has_room(client, len(wanted)):
            self._effects.counts["roaming_refused"] += 1
            return
        self._expect(client, len(wanted), now + _EXPECTED_S)
        self.on_expected(client)
        heading_deg = heading_of(message.direction_deg, message.speed_mps)
        self._clients.move(client, message.x_km, message.y_km, heading_deg)
        known = set(self._clients.topics(client))
        self._unsubscribe(client, known - wanted.keys())
        for topic, terms in wanted.items():
            is_same = topic in known and terms == self._clients.terms(client, topic)
            if not is_same and self._authorise(client, "subscribe", topic) is None:
                wish = Subscribe(0, topic, False, terms.where, terms.area, terms.follows)
                self._subscriptions.subscribe(client, wish, now)


def coverage_of(order: CoverageOrder) -> Coverage[str]:
    """Return what orders say of coverage; AreaError when that cannot be."""
    from nearcast.geo.area_text import read_shape
    from nearcast.geo.bounds import Bounds
    from nearcast.geo.coverage import Coverage
    from nearcast.geo.polygon import Polygon
    from nearcast.geo.shapes import Rectangle

    areas = {}
    for server, text in order.areas.items():
        shape = read_shape(text)
        if isinstance(shape, Rectangle):  # so an upright polygon is read
            west, south, east, north = shape.bounds
            shape = Polygon.around([(west, south), (east, south), (east, north), (west, north)])
        if not isinstance(shape, Polygon):
            raise AreaError(f"the coverage of {server!r:.60} is not a polygon")
        areas[server] = shape
    if not order.places:
        raise AreaError("there are no servers to cover anything")
    xs, ys = zip(*order.places.values(), strict=True)
    field = Bounds(min(xs), min(ys), max(xs), max(ys)).grown(1.0)
    return Coverage(order.places, field, areas)


def _ahead(said: Report | Init) -> tuple[float, float]:
    """Return where a client will be if it goes on like this."""
    way_km = min(max(said.speed_mps, 0.0), _FASTEST_MPS) * _LEAD_S / 1000
    angle = math.radians(said.direction_deg)
    return said.x_km + way_km * math.sin(angle), said.y_km + way_km * math.cos(angle)
