"""Server sites and user positions of a real map as a scenario, with topics drawn by a seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.domain.generators.server_sites import tight_totals
from nearcast.domain.imports.positions import Plane, place_on_plane, read_ids
from nearcast.domain.imports.sources import read_source
from nearcast.domain.scenario import (
    Clients,
    FloatArray,
    IndexArray,
    Members,
    Scenario,
    Servers,
    Topics,
)
from nearcast.errors import ConfigError

__all__ = ["SITE_IDS", "SitesParams", "import_sites", "site_servers"]

_LARGEST_SPOOLS_PER_SITE = 3

SITE_IDS = ("site_id", "server_id", "id")
_USER_IDS = ("user_id", "client_id", "id")
_LONE_SITE_SPREAD_KM = 1.0


@dataclass(frozen=True, slots=True)
class SitesParams:
    """How topics are made of the users, and what the sites can hold."""

    topics: int | None = None
    """None: so many that a client is in one topic and some in more."""
    members_per_topic: float = 14.0
    """On average; sizes are Poisson, 2 at least."""
    locality: float = 0.8
    """Share of a topic's members that are near its centre; the others are anywhere."""
    spool_per_member: float = 2.0
    storage: float | None = None
    """Per site; None: two copies of every spool fill 70 % of all storage, or less."""
    compute: float | None = None
    """Per site; None: the load fills 55 % of all compute."""
    clients_per_site: int = 10
    """Clients to draw around each site where there is no file of users."""
    site_id: str | None = None
    """Column of the sites' ids; None: SITE_ID, server_id or id, or the row number."""
    user_id: str | None = None

    def __post_init__(self) -> None:
        if self.topics is not None and self.topics < 1:
            raise ConfigError(f"topics must be 1 or more, not {self.topics}")
        if self.clients_per_site < 1:
            raise ConfigError(f"clients per site must be 1 or more, not {self.clients_per_site}")
        if not self.members_per_topic >= 2:
            raise ConfigError(f"members per topic: 2 or more, not {self.members_per_topic}")
        if not 0 <= self.locality <= 1:
            raise ConfigError(f"locality must be in [0, 1], not {self.locality}")
        limits = [limit for limit in (self.storage, self.compute) if limit is not None]
        if not all(amount > 0 for amount in (self.spool_per_member, *limits)):
            raise ConfigError("spool per member, storage and compute must be positive")


def import_sites(
    sites_path: Path, users_path: Path | None, parameters: SitesParams, seed: int
) -> Scenario:
    """Return the scenario of a file of sites and one of users, CSV, JSON lines or Parquet.

    Both have latitude and longitude (WGS84; also lat, lon, lng, long in any case), which are
    projected to a plane that is true to 0.1 % (see `nearcast.geo.projection`), or x_km and
    y_km. Other columns are ignored. Every user is a member of a topic.

    Raises
    ------
    ScenarioError
        When a file cannot be used; it names file, row and column.
    """
    rng = np.random.default_rng(seed)
    sites = read_source(sites_path)
    users = None if users_path is None else read_source(users_path)
    plane = place_on_plane([sites] if users is None else [sites, users])
    if users is None:
        drawn = _draw_clients(rng, plane.places_km[0], parameters.clients_per_site)
        plane = Plane(plane.projection, [*plane.places_km, drawn])
        client_ids = pa.array(np.arange(len(drawn)))
    else:
        client_ids = read_ids(users, _USER_IDS, parameters.user_id)
    plane = plane.with_corner_at_zero()
    site_km, client_km = plane.places_km
    if len(client_km) < 2:
        (users or sites).fail("gives one client only; a topic needs two")
    topic, client = _draw_topics(rng, client_km, parameters)
    count = int(topic[-1]) + 1
    sizes = np.bincount(topic, minlength=count).astype(np.float64)
    spool = parameters.spool_per_member * sizes
    counts = {"sites": len(sites), "users": 0 if users is None else len(users)}
    return Scenario(
        settings=plane.settings(sites_path.name.split(".")[0], seed, "sites", counts),
        servers=site_servers(
            read_ids(sites, SITE_IDS, parameters.site_id),
            site_km,
            spool,
            sizes,
            parameters.storage,
            parameters.compute,
        ),
        clients=Clients(ids=client_ids, x_km=client_km[:, 0].copy(), y_km=client_km[:, 1].copy()),
        topics=Topics(
            ids=pa.array(np.arange(count)),
            spool=spool,
            permissible_ms=np.full(count, np.inf),
            process_ms=np.zeros(count),
        ),
        members=Members(
            topic=topic,
            client=client,
            publishes=np.ones(len(topic), dtype=np.bool_),
            subscribes=np.ones(len(topic), dtype=np.bool_),
            rate_hz=np.ones(len(topic)),
        ),
    )


def site_servers(
    ids: pa.Array,
    place_km: FloatArray,
    spool: FloatArray,
    publishers: FloatArray,
    storage: float | None,
    compute: float | None,
) -> Servers:
    """Return equal servers at the sites; a limit that is not given makes planning matter.

    It is the server's part of `tight_totals`, but a few of the largest spools fit on one server
    and so does the work of the largest topic: many small sites would be useless otherwise.
    """
    count = len(place_km)
    total_storage, total_compute = tight_totals(spool, publishers)
    if storage is None:
        storage = float(np.ceil(max(total_storage / count, _LARGEST_SPOOLS_PER_SITE * spool.max())))
    if compute is None:
        whole_topic = float((spool * publishers).max())
        compute = float(np.ceil(max(total_compute / count, whole_topic)))
    return Servers(
        ids=ids,
        x_km=place_km[:, 0].copy(),
        y_km=place_km[:, 1].copy(),
        storage=np.full(count, storage, dtype=np.float64),
        compute=np.full(count, compute, dtype=np.float64),
        client_limit=np.full(count, np.inf),
        net_id=pa.array(["net0"] * count),
    )


def _draw_clients(rng: np.random.Generator, site_km: FloatArray, per_site: int) -> FloatArray:
    """Return clients around every site, as far as the next site is in the middle case."""
    from scipy.spatial import cKDTree

    places = np.unique(site_km, axis=0)
    spread_km = _LONE_SITE_SPREAD_KM
    if len(places) > 1:
        spread_km = float(np.median(cKDTree(places).query(places, k=2)[0][:, 1]))
    return rng.normal(np.repeat(site_km, per_site, axis=0), spread_km)


def _draw_topics(
    rng: np.random.Generator, place_km: FloatArray, parameters: SitesParams
) -> tuple[IndexArray, IndexArray]:
    """Return the member rows (topic, client), sorted; every topic has two members or more."""
    from scipy.spatial import cKDTree

    clients = len(place_km)
    count = parameters.topics or max(1, round(clients / parameters.members_per_topic))
    centre = np.resize(rng.permutation(clients), count)
    sizes = np.clip(rng.poisson(parameters.members_per_topic, count), 2, clients)
    around = cKDTree(place_km)
    topics_of = np.zeros(clients, dtype=np.int64)
    members: list[npt.NDArray[np.int64]] = []
    for middle, size in zip(centre.tolist(), sizes.tolist(), strict=True):
        pool = rng.permutation(around.query(place_km[middle], k=min(3 * size, clients))[1])
        # Who is in few topics comes first: else one client would tie many topics together.
        pool = pool[np.argsort(topics_of[pool], kind="stable")]
        near = pool[: round(parameters.locality * size)]
        # Some of those from anywhere may be there already: the pool fills the gaps.
        wanted = np.concatenate([near, rng.integers(0, clients, size - len(near)), pool])
        _, first = np.unique(wanted, return_index=True)
        chosen = wanted[np.sort(first)[:size]]
        topics_of[chosen] += 1
        members.append(chosen)
    topic = np.repeat(np.arange(count), [len(part) for part in members])
    left_out = np.flatnonzero(topics_of == 0)
    joined = cKDTree(place_km[centre]).query(place_km[left_out])[1]
    topic, client = np.concatenate([topic, joined]), np.concatenate([*members, left_out])
    order = np.lexsort((client, topic))
    return topic[order].astype(np.int32), client[order].astype(np.int32)
