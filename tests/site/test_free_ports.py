"""Sites that start together have ports of their own."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearcast.errors import ConfigError
from nearcast.site import free_ports as module
from nearcast.site.free_ports import PORTS, free_ports


@pytest.fixture(autouse=True)
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which it is noted where the last ports ended; not there yet."""
    file = tmp_path / "noted"
    monkeypatch.setattr(module, "_noted", lambda: file)
    return file


def test_nobody_gets_ports_that_another_was_just_given() -> None:
    with ThreadPoolExecutor(8) as sites:
        given = list(sites.map(lambda _: free_ports(13, socket.SOCK_STREAM), range(40)))
    found = [port for ports in given for port in ports]
    assert len(set(found)) == len(found) == 520
    assert set(found) <= set(PORTS)


def test_after_the_last_port_comes_the_first_again(noted: Path) -> None:
    noted.write_text(f"{len(PORTS) - 1:08d}")
    last, first = free_ports(2, socket.SOCK_STREAM)[0], free_ports(2, socket.SOCK_DGRAM)[0]
    assert last > first


def test_what_others_use_and_what_is_taken_is_left_out(noted: Path) -> None:
    noted.write_text("00000100")
    start = PORTS.start + 100
    (used,) = free_ports(1, socket.SOCK_DGRAM)
    noted.write_text("00000100")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", used))
        found = free_ports(3, socket.SOCK_DGRAM, {start + 2, start + 3})
    assert not {used, start + 2, start + 3} & set(found)
    assert free_ports(0, socket.SOCK_DGRAM) == []


@pytest.mark.parametrize("text", ["", "nonsense", "-1", "99999999"])
def test_a_file_that_says_nothing_useful_is_written_anew(noted: Path, text: str) -> None:
    noted.write_text(text)
    (port,) = free_ports(1, socket.SOCK_STREAM)
    assert port in PORTS
    assert int(noted.read_bytes()[:8]) == port + 1 - PORTS.start


def test_without_the_file_there_are_ports_all_the_same(noted: Path) -> None:
    os.symlink(noted.parent / "elsewhere", noted)  # somebody else's trick
    assert len(free_ports(2, socket.SOCK_STREAM)) == 2
    assert not (noted.parent / "elsewhere").exists()


def test_the_file_of_another_user_is_left_alone(
    noted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted.write_text("00000100")
    monkeypatch.setattr(os, "getuid", lambda: os.stat(noted).st_uid + 1)
    assert len(free_ports(2, socket.SOCK_STREAM)) == 2
    assert noted.read_text() == "00000100"


def test_more_ports_than_there_are_is_an_error() -> None:
    with pytest.raises(ConfigError, match=f"no {len(PORTS) + 1} ports between 20000 and 31999"):
        free_ports(len(PORTS) + 1, socket.SOCK_STREAM)
