"""Revocation on a running site: a live session ends, a replaced key too, others go on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Run, run  # noqa: F401
from nearcast.errors import NearcastError
from nearcast.links.http_client import ask
from nearcast.sdk import SyncClient
from nearcast.sdk.client import Client
from nearcast.sdk.credentials import load_credentials, save_credentials
from nearcast.sdk.enrolment import enrol
from nearcast.site.live_site import LiveSite, run_site
from small_site.making import quick, until, write_small_scenario

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    folder: Path = tmp_path_factory.mktemp("revoking")
    # they take turns to live at e1 and e2: the others are never there
    names = ["car", "away1", "sign", "away2", "bus", "away3", "sign2"]
    scenario = write_small_scenario(folder / "small", edges=2, clients=names, topics=["road"])
    with run_site(scenario, folder / "site", quick(scenario)) as site:
        site.enrol_clients()
        yield site


def _sessions(live: LiveSite) -> int:
    status = ask(f"http://127.0.0.1:{live.site.place('e1').http_port}/status")
    return int(status["sessions"])


@pytest.mark.parametrize("by", ["authority", "manager"])
def test_a_revoked_client_loses_its_session_and_others_go_on(
    live: LiveSite,
    run: Run,  # noqa: F811
    by: str,
) -> None:
    folder, name = live.site.folder, {"authority": "car", "manager": "bus"}[by]
    how: tuple[object, ...] = ("--site", folder)
    if by == "manager":
        how = ("--manager", live.site.manager_url, "--token-file", folder / "token")
    with (
        SyncClient.connect(live.site.credentials_file(name), timeout_s=60) as thief,
        SyncClient.connect(live.site.credentials_file("sign"), timeout_s=60) as honest,
    ):
        thief.publish("road", "before").wait(60)
        assert _sessions(live) == 2
        began_s = time.monotonic()
        answer = run("site", "revoke", "client", name, *how, "--json")
        assert (answer.code, answer.json["signed_by"]) == (0, by)
        until(lambda: _sessions(live) == 1, "the session has ended")
        print(f"ended after {time.monotonic() - began_s:.2f} s")
        honest.publish("road", "after").wait(60)
        with pytest.raises(NearcastError):
            thief.publish("road", "after").wait(2)


def test_another_key_for_a_client_ends_the_session_of_the_old_one(
    live: LiveSite, tmp_path: Path
) -> None:
    site = live.site
    with SyncClient.connect(site.credentials_file("sign"), timeout_s=60) as old:
        old.echo()
        new = enrol(site.manager_url, "sign", site.token, site.authority)
        until(lambda: _sessions(live) == 0, "the session has ended")
    save_credentials(new, tmp_path / "sign.json")
    with SyncClient.connect(tmp_path / "sign.json", timeout_s=60) as client:
        client.publish("road", "with the new key").wait(60)


def test_clients_hear_which_servers_were_revoked(live: LiveSite, run: Run) -> None:  # noqa: F811
    """The manager signs for the authority, and the servers pass that on."""
    site = live.site
    stolen = site.place("e2").port
    with SyncClient.connect(site.credentials_file("sign2"), timeout_s=60) as client:
        inner = client.inner
        until(lambda: stolen in _ports(inner), "another way into the site is known")
        answer = run("site", "revoke", "server", "e2", "--site", site.folder, "--json")
        assert answer.code == 0
        until(lambda: inner.credentials.revoked, "the client has heard")
        assert stolen not in _ports(inner)
        client.publish("road", "after").wait(60)
        save_credentials(inner.credentials, site.folder / "saved.json")
    assert load_credentials(site.folder / "saved.json").revoked


def _ports(client: Client) -> list[int]:
    return [one.address[1] for one in client.credentials.servers]
