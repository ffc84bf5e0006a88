"""``nearcast status`` where there is nothing to show; test_up asks a site that runs."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread

import pytest

from cli.conftest import Run
from nearcast.cli.status import add_losses
from nearcast.domain.scenario_files import read_scenario
from nearcast.runtime.http_endpoint import HttpEndpoint
from nearcast.site.layout import lay_out_site
from nearcast.testing.ports import closed_port
from runtime.serving import serving
from small_site.making import quick, write_small_scenario


def test_a_folder_without_a_site_is_named(run: Run, tmp_path: Path) -> None:
    answer = run("status", tmp_path)
    assert answer.code == 2
    said = f"error: {tmp_path / 'site.json'}: No such file or directory; `nearcast up SCENARIO`"
    assert answer.err.startswith(said)
    assert len(answer.err.splitlines()) == 1


def test_a_site_that_does_not_run_is_told(run: Run, tmp_path: Path) -> None:
    scenario = write_small_scenario(tmp_path / "small", clients=["car"], topics=["road"])
    folder = scenario / "site"
    site = lay_out_site(read_scenario(scenario), scenario, folder, quick(scenario))
    for given in (scenario, folder):
        answer = run("status", given, "--json")
        assert answer.code == 2
        assert answer.out == ""
        assert f"error: {site.manager_url}/status does not answer" in answer.err


def test_a_manager_that_does_not_answer_is_named(run: Run) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    answer = run("status", "--manager", url)
    assert answer.code == 2
    assert f"error: {url}/status does not answer" in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp:/nowhere", "http://", "http://[::"])
def test_an_address_that_is_none_is_an_error_of_one_line(run: Run, url: str) -> None:
    answer = run("status", "--manager", url)
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert len(answer.err.splitlines()) == 1


def test_a_server_that_is_no_manager_is_named(run: Run) -> None:
    with serving(HttpEndpoint("127.0.0.1", 0, status=lambda: {"server": "e1"})) as edge:
        answer = run("status", "--manager", "http://{}:{}".format(*edge.address))
    assert answer.code == 2
    assert answer.err.endswith("answers, but is not the manager of a site\n")


def test_the_losses_of_each_server_of_a_site_are_shown() -> None:
    lost, tables = {"busy": 3}, {"sessions": {"entries": 1, "limit": 2}}
    servers = [{"id": "e1"}, {"id": "e2"}, {"id": "e3"}]
    said = {"server": "e1", "losses": lost, "tables": tables}
    with serving(HttpEndpoint("127.0.0.1", 0, status=lambda: said)) as edge:
        add_losses(servers, {"e1": edge.address[1], "e2": closed_port()})
    missing = {"losses": None, "tables": None}
    assert servers == [
        {"id": "e1", "losses": lost, "tables": tables},
        {"id": "e2", **missing},
        {"id": "e3", **missing},
    ]


def test_a_port_that_speaks_no_http_is_an_error_of_one_line(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(1 << 12)
                connection.sendall(b"220 mail here\r\n\r\n")

        thread = Thread(target=speak)
        thread.start()
        answer = run("status", "--manager", f"http://127.0.0.1:{other.getsockname()[1]}")
        thread.join()
    assert answer.code == 2
    assert "does not answer" in answer.err
    assert len(answer.err.splitlines()) == 1


def test_either_a_site_or_a_manager_is_wanted(run: Run, tmp_path: Path) -> None:
    for given in ([], [tmp_path, "--manager", "http://127.0.0.1:1"]):
        answer = run("status", *given)
        assert answer.code == 2
        assert answer.err == "error: give the folder of the site, --manager URL or --data DIR\n"
