"""``nearcast serve`` with a configuration that cannot work: one clear line, and nothing runs."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cli.conftest import Answer, Run
from nearcast.domain.scenario_files import read_scenario
from nearcast.site.layout import SiteFolder, lay_out_site
from small_site.making import quick, write_small_scenario


@pytest.fixture
def site(tmp_path: Path) -> SiteFolder:
    """A site that nobody runs."""
    scenario = write_small_scenario(tmp_path / "small", clients=["car"], topics=["road"])
    return lay_out_site(read_scenario(scenario), scenario, tmp_path / "site", quick(scenario))


def _the_error(answer: Answer) -> str:
    """Return the one line that a failed command says; log lines are JSON."""
    assert answer.code == 2
    assert answer.out == ""
    said = [line for line in answer.err.splitlines() if not line.startswith("{")]
    assert len(said) == 1
    assert said[0].startswith("error: ")
    return said[0]


def _serve(run: Run, site: SiteFolder, server: str, role: str | None = None) -> str:
    before = threading.active_count()
    role = role or site.place(server).role
    said = _the_error(run("serve", role, "--config", site.config_file(server)))
    assert threading.active_count() == before
    return said


def _change(file: Path, old: str, new: str, count: int = -1) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, count))


def test_an_unknown_key_is_named_with_the_nearest_known_one(run: Run, site: SiteFolder) -> None:
    file = site.config_file("e1")
    _change(file, "[spool]", "[spool]\nsegment_gb = 1")
    said = _serve(run, site, "e1")
    assert f"{file}: spool.segment_gb: no such key; the nearest is 'segment_mb'" in said


def test_a_missing_key_file_is_named(run: Run, site: SiteFolder) -> None:
    key = site.folder / "keys" / "e1.key"
    key.unlink()
    assert f"key file {key}: cannot be read" in _serve(run, site, "e1")


def test_a_missing_configuration_is_named(run: Run, site: SiteFolder) -> None:
    site.config_file("e1").unlink()
    assert f"{site.config_file('e1')}: cannot be read" in _serve(run, site, "e1")


def test_a_configuration_of_another_role_is_refused(run: Run, site: SiteFolder) -> None:
    said = _serve(run, site, "e1", role="cloud")
    assert "role: is 'edge', not 'cloud'" in said


def test_a_udp_port_in_use_is_named_before_anything_is_written(run: Run, site: SiteFolder) -> None:
    port = site.place("e1").port
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", port))
        assert f"cannot listen at 127.0.0.1, UDP port {port}" in _serve(run, site, "e1")
    assert not (site.folder / "data" / "e1").exists()


@pytest.mark.parametrize("server", ["e1", "cloud", "manager"])
def test_an_http_port_in_use_is_named(run: Run, site: SiteFolder, server: str) -> None:
    place = site.place(server)
    with socket.create_server(("127.0.0.1", place.http_port)):
        said = _serve(run, site, server)
    assert f"cannot listen at 127.0.0.1, HTTP port {place.http_port}" in said
    _assert_free(site, server)


@pytest.mark.parametrize("server", ["e1", "manager"])
def test_a_mesh_port_in_use_is_named(run: Run, site: SiteFolder, server: str) -> None:
    port = site.place(server).mesh_port
    with socket.create_server(("127.0.0.1", port)):
        said = _serve(run, site, server)
    assert f"cannot listen at 127.0.0.1:{port} for other servers" in said
    _assert_free(site, server)


def _assert_free(site: SiteFolder, server: str) -> None:
    """Nothing that a failed start had opened is left open."""
    place = site.place(server)
    for port in (place.http_port, place.mesh_port):
        socket.create_server(("127.0.0.1", port)).close()
    if place.port:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", place.port))


def test_a_data_folder_that_cannot_be_made_is_named(run: Run, site: SiteFolder) -> None:
    data = site.folder / "data"
    data.rmdir()
    data.write_text("in the way")
    assert f"{data / 'e1'}: cannot be made" in _serve(run, site, "e1")


def test_an_unknown_processor_is_named_with_those_there_are(run: Run, site: SiteFolder) -> None:
    rule = '[[site.processors]]\npattern = "road/#"\nprocessor = "psychic"\n\n'
    _change(site.config_file("manager"), "[[servers]]", rule + "[[servers]]", count=1)
    said = _serve(run, site, "manager")
    assert "there is no processor 'psychic'; there are: forward" in said


def test_a_pattern_that_cannot_match_is_named(run: Run, site: SiteFolder) -> None:
    rule = '[[site.processors]]\npattern = "road#"\n\n'
    _change(site.config_file("manager"), "[[servers]]", rule + "[[servers]]", count=1)
    said = _serve(run, site, "manager")
    assert "topic pattern 'road#': '+' and '#' stand for whole levels" in said


def test_a_scenario_that_cannot_be_read_is_named(run: Run, site: SiteFolder) -> None:
    (site.scenario / "topics.csv").write_text("topic_id,spool\nroad,many\n")
    said = _serve(run, site, "manager")
    assert "topics.csv, row 1, column 'spool'" in said


def test_a_plan_that_is_not_there_is_named(run: Run, site: SiteFolder) -> None:
    (site.scenario / "plan" / "homes.csv").unlink()
    said = _serve(run, site, "manager")
    assert "plan/homes.csv: missing" in said


def test_a_plan_of_another_scenario_is_refused(run: Run, site: SiteFolder) -> None:
    (site.scenario / "plan" / "homes.csv").write_text("client_id,server_id\nstranger,e1\n")
    said = _serve(run, site, "manager")
    assert "homes.csv" in said
    assert "stranger" in said


def test_a_server_that_should_be_started_again_ends_with_code_1() -> None:
    program = """
import sys
import nearcast.runtime.serve
from nearcast.cli.main import main
from nearcast.errors import RestartNeededError

def end(*_, **__):
    raise RestartNeededError("server 'e1' ends: its spool is lost")

nearcast.runtime.serve.serve = end
sys.argv = ["nearcast", "serve", "edge", "--config", "e1.toml"]
main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "error: server 'e1' ends: its spool is lost\n"
