"""The files of a standalone server: whole, secret, and shared by commands at the same time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearcast.errors import ConfigError, OutputError, RestartNeededError
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.standalone import StandaloneSettings, _run
from nearcast.site.standalone_folder import StandaloneFolder, StandalonePlace
from nearcast.trust.rights import EVERYTHING
from nearcast.trust.site_trust import SiteTrust


def test_clients_enrolled_at_the_same_time_are_all_in(tmp_path: Path) -> None:
    names = [f"car{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda name: StandaloneFolder(tmp_path).enrol([name])[0], names))
    folder = StandaloneFolder(tmp_path)
    assert folder.clients() == {one.client: one.public_key for one in made}
    assert {one.home.server_key for one in made} == {folder.ensure_server("standalone")}
    trust = SiteTrust(folder.authority().public_key)
    for one in made:
        credential = trust.client(one.credential, one.public_key, 0.0)
        assert (credential.client, credential.rights) == (one.client, EVERYTHING)
    assert folder.ensure_server("another name") == made[0].home.server_key
    assert list(tmp_path.rglob(".*")) == []  # no drafts


def test_each_replaced_key_and_each_rule_is_seen_as_a_change(tmp_path: Path) -> None:
    folder = StandaloneFolder(tmp_path)
    folder.enrol(["car"])  # nothing for the server to know: the car shows its credential
    seen = [folder.version()]
    for _ in range(3):
        folder.enrol(["car"])
        seen.append(folder.version())
        folder.save_processors([ProcessorRule("#", "echo")])
        seen.append(folder.version())
    assert len(set(seen)) == len(seen)
    assert list(folder.clients()) == ["car"]


def test_a_place_that_is_known_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server starts again though its disk is full; elsewhere, it wants to be started again."""

    def no_room(path: Path, *_: object) -> None:
        raise OutputError(f"{path}: cannot be written: No space left on device")

    folder = StandaloneFolder(tmp_path)
    place = StandalonePlace("00", port=7400)
    folder.save_place(place)
    monkeypatch.setattr("nearcast.site.standalone_folder.write_secret", no_room)
    folder.save_place(place)
    with pytest.raises(OutputError):
        folder.save_place(StandalonePlace("00", port=7401))
    assert folder.place() == place


def test_a_standalone_server_without_room_for_its_place_wants_to_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(_folder: StandaloneFolder, _place: StandalonePlace) -> None:
        raise OutputError("no space left on device")

    monkeypatch.setattr(StandaloneFolder, "save_place", no_room)
    options = StandaloneSettings(port=0, http_port=0)

    async def run() -> None:
        await _run(StandaloneFolder(tmp_path), options, lambda _: None, asyncio.Event())

    with pytest.raises(RestartNeededError, match="no space left"):
        asyncio.run(run())


def test_a_list_with_one_wrong_name_lets_nobody_in(tmp_path: Path) -> None:
    folder = StandaloneFolder(tmp_path)
    with pytest.raises(ConfigError, match="1 to 255 bytes"):
        folder.enrol(["car", "c" * 256])
    assert folder.clients() == {}
