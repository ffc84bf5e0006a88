"""The files of a standalone server: whole, secret, and shared by commands at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearcast.errors import ConfigError
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.standalone_folder import StandaloneFolder
from nearcast.wire.noise import public_key


def test_clients_enrolled_at_the_same_time_are_all_in(tmp_path: Path) -> None:
    names = [f"car{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda name: StandaloneFolder(tmp_path).enrol([name])[0], names))
    folder = StandaloneFolder(tmp_path)
    assert folder.clients() == {one.client: one.public_key for one in made}
    assert {one.home.server_key for one in made} == {public_key(folder.make_key())}
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "clients.json",
        "files.lock",
        "server.key",
        "standalone.json",
    ]


def test_each_enrolment_and_each_rule_is_seen_as_a_change(tmp_path: Path) -> None:
    folder = StandaloneFolder(tmp_path)
    seen = [folder.version()]
    for _ in range(3):
        folder.enrol(["car"])
        seen.append(folder.version())
        folder.save_processors([ProcessorRule("#", "echo")])
        seen.append(folder.version())
    assert len(set(seen)) == len(seen)
    assert list(folder.clients()) == ["car"]


def test_a_list_with_one_wrong_name_lets_nobody_in(tmp_path: Path) -> None:
    folder = StandaloneFolder(tmp_path)
    with pytest.raises(ConfigError, match="1 to 255 bytes"):
        folder.enrol(["car", "c" * 256])
    assert folder.clients() == {}
