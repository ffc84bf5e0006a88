"""The manager of a running site gets another key, and an old copy of its database."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Run, run  # noqa: F401
from nearcast.errors import NearcastError
from nearcast.links.http_client import ask
from nearcast.sdk import SyncClient
from nearcast.sdk.credentials import save_credentials
from nearcast.sdk.enrolment import enrol
from nearcast.site.authority import Authority
from nearcast.site.live_site import LiveSite, run_site
from small_site.making import output_of, quick, until, write_small_scenario

pytestmark = pytest.mark.slow

SERVERS = ["e1", "cloud"]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveSite]:
    scenario = write_small_scenario(tmp_path / "small", clients=["car", "bus"], topics=["road"])
    with run_site(scenario, tmp_path / "site", quick(scenario)) as site:
        site.enrol_clients()
        yield site


def _publish(file: Path, text: str) -> None:
    with SyncClient.connect(file, timeout_s=60) as client:
        client.publish("road", text).wait(60)


def _follow(live: LiveSite, revision: int) -> bool:
    """Tell whether all servers go by the manager's orders, of a revision above this one."""
    try:
        told = ask(f"{live.site.manager_url}/status")
    except NearcastError:
        return False
    return told["revision"] > revision and all(
        one["revision"] == told["revision"] for one in told["servers"]
    )


def test_a_site_gets_a_manager_with_another_key(
    live: LiveSite,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    site, authority = live.site, Authority(live.site.folder)
    car = site.credentials_file("car")
    _publish(car, "before")
    revision = ask(f"{site.manager_url}/status")["revision"]
    before = authority.credential_file("manager").read_text().strip()
    answer = run("site", "renew", "server", "manager", "--new-key", "--site", site.folder)
    assert answer.code == 0
    after = authority.credential_file("manager").read_text().strip()
    for server in ["manager", *SERVERS]:
        live.processes.kill(server)
    for server in SERVERS:
        config = site.config_file(server)
        text = config.read_text()
        assert before in text
        config.write_text(text.replace(before, after))
    for server in [*SERVERS, "manager"]:
        live.processes.start(server)
    until(lambda: _follow(live, revision - 1), "all servers obey the new manager")
    assert "orders_refused" in output_of(live, "e1")  # those on its disk, by the old key
    # what the old key let in no longer counts, until the new one lets it in
    with pytest.raises(NearcastError), SyncClient.connect(car, timeout_s=3):
        pass
    renewed = enrol(site.manager_url, "car", site.token, site.authority)
    save_credentials(renewed, tmp_path / "car.json")
    _publish(tmp_path / "car.json", "after")


def test_a_manager_goes_on_from_an_old_copy_of_its_database(
    live: LiveSite,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    site = live.site
    data = site.folder / "data" / "manager"
    live.processes.kill("manager")
    shutil.copytree(data, tmp_path / "copy")
    live.processes.start("manager")
    until(lambda: _follow(live, 0), "the manager is back")
    new = enrol(site.manager_url, "lorry", site.token, site.authority, x_km=0.0, y_km=0.0)
    save_credentials(new, tmp_path / "lorry.json")
    asked = ("--manager", site.manager_url, "--token-file", site.folder / "token")
    assert run("site", "revoke", "client", "bus", *asked).code == 0
    until(lambda: _follow(live, 0), "all know of the revocation")
    revision = ask(f"{site.manager_url}/status")["revision"]

    live.processes.kill("manager")
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "copy", data)
    live.processes.start("manager")
    until(lambda: _follow(live, revision), "all servers obey it again, by a higher revision")
    until(
        lambda: ask(f"{site.manager_url}/status")["counts"]["revocations"] == 1,
        "it has learnt from the servers what was revoked",
    )
    _publish(tmp_path / "lorry.json", "enrolled since the copy")
    _publish(site.credentials_file("car"), "enrolled before it")
    with (
        pytest.raises(NearcastError),
        SyncClient.connect(site.credentials_file("bus"), timeout_s=3),
    ):
        pass
