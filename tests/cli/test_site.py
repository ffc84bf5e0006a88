"""The ceremony as an operator types it."""

from __future__ import annotations

import shlex
from pathlib import Path

from cli.conftest import Run
from nearcast.sdk.credentials import load_credentials
from nearcast.trust.signed import SigningKey
from nearcast.trust.site_trust import SiteTrust
from shown_commands import in_help


def test_the_commands_that_help_texts_show_work(run: Run) -> None:
    shown = [line for verb, lines in in_help().items() if verb.startswith("site") for line in lines]
    done = set()
    for line in shown:
        if line in done or "--manager" in line:
            continue
        done.add(line)
        assert run(*shlex.split(line)[1:], "--json").code == 0, line
    assert len(done) >= 7


def test_a_client_gets_what_servers_of_the_site_accept(run: Run) -> None:
    run("site", "init", "keys")
    run("site", "server", "e1", "--role", "edge", "--site", "keys")
    run("site", "server", "e2", "--role", "edge", "--site", "keys")
    ways = ("--via", "e2=10.0.0.2:7000", "--via", "e1=[::1]:7001")
    rights = ("--publish", "a/#", "--subscribe", "+/b", "--rate", 5, "--days", 3)
    answer = run("site", "client", "car", "--site", "keys", *ways, *rights, "--out", "car.json")
    assert "may publish a/#, subscribe +/b" in answer.out
    found = load_credentials("car.json")
    assert (found.home.address, found.servers[0].address) == (("10.0.0.2", 7000), ("::1", 7001))
    trust = SiteTrust(found.authority)
    credential = trust.client(found.credential, found.public_key, 0.0)
    assert (credential.client, credential.rights.messages_per_s) == ("car", 5.0)
    assert credential.validity.until_s - credential.validity.issued_s == 3 * 86_400
    key = SigningKey(bytes.fromhex(Path("keys/authority.key").read_text()))
    assert key.public_key == found.authority

    shown = run("site", "show", "--site", "keys", "--json").json
    assert [(one["name"], one["state"]) for one in shown["credentials"]] == [
        ("e1", "counts"),
        ("e2", "counts"),
        ("car", "counts"),
    ]
    assert run("site", "renew", "client", "car", "--site", "keys", "--credentials", "car.json",
               "--new-key", "--json").code == 0  # fmt: skip
    renewed = load_credentials("car.json")
    assert renewed.private_key != found.private_key
    trust.revoke(Path("keys/revocations.msgpack").read_bytes())
    assert not trust.is_valid(credential, 0.0)
    trust.client(renewed.credential, renewed.public_key, 0.0)
    assert run("site", "revoke", "client", "car", "--site", "keys").code == 0
    shown = run("site", "show", "--site", "keys", "--json").json
    assert shown["credentials"][2]["state"] == "revoked"
    assert "revoked" in run("site", "show", "--site", "keys").out


def test_what_cannot_be_done_is_one_clear_line_and_writes_nothing(run: Run) -> None:
    assert "nearcast site init" in run("site", "show", "--site", "nowhere").err
    run("site", "init", "keys")
    client = ("site", "client", "car", "--site", "keys", "--out", "car.json")
    assert "--via ID=HOST:PORT" in run(*client).err
    assert "'e1' has no credential" in run(*client, "--via", "e1=a:1").err
    run("site", "server", "e1", "--role", "edge", "--site", "keys")
    assert "must be ID=HOST:PORT" in run(*client, "--via", "e1=a").err
    assert "'#' stands at the end" in run(*client, "--via", "e1=a:1", "--publish", "#/a").err
    assert "up to 3650 days" in run(*client, "--via", "e1=a:1", "--days", 10_000).err
    assert not Path("car.json").exists()
    assert run(*client, "--via", "e1=a:1").code == 0
    assert "--overwrite" in run(*client, "--via", "e1=a:1").err
    Path("keys/authority.key").rename("safe.key")
    assert "--authority-key" in run("site", "renew", "server", "e1", "--site", "keys").err
    kept = ("--authority-key", "safe.key")
    assert run("site", "renew", "server", "e1", "--site", "keys", *kept).code == 0
    assert "no credential" in run("site", "renew", "server", "e9", "--site", "keys", *kept).err
    assert "--credentials" in run("site", "renew", "client", "car", "--site", "keys", *kept).err
