"""Credential files: what is written is read, and what is wrong is named."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from nearcast.errors import ConfigError, OutputError
from nearcast.sdk.credentials import (
    Credentials,
    load_credentials,
    new_private_key,
    save_credentials,
)
from nearcast.testing.authority import SmallAuthority
from nearcast.wire.actions import Home

GOOD: dict[str, Any] = {
    "client": "car",
    "private_key": "11" * 32,
    "home": {"host": "10.0.0.5", "port": 7000, "server_key": "22" * 32},
    "x_km": 1.5,
    "y_km": 2.0,
    "delays_ms": {"10.0.0.5:7000": 0.8, "[::1]:9": 1},
    "datagram_limit": 9000,
    "credential": "aabb",
    "authority": "33" * 32,
    "servers": [{"host": "10.0.0.6", "port": 7001, "server_key": "44" * 32}],
}


def _write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(0o600)
    return path


def test_what_is_saved_is_loaded_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "car.json"
    home = Home(("10.0.0.5", 7000), b"\x22" * 32)
    full = Credentials("car", new_private_key(), home, 1.5, 2.0, {"10.0.0.5:7000": 0.8}, 9000)
    plain = Credentials("car", new_private_key(), home)
    for credentials in (full, plain):
        save_credentials(credentials, file, overwrite=True)
        assert load_credentials(file) == credentials
        assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["car.json"]
    assert set(json.loads(file.read_text())) == {"client", "private_key", "home"}
    assert plain.private_key.hex() not in repr(plain)


def test_servers_are_kept_with_what_the_authority_signed_and_checked_when_read(
    tmp_path: Path,
) -> None:
    file, authority = tmp_path / "car.json", SmallAuthority()
    homes = [
        Home((host, 7000), key, authority.server(host, key))
        for host, key in (("10.0.0.5", b"\x22" * 32), ("10.0.0.6", b"\x44" * 32))
    ]
    car = Credentials(
        "car", new_private_key(), homes[0], authority=authority.key.public_key, servers=(homes[1],)
    )
    save_credentials(car, file)
    found = load_credentials(file)
    assert [one.credential for one in (found.home, *found.servers)] == [
        one.credential for one in homes
    ]
    content = json.loads(file.read_text())
    content["servers"][0]["server_key"] = "55" * 32
    with pytest.raises(ConfigError, match=r"server 10\.0\.0\.6:7000: the credential is of another"):
        load_credentials(_write(file, content))


def test_the_file_format_is_as_documented(tmp_path: Path) -> None:
    credentials = load_credentials(_write(tmp_path / "car.json", GOOD))
    assert credentials.home == Home(("10.0.0.5", 7000), b"\x22" * 32)
    assert credentials.delays_s() == {("10.0.0.5", 7000): 0.0008, ("::1", 9): 0.001}
    assert credentials.settings().datagram_limit == 9000
    assert (credentials.credential, credentials.authority) == (b"\xaa\xbb", b"\x33" * 32)
    assert credentials.servers == (Home(("10.0.0.6", 7001), b"\x44" * 32),)
    private = X25519PrivateKey.from_private_bytes(b"\x11" * 32)
    assert credentials.public_key == private.public_key().public_bytes_raw()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"client": ""}, "client: must not be empty"),
        ({"client": 7}, r"Expected `str`, got `int` - at `\$.client`"),
        ({"private_key": "11"}, "private_key: must have 64 hex digits"),
        ({"private_key": "zz" * 32}, "private_key: must have 64 hex digits"),
        ({"home": {"host": "a", "port": 7000}}, "missing required field `server_key`"),
        ({"home": GOOD["home"] | {"server_key": "22"}}, "server_key: must have 64 hex digits"),
        ({"home": GOOD["home"] | {"port": 70_000}}, "home: .*70000 is not the address"),
        ({"home": GOOD["home"] | {"host": ""}}, "home: .* is not the address"),
        ({"delays_ms": {"nowhere": 1}}, "delays_ms: 'nowhere' is no host:port"),
        ({"delays_ms": {"a:99999": 1}}, "delays_ms: 'a:99999' is no host:port"),
        ({"delays_ms": {"a:1": -1}}, "delays_ms: 'a:1' must be 0 or more"),
        ({"datagram_limit": 3}, "datagram_limit must lie between"),
        ({"colour": "red"}, "unknown field `colour`"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    file = _write(tmp_path / "car.json", GOOD | change)
    with pytest.raises(ConfigError, match=rf"car\.json: .*{problem}"):
        load_credentials(file)


@pytest.mark.parametrize("content", ["", "{", "[]", "\xff", '{"client": "\\ud800"}'])
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "car.json"
    file.write_bytes(content.encode("latin-1"))
    file.chmod(0o600)
    with pytest.raises(ConfigError, match=r"car\.json"):
        load_credentials(file)


def test_an_existing_key_is_not_overwritten_by_mistake(tmp_path: Path) -> None:
    file = _write(tmp_path / "car.json", GOOD)
    with pytest.raises(OutputError, match="exists already"):
        save_credentials(load_credentials(file), file)
    with pytest.raises(OutputError, match="cannot be written"):
        save_credentials(load_credentials(file), tmp_path / "no folder" / "car.json")


def test_a_key_that_others_may_read_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = _write(tmp_path / "car.json", GOOD)
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        load_credentials(file)
    assert "others may read it" in caplog.text


def test_numbers_must_be_finite() -> None:
    home = Home(("10.0.0.5", 7000), b"\x22" * 32)
    with pytest.raises(ConfigError, match="x_km: must be a finite number"):
        Credentials("car", new_private_key(), home, float("inf"), 0.0)
