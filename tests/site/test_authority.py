"""The authority's folder: what it issues counts at servers, and what it revoked does not."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from nearcast.errors import ConfigError, OutputError, TrustError
from nearcast.site.authority import Authority
from nearcast.trust.rights import EVERYTHING, NOTHING, Rights
from nearcast.trust.site_trust import SiteTrust

NOW = 1.7e9
DAY = 86_400
KEY, OTHER_KEY = b"k" * 32, b"o" * 32


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "keys")


def _trust(authority: Authority) -> SiteTrust:
    """Return what a server of the site goes by, with the list of revocations."""
    trust = SiteTrust(authority.public_key)
    if authority.revocations_file.exists():
        trust.revoke(authority.revocations_file.read_bytes())
    return trust


def test_what_it_issues_counts_as_long_as_it_says(authority: Authority) -> None:
    rights = Rights(("a/#",), (), 10.0, 100, 2)
    document = authority.client("car", KEY, rights, 2, NOW)
    credential = _trust(authority).client(document, KEY, NOW + 2 * DAY - 1)
    assert (credential.client, credential.rights) == ("car", rights)
    with pytest.raises(TrustError, match="expired"):
        _trust(authority).client(document, KEY, NOW + 2 * DAY)


def test_a_renewed_credential_has_a_higher_serial_and_the_old_one_still_counts(
    authority: Authority,
) -> None:
    first = authority.client("car", KEY, EVERYTHING, 1, NOW)
    second = authority.client("car", KEY, EVERYTHING, 1, NOW - 5)  # a clock that was set back
    trust = _trust(authority)
    old, new = trust.client(first, KEY, NOW), trust.client(second, KEY, NOW)
    assert new.serial == old.serial + 1


@pytest.mark.parametrize(("key", "rights"), [(OTHER_KEY, EVERYTHING), (KEY, NOTHING)])
def test_another_key_or_other_rights_end_what_was_issued_before(
    authority: Authority, key: bytes, rights: Rights
) -> None:
    first = authority.client("car", KEY, EVERYTHING, 1, NOW)
    second = authority.client("car", key, rights, 1, NOW + 1)
    trust = _trust(authority)
    assert trust.client(second, key, NOW).rights == rights
    with pytest.raises(TrustError, match="revoked"):
        trust.client(first, KEY, NOW)


def test_revoked_is_all_that_was_issued_so_far_and_nothing_later(authority: Authority) -> None:
    first = authority.client("car", KEY, EVERYTHING, 1, NOW)
    authority.revoke("client", "car", NOW - 10)
    authority.revoke("client", "never seen", NOW)
    with pytest.raises(TrustError, match="revoked"):
        _trust(authority).client(first, KEY, NOW)
    again = authority.client("car", KEY, EVERYTHING, 1, NOW + 1)
    assert _trust(authority).client(again, KEY, NOW + 1).client == "car"
    assert [one.name for one in authority.revocations().entries] == ["car", "never seen"]


def test_a_manager_signs_and_other_servers_do_not(authority: Authority) -> None:
    manager = authority.server("manager", "manager", 10, NOW)
    edge = authority.server("e/1", "edge", 10, NOW)
    assert manager.signs == ("clients", "orders", "revocations")
    assert (edge.role, edge.signs, edge.signing_key) == ("edge", (), b"")
    document = bytes.fromhex(authority.credential_file("e/1").read_text())
    assert _trust(authority).server(document, NOW) == edge
    for file in authority.folder.rglob("*"):
        assert file.is_dir() or file.stat().st_mode & 0o077 == 0 or file.name.endswith(".lock")


def test_a_servers_key_stays_unless_a_new_one_is_asked_for(authority: Authority) -> None:
    first = authority.server("e1", "edge", 10, NOW)
    assert authority.server("e1", "edge", 10, NOW + 1).public_key == first.public_key
    old = bytes.fromhex(authority.credential_file("e1").read_text())
    assert authority.server("e1", "edge", 10, NOW + 2, new_key=True).public_key != first.public_key
    with pytest.raises(TrustError, match="revoked"):
        _trust(authority).server(old, NOW)


def test_without_its_key_it_signs_nothing_and_says_so(authority: Authority, tmp_path: Path) -> None:
    kept = tmp_path / "safe.key"
    authority.key_file.rename(kept)
    with pytest.raises(ConfigError, match="--authority-key"):
        authority.client("car", KEY, EVERYTHING, 1, NOW)
    assert authority.register.all() == []
    assert Authority(authority.folder, kept).client("car", KEY, EVERYTHING, 1, NOW)
    Authority.create(tmp_path / "other")
    with pytest.raises(ConfigError, match="another authority"):
        Authority(authority.folder, tmp_path / "other" / "authority.key").revoke(
            "client", "car", NOW
        )


def test_a_second_authority_in_a_folder_is_refused(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has an authority already"):
        Authority.create(authority.folder)
    with pytest.raises(ConfigError, match="nearcast site init"):
        Authority(tmp_path / "nowhere")
    assert Authority.open_or_create(authority.folder).public_key == authority.public_key


@pytest.mark.parametrize("days", [0.0, -1.0, 1e9, float("nan")])
def test_a_credential_counts_for_some_days(authority: Authority, days: float) -> None:
    with pytest.raises(ConfigError, match="counts for up to 3650 days"):
        authority.client("car", KEY, EVERYTHING, days, NOW)


def test_damaged_files_are_named(authority: Authority) -> None:
    authority.client("car", KEY, EVERYTHING, 1, NOW)
    authority.revocations_file.write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match=r"revocations.msgpack: not a signed document"):
        authority.revoke("client", "car", NOW)
    register = authority.folder / "register.db"
    register.write_bytes(b"something else entirely\n" * 100)
    with pytest.raises(ConfigError, match=r"register.db: no register"):
        authority.register.all()
    register.unlink()
    with sqlite3.connect(register) as database:
        database.execute("CREATE TABLE other (a)")
    database.close()
    with pytest.raises(ConfigError, match=r"register.db: a database, but no register"):
        authority.register.all()


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file/keys"):
        Authority.create(tmp_path / "file" / "keys")
    assert os.listdir(tmp_path) == ["file"]
