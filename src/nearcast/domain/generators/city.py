"""A city: hot spots, roads with vehicles, uneven servers and topics of three kinds.

Neighbourhood topics gather clients around a place, road topics vehicles along a road, and
city-wide topics a few publishers and many subscribers from anywhere.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.domain.generators.server_sites import tight_totals
from nearcast.domain.scenario import (
    BoolArray,
    Clients,
    FloatArray,
    IndexArray,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.errors import ConfigError

__all__ = ["City", "generate_city"]

_SERVER_SPACING_KM = 2.5
_NEIGHBOURHOOD, _ROAD, _CITY_WIDE = 0, 1, 2
_RESIDENT, _SENSOR, _LISTENER = 0, 1, 2
"""A resident does both, a sensor only publishes, a listener (a driver's phone) only subscribes."""
_LARGE_SITE_EVERY = 8
_LARGE_SITE_FACTOR = 6.0
_CITY_WIDE_PUBLISHERS = 6
_PERMISSIBLE_MS = ((20.0, 60.0), (10.0, 30.0), (50.0, 100.0))
"""Lowest and highest permissible delay of each kind of topic."""


@dataclass(frozen=True, slots=True)
class City:
    """Parameters; the field grows with the square root of the number of servers."""

    clients: int = 2000
    servers: int = 25
    topics: int = 200
    vehicles: float = 0.3
    """Share of the clients that are on a road."""
    sensors: float = 0.1
    """Share of the clients that only publish."""
    listeners: float = 0.15
    """Share of the clients that only subscribe."""
    road_topics: float = 0.25
    city_wide_topics: float = 0.15
    reach_km: float = 2.0
    """How far from a client the local topics are that it takes an interest in."""
    second_topic: float = 0.15
    """Chance that a client is a member of a second local topic."""
    spool_per_publisher: float = 2.0
    """Messages of each publisher that a topic's spool holds on average."""

    def __post_init__(self) -> None:
        if self.clients < 2:
            raise ConfigError(f"a city needs 2 clients or more, not {self.clients}")
        for name in ("servers", "topics"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be 1 or more, not {getattr(self, name)}")
        for name in ("vehicles", "sensors", "listeners", "road_topics", "city_wide_topics"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be a share in [0, 1], not {getattr(self, name)}")
        if self.sensors + self.listeners > 1 or self.road_topics + self.city_wide_topics >= 1:
            raise ConfigError("sensors and listeners, or road and city-wide topics, exceed 1")
        if not 0 <= self.second_topic <= 1:
            raise ConfigError(f"second_topic must be in [0, 1], not {self.second_topic}")
        if not (self.reach_km > 0 and self.spool_per_publisher > 0):
            raise ConfigError("reach_km and spool_per_publisher must be positive")


@dataclass(frozen=True, slots=True, eq=False)
class _Map:
    """Where people are and where roads run; hot spots are sorted by weight."""

    field_km: float
    spot_km: FloatArray
    spot_spread_km: FloatArray
    spot_weight: FloatArray
    road_start_km: FloatArray
    road_end_km: FloatArray
    road_weight: FloatArray

    def draw_places(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return points around hot spots, a sixth of them anywhere."""
        spot = rng.choice(len(self.spot_km), count, p=self.spot_weight)
        place = rng.normal(self.spot_km[spot], self.spot_spread_km[spot, None])
        # Whoever falls outside lives anywhere: no crowd gathers at the border.
        anywhere = (rng.random(count) < 1 / 6) | ((place < 0) | (place > self.field_km)).any(axis=1)
        place[anywhere] = rng.uniform(0, self.field_km, (int(anywhere.sum()), 2))
        return place

    def draw_on_roads(self, rng: np.random.Generator, road: npt.NDArray[np.int64]) -> FloatArray:
        """Return a point on each given road, denser where the hot spots are."""
        start, along = self.road_start_km[road], (self.road_end_km - self.road_start_km)[road]
        place = self.draw_places(rng, len(road))
        share = ((place - start) * along).sum(axis=1) / (along * along).sum(axis=1)
        lane = rng.normal(0, 0.01, (len(road), 2))
        on_road = start + np.clip(share, 0, 1)[:, None] * along + lane
        return np.asarray(np.clip(on_road, 0, self.field_km))


def generate_city(parameters: City, seed: int) -> Scenario:
    """Return the city of a seed with exactly the asked numbers of clients, servers and topics.

    Every client is a member of a topic; every topic has a publisher and another subscriber.
    """
    rng = np.random.default_rng(seed)
    city = _draw_map(rng, parameters.servers)
    kind = _topic_kinds(parameters)
    road_of_topic = rng.choice(
        len(city.road_weight), int(np.sum(kind == _ROAD)), p=city.road_weight
    )
    centre_km = city.draw_places(rng, parameters.topics)
    centre_km[kind == _ROAD] = city.draw_on_roads(rng, road_of_topic)
    # Vehicles are on the roads that topics watch, so that each has a topic of its road.
    vehicles = round(parameters.vehicles * parameters.clients)
    road = (
        rng.choice(road_of_topic, vehicles)
        if len(road_of_topic)
        else rng.choice(len(city.road_weight), vehicles, p=city.road_weight)
    )
    place_km = city.draw_places(rng, parameters.clients)
    place_km[:vehicles] = city.draw_on_roads(rng, road)
    topic, client = _draw_members(rng, parameters, kind, centre_km, place_km, road, road_of_topic)
    publishes, subscribes = _draw_roles(rng, parameters, kind, topic, client)
    publishers = np.bincount(topic[publishes], minlength=parameters.topics).astype(np.float64)
    messages = parameters.spool_per_publisher * rng.lognormal(-0.08, 0.4, parameters.topics)
    spool = np.maximum(np.rint(publishers * messages), 1.0)
    rate = rng.lognormal(0.0, 1.0, len(topic)).clip(0.05, 20.0)
    low, high = np.array(_PERMISSIBLE_MS)[kind].T
    return Scenario(
        settings=ScenarioSettings(
            name=f"city-{parameters.clients}-{parameters.servers}-{parameters.topics}",
            width_km=city.field_km,
            height_km=city.field_km,
            seed=seed,
            generator="city",
            extra={"city": asdict(parameters)},
        ),
        servers=_draw_servers(rng, city, parameters, tight_totals(spool, publishers)),
        clients=Clients(
            ids=pa.array(np.arange(parameters.clients)),
            x_km=place_km[:, 0].copy(),
            y_km=place_km[:, 1].copy(),
        ),
        topics=Topics(
            ids=pa.array(np.arange(parameters.topics)),
            spool=spool,
            permissible_ms=np.rint(rng.uniform(low, high)),
            process_ms=np.round(rng.lognormal(-1.5, 0.5, parameters.topics), 3),
        ),
        members=Members(
            topic=topic,
            client=client,
            publishes=publishes,
            subscribes=subscribes,
            rate_hz=np.where(publishes, np.round(rate, 3), 0.0),
        ),
    )


def _topic_kinds(parameters: City) -> npt.NDArray[np.int64]:
    """Return the kind of each topic; rounding favours neighbourhoods, of which there is one."""
    roads = int(parameters.road_topics * parameters.topics)
    wide = int(parameters.city_wide_topics * parameters.topics)
    near = parameters.topics - roads - wide
    return np.repeat([_NEIGHBOURHOOD, _ROAD, _CITY_WIDE], [near, roads, wide])


def _draw_map(rng: np.random.Generator, servers: int) -> _Map:
    """Return a centre with sub-centres, a grid of arterial roads and two through the centre."""
    field_km = _SERVER_SPACING_KM * math.sqrt(servers)
    spots = 4 + servers // _LARGE_SITE_EVERY
    spot_km = rng.uniform(0.1 * field_km, 0.9 * field_km, (spots, 2))
    spot_km[0] = rng.uniform(0.45 * field_km, 0.55 * field_km, 2)
    weight = 1 / np.arange(1, spots + 1) ** 0.7
    lines = max(2, round(0.7 * math.sqrt(servers)))
    across = (np.arange(lines) + 0.5 + rng.uniform(-0.25, 0.25, (2, lines))) * field_km / lines
    zero, full = np.zeros(lines), np.full(lines, field_km)
    slope = rng.uniform(0.3, 0.7, 2) * field_km
    start = np.column_stack([np.r_[zero, across[1]], np.r_[across[0], zero]])
    end = np.column_stack([np.r_[full, across[1]], np.r_[across[0], full]])
    # The two radial roads meet in the centre.
    radial_start = np.array([[0.0, slope[0]], [slope[1], 0.0]])
    radial_end = np.array([spot_km[0], spot_km[0]])
    start, end = np.vstack([start, radial_start]), np.vstack([end, radial_end])
    traffic = rng.lognormal(0, 0.7, len(start))
    return _Map(
        field_km=field_km,
        spot_km=spot_km,
        spot_spread_km=_SERVER_SPACING_KM * rng.uniform(0.2, 0.7, spots),
        spot_weight=weight / weight.sum(),
        road_start_km=start,
        road_end_km=end,
        road_weight=traffic / traffic.sum(),
    )


def _draw_members(
    rng: np.random.Generator,
    parameters: City,
    kind: npt.NDArray[np.int64],
    centre_km: FloatArray,
    place_km: FloatArray,
    road: npt.NDArray[np.int64],
    road_of_topic: npt.NDArray[np.int64],
) -> tuple[IndexArray, IndexArray]:
    """Return the member rows (topic, client), sorted; the first clients are the vehicles."""
    from scipy.spatial import cKDTree

    clients, vehicles = len(place_km), len(road)
    appeal = rng.lognormal(0, 0.7, len(kind))
    wide, roads = np.flatnonzero(kind == _CITY_WIDE), np.flatnonzero(kind == _ROAD)
    local = np.flatnonzero(kind != _CITY_WIDE)
    near = np.flatnonzero(kind == _NEIGHBOURHOOD)
    everyone = np.arange(clients)
    # What a client cares about is around it, not only where it stands.
    interest_km = place_km + rng.normal(0, parameters.reach_km, place_km.shape)
    first = near[_choose_near(rng, interest_km, centre_km[near], appeal[near])]
    if len(roads):
        # Far apart along a third axis, roads do not mix.
        gap_km = 100 * (place_km.max() + parameters.reach_km)
        on_road = np.column_stack([interest_km[:vehicles], gap_km * road])
        watched = np.column_stack([centre_km[roads], gap_km * road_of_topic])
        first[:vehicles] = roads[_choose_near(rng, on_road, watched, appeal[roads])]
    again = np.flatnonzero(rng.random(clients) < parameters.second_topic)
    second = local[_choose_near(rng, interest_km[again], centre_km[local], appeal[local])]
    # City-wide sizes are skewed; together they are a sixth of all memberships.
    share = rng.pareto(1.5, len(wide)) + 0.3
    sizes = np.rint(share / max(share.sum(), 1.0) * 0.25 * clients).astype(np.int64)
    topic = np.concatenate([first, second, np.repeat(wide, sizes)])
    client = np.concatenate([everyone, again, rng.integers(0, clients, int(sizes.sum()))])
    key = np.unique(topic * clients + client)
    lonely = np.flatnonzero(np.bincount(key // clients, minlength=len(kind)) < 2)
    closest = cKDTree(place_km).query(centre_km[lonely], k=min(3, clients))[1]
    key = np.unique(np.concatenate([key, (lonely[:, None] * clients + closest).ravel()]))
    return (key // clients).astype(np.int32), (key % clients).astype(np.int32)


def _choose_near(
    rng: np.random.Generator, place_km: FloatArray, centre_km: FloatArray, appeal: FloatArray
) -> npt.NDArray[np.int64]:
    """Return for each place one of the four nearest centres, by appeal and nearness."""
    from scipy.spatial import cKDTree

    count = min(4, len(centre_km))
    found_km, index = cKDTree(centre_km).query(place_km, k=count)
    found_km, index = found_km.reshape(-1, count), index.reshape(-1, count)
    weight = np.cumsum(appeal[index] / (found_km + 0.1) ** 2, axis=1)
    pick = rng.random(len(place_km)) * weight[:, -1]
    chosen = np.minimum((weight <= pick[:, None]).sum(axis=1), count - 1)
    return np.asarray(index[np.arange(len(index)), chosen], dtype=np.int64)


def _draw_roles(
    rng: np.random.Generator,
    parameters: City,
    kind: npt.NDArray[np.int64],
    topic: IndexArray,
    client: IndexArray,
) -> tuple[BoolArray, BoolArray]:
    """Return who publishes and who subscribes; each topic has one of each at least.

    Every topic has two members and every member has a role, so one publisher and one
    subscriber make a delivery from one member to another.
    """
    shares = [1 - parameters.sensors - parameters.listeners, parameters.sensors]
    role = np.searchsorted(np.cumsum(shares), rng.random(parameters.clients), side="right")
    publishes, subscribes = role[client] != _LISTENER, role[client] != _SENSOR
    size = np.bincount(topic, minlength=len(kind))
    # City-wide topics are mostly listened to, which keeps their spools within a server's reach.
    silent = rng.random(len(topic)) >= np.minimum(1.0, _CITY_WIDE_PUBLISHERS / size)[topic]
    publishes &= ~(silent & subscribes & (kind == _CITY_WIDE)[topic])
    first_row = np.searchsorted(topic, np.arange(len(kind)))
    mute = np.bincount(topic[publishes], minlength=len(kind)) == 0
    deaf = np.bincount(topic[subscribes], minlength=len(kind)) == 0
    publishes[first_row[mute]] = True
    subscribes[first_row[deaf]] = True
    return publishes, subscribes


def _draw_servers(
    rng: np.random.Generator, city: _Map, parameters: City, totals: tuple[float, float]
) -> Servers:
    """Return a few large sites at the heaviest hot spots and small ones all over the field."""
    count = parameters.servers
    large = min(max(1, count // _LARGE_SITE_EVERY), len(city.spot_km))
    side = math.ceil(math.sqrt(count - large))
    cell = rng.permutation(side * side)[: count - large]
    corner = np.column_stack([cell // max(side, 1), cell % max(side, 1)])
    small_km = (corner + rng.uniform(0.1, 0.9, corner.shape)) * (city.field_km / max(side, 1))
    large_km = city.spot_km[:large] + rng.normal(0, 0.05, (large, 2))
    place_km = np.clip(np.vstack([large_km, small_km]), 0, city.field_km)
    weight = rng.lognormal(0, 0.5, count)
    weight[:large] = _LARGE_SITE_FACTOR * rng.lognormal(0, 0.25, large)
    storage = weight / weight.sum()
    compute = storage * rng.lognormal(0, 0.25, count)
    compute /= compute.sum()
    networks = min(len(city.spot_km), 2 + count // 12)
    gap_km = np.hypot(*(place_km[:, None, :] - city.spot_km[None, :networks, :]).T)
    return Servers(
        ids=pa.array(np.arange(count)),
        x_km=place_km[:, 0].copy(),
        y_km=place_km[:, 1].copy(),
        storage=np.ceil(totals[0] * storage),
        compute=np.ceil(totals[1] * compute),
        client_limit=np.ceil(1.3 * parameters.clients * storage),
        net_id=pa.array([f"net{area}" for area in gap_km.argmin(axis=0).tolist()]),
    )
