from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pyproj import Geod

from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.domain.imports.sites import SitesParams, import_sites
from nearcast.domain.scenario import Scenario
from nearcast.domain.validation import validate_scenario
from nearcast.errors import ConfigError, ScenarioError
from nearcast.geo.distance import nearest
from nearcast.geo.projection import LocalProjection

CENTRE = (48.14, 11.58)


def degrees(count: int, seed: int) -> list[tuple[float, float]]:
    rng = np.random.default_rng(seed)
    return [(float(a), float(b)) for a, b in CENTRE + rng.normal(0, 0.02, (count, 2))]


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    path = tmp_path / "sites.csv"
    lines = [f"{100 + n},{a},{b},Site {n}" for n, (a, b) in enumerate(degrees(20, 1))]
    path.write_text("SITE_ID,LATITUDE,LONGITUDE,NAME\n" + "\n".join(lines))
    return path


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users.csv"
    path.write_text("Lat,Lng\n" + "\n".join(f"{a},{b}" for a, b in degrees(150, 2)))
    return path


def members_by_topic(scenario: Scenario) -> list[list[int]]:
    members: list[list[int]] = [[] for _ in range(len(scenario.topics))]
    rows = zip(scenario.members.topic.tolist(), scenario.members.client.tolist(), strict=True)
    for topic, client in rows:
        members[topic].append(client)
    return members


def test_distances_between_sites_and_users_are_those_on_the_earth(sites: Path, users: Path) -> None:
    scenario = import_sites(sites, users, SitesParams(), 1)
    on_earth, servers, clients = Geod(ellps="WGS84"), scenario.servers, scenario.clients
    for s, (site_lat, site_lon) in enumerate(degrees(20, 1)):
        for c, (user_lat, user_lon) in enumerate(degrees(150, 2)):
            meters = on_earth.inv(site_lon, site_lat, user_lon, user_lat)[2]
            plane_km = np.hypot(
                servers.x_km[s] - clients.x_km[c], servers.y_km[s] - clients.y_km[c]
            )
            assert plane_km == pytest.approx(meters / 1000, rel=1e-3)


def test_the_field_starts_in_the_lower_left_corner_and_holds_everything(
    sites: Path, users: Path
) -> None:
    scenario = import_sites(sites, users, SitesParams(), 1)
    both = scenario.servers, scenario.clients
    for name, size in (("x_km", "width_km"), ("y_km", "height_km")):
        axis = np.concatenate([getattr(part, name) for part in both])
        assert axis.min() == 0
        assert axis.max() == getattr(scenario.settings, size)
    projection = LocalProjection(**scenario.settings.extra["projection"])
    latitude, longitude = projection.to_degrees(scenario.clients.x_km, scenario.clients.y_km)
    np.testing.assert_allclose(np.column_stack([latitude, longitude]), degrees(150, 2), atol=1e-9)


def test_ids_are_those_of_the_file_or_row_numbers(sites: Path, users: Path) -> None:
    scenario = import_sites(sites, users, SitesParams(), 1)
    assert scenario.servers.ids.to_pylist() == list(range(100, 120))
    assert scenario.clients.ids.to_pylist() == list(range(150))
    named = import_sites(sites, users, SitesParams(site_id="name"), 1)
    assert named.servers.ids[:2].to_pylist() == ["Site 0", "Site 1"]


def test_every_user_is_in_a_topic_and_every_topic_has_members(sites: Path, users: Path) -> None:
    scenario = import_sites(sites, users, SitesParams(), 1)
    validate_scenario(scenario)
    members = members_by_topic(scenario)
    assert len(members) == 11
    assert all(len(set(part)) == len(part) >= 2 for part in members)
    assert {client for part in members for client in part} == set(range(150))
    assert 12 < np.mean([len(part) for part in members]) < 22
    assert scenario.topics.spool.tolist() == [2 * len(part) for part in members]


def test_locality_decides_how_near_the_members_of_a_topic_are(sites: Path, users: Path) -> None:
    def spread_km(locality: float) -> float:
        scenario = import_sites(sites, users, SitesParams(topics=60, locality=locality), 1)
        x_km = scenario.clients.x_km
        return float(np.mean([np.std(x_km[part]) for part in members_by_topic(scenario)]))

    assert spread_km(1.0) < 0.75 * spread_km(0.0)


def test_planning_is_not_trivial_with_the_defaults(sites: Path, users: Path) -> None:
    scenario = import_sites(sites, users, SitesParams(), 1)
    clients, servers = scenario.clients, scenario.servers
    homes = nearest(clients.x_km, clients.y_km, servers.x_km, servers.y_km, 1)[1][:, 0]
    cost = evaluate_ratio(ratio_problem(scenario), homes)
    assert np.min(cost.local_share) < 0.7
    assert 2 * scenario.topics.spool.sum() <= servers.storage.sum()
    assert scenario.topics.spool.max() <= servers.storage.min()
    assert cost.compute_used.sum() < 0.6 * servers.compute.sum()


def test_options_are_followed(sites: Path, users: Path) -> None:
    parameters = SitesParams(topics=7, members_per_topic=30, storage=11, compute=12)
    scenario = import_sites(sites, users, parameters, 1)
    assert len(scenario.topics) == 7
    assert np.mean([len(part) for part in members_by_topic(scenario)]) > 24
    assert set(scenario.servers.storage.tolist()) == {11}
    assert set(scenario.servers.compute.tolist()) == {12}


def test_clients_are_drawn_around_the_sites_where_there_are_no_users(sites: Path) -> None:
    first, again, other = (
        import_sites(sites, None, SitesParams(clients_per_site=5), seed) for seed in (1, 1, 2)
    )
    validate_scenario(first)
    assert len(first.clients) == 100
    assert first.clients.x_km.tolist() == again.clients.x_km.tolist()
    assert first.clients.x_km.tolist() != other.clients.x_km.tolist()
    gap_km = np.hypot(
        first.clients.x_km - np.repeat(first.servers.x_km, 5),
        first.clients.y_km - np.repeat(first.servers.y_km, 5),
    )
    assert 0.05 < np.median(gap_km) < 1.5


def test_one_site_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("id,lat,lon\nx,50,8\n")
    scenario = import_sites(path, None, SitesParams(), 1)
    validate_scenario(scenario)
    assert (len(scenario.servers), len(scenario.clients), len(scenario.topics)) == (1, 10, 1)


def test_positions_in_kilometres_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("x_km,y_km\n1,2\n3,4\n")
    (tmp_path / "u.csv").write_text("X_KM,Y_KM\n1,1\n2,6\n5,2\n")
    scenario = import_sites(tmp_path / "s.csv", tmp_path / "u.csv", SitesParams(), 1)
    assert scenario.servers.x_km.tolist() == [1, 3]
    assert scenario.clients.y_km.tolist() == [1, 6, 2]
    assert (scenario.settings.width_km, scenario.settings.height_km) == (5, 6)
    assert "projection" not in scenario.settings.extra


def test_a_small_group_of_users_is_in_every_topic_once(tmp_path: Path, sites: Path) -> None:
    path = tmp_path / "u.csv"
    path.write_text("lat,lon\n48.1,11.5\n48.1,11.5\n")
    scenario = import_sites(sites, path, SitesParams(topics=5), 1)
    assert Counter(map(tuple, members_by_topic(scenario))) == {(0, 1): 5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lat,lon\n48,11\n91,11\n", "row 2, column 'lat': 91 is not a number between -90 and 90"),
        ("lat,lon\n48,181\n", "row 1, column 'lon': 181 is not a number between -180 and 180"),
        ("lat,lon\n48,11\nnan,11\n", "row 2, column 'lat': nan is not a number"),
        ("lat,lon\n48,11\n48,\n", "row 2, column 'lon': is empty"),
        ("lat,lon\n48,11\n48,east\n", "row 2, column 'lon': 'east' is not a number"),
        ("lat,lon\n", "has no rows of data"),
        ("lat,name\n48,x\n", "no column longitude or lon or lng or long; .* found are: lat, name"),
        (
            "id,lat,lon\n7,48,11\n8,48,11\n7,48,11\n",
            "row 3, column 'id': the id '7' is there twice",
        ),
        ("id,lat,lon\n7,48,11\n,48,11\n", "row 2, column 'id': is empty"),
        ("lat,lon\n48,11\n48.1,11\n48.1,18\n", r"row 3: \(48.1, 18\) is 5\d\d km from the middle"),
        ("lat,lon\n48,11\n0,0\n48,11.1\n", r"row 2: \(0, 0\) is 5,\d\d\d km from the middle"),
    ],
)
def test_sites_that_cannot_be_used_are_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sites.csv"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=message) as error:
        import_sites(path, None, SitesParams(), 1)
    assert error.value.file == str(path)


def test_users_far_from_the_sites_are_named(tmp_path: Path, sites: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text("lat,lon\n48.1,11.5\n-37.8,145\n")
    with pytest.raises(ScenarioError, match=r"users\.csv, row 2: \(-37.8, 145\)"):
        import_sites(sites, path, SitesParams(), 1)


def test_one_user_alone_is_refused(tmp_path: Path, sites: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text("lat,lon\n48.1,11.5\n")
    with pytest.raises(ScenarioError, match=r"users\.csv: gives one client only"):
        import_sites(sites, path, SitesParams(), 1)


def test_sites_in_degrees_and_users_in_kilometres_do_not_mix(tmp_path: Path, sites: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text("x_km,y_km\n1,2\n")
    with pytest.raises(ScenarioError, match=r"users\.csv: no column latitude or lat"):
        import_sites(sites, path, SitesParams(), 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"topics": 0}, "topics"),
        ({"clients_per_site": 0}, "clients per site"),
        ({"members_per_topic": 1}, "members per topic"),
        ({"locality": 1.1}, "locality"),
        ({"spool_per_member": 0}, "positive"),
        ({"storage": 0}, "positive"),
        ({"compute": -1}, "positive"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SitesParams(**wrong)  # type: ignore[arg-type]
