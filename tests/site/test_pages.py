"""What README, docs/sdk.md, docs/site.md and help texts tell a user to type works, verbatim."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from nearcast.cli.client import client
from nearcast.cli.processors import processors
from nearcast.cli.serve import serve
from nearcast.cli.serve_standalone import standalone
from nearcast.cli.status import status
from nearcast.cli.up import up
from nearcast.domain.scenario_files import read_scenario
from nearcast.site.layout import lay_out_site
from nearcast.site.standalone_folder import StandaloneFolder, StandalonePlace
from shown_commands import in_help, in_pages, with_verb
from small_site.making import quick, until, write_small_scenario

ROOT = Path(__file__).parents[2]
SDK = (ROOT / "docs" / "sdk.md").read_text()
SITE = (ROOT / "docs" / "site.md").read_text()
FLOWS = (ROOT / "docs" / "flows.md").read_text()
KEYS = (ROOT / "docs" / "keys.md").read_text()
FILTERS = (ROOT / "docs" / "filters.md").read_text()
AREAS = (ROOT / "docs" / "areas.md").read_text()
README = (ROOT / "README.md").read_text()
START, UP = (
    "nearcast scenario generate city --clients 30 --servers 2 --topics 4 --seed 1 --out city",
    "nearcast up city",
)
TOP_LEVEL_AWAIT = """
import ast, asyncio
asyncio.run(eval(compile({!r}, "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)))
"""
pytestmark = pytest.mark.slow


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def block_with(page: str, text: str) -> list[str]:
    """Return the lines of the one block of commands that has a text."""
    (found,) = (block for block in blocks(page, "sh") if text in block)
    return found.splitlines()


def commands(help_text: str) -> list[str]:
    """Return the commands of a help text; a line that ends in | goes on in the next one."""
    joined = re.sub(r"\|\n\s*", "| ", help_text)
    return re.findall(r"^ {4,}((?:nearcast|echo) .*)$", joined, re.M)


class Shell:
    """A terminal in the folder where the user works."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = os.environ | {"PATH": path}

    def start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def type(self, command: str) -> str:
        return self.run("bash", "-c", command)

    @contextmanager
    def running(self, *lines: str) -> Iterator[list[subprocess.Popen[str]]]:
        """Programs that run until the end of the block, and must end well then."""
        with ExitStack() as stack:
            programs = [stack.enter_context(self.start(line)) for line in lines]
            try:
                yield programs
            finally:
                for program in programs:
                    program.send_signal(signal.SIGINT)
                ended = [(one.communicate(timeout=60), one.returncode) for one in programs]
            assert [code for _, code in ended] == [0] * len(ended), ended

    def wait_until_up(self, running: subprocess.Popen[str]) -> None:
        last = self.folder / "city" / "site" / "clients" / "29.json"
        until(lambda: last.exists() or running.poll() is not None, "the site is up", 60)

    def check_heard(self, expected: str, subscribe: str, others: list[str]) -> None:
        """Check that a subscriber prints something because of other commands."""
        with self.start(subscribe) as listener:
            assert listener.stdout is not None
            assert listener.stderr is not None
            try:
                assert listener.stderr.readline().startswith("subscribed to ")
                for command in others:
                    self.type(command)
                # what was published just after an earlier subscriber left may come first
                assert any(expected in line for line in listener.stdout)
            finally:
                listener.send_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A folder with a city whose site runs."""
    shell = Shell(tmp_path_factory.mktemp("user"))
    shell.type(START)
    with shell.running(UP) as (running,):
        shell.wait_until_up(running)
        said = "".join(map(shell.type, blocks(SDK, "sh")[1].splitlines()))
        # the examples would prove less with both clients at one server
        assert len(set(re.findall(r"home is (127\.0\.0\.1:\d+)", said))) == 2
        yield shell


def test_all_pages_start_the_same_site() -> None:
    assert blocks(SDK, "sh")[0].splitlines() == [START, UP]
    assert block_with(SITE, START) == [START, UP]
    shown = CliRunner().invoke(up, ["--help"], terminal_width=200).output
    assert commands(shown)[:2] == [START, UP]


def test_no_command_of_a_site_is_left_out() -> None:
    run_here = [START, UP, *(line for block in blocks(SDK, "sh") for line in block.splitlines())]
    run_here += block_with(SITE, "nearcast status city") + block_with(SITE, "serve manager")
    run_here += block_with(SITE, "IceWarning") + block_with(README, UP)
    run_here += block_with(SITE, "serve standalone") + block_with(SITE, "--data broker --out")
    run_here += block_with(SITE, "nearcast processors") + block_with(KEYS, "client enrol")
    run_here += block_with(FLOWS, "flow camera")
    run_here += block_with(FILTERS, "--where") + block_with(AREAS, "--area")  # by test_terms
    in_texts = ("up", "client", "client enrol", "serve", "serve standalone", "status")
    run_here += [line for verb in in_texts for line in in_help()[verb]]
    known = {line.partition(" #")[0].strip() for line in run_here}
    shown = [*in_pages(), *(line for lines in in_help().values() for line in lines)]
    assert set(with_verb(shown, "up", "status", "client", "serve", "processors")) <= known


def test_the_programs_of_the_sdk_page_print_what_they_say(shell: Shell) -> None:
    with_asyncio, without, goes_on = blocks(SDK, "python")
    said = shell.run(sys.executable, "-c", with_asyncio)
    assert re.fullmatch(r"car 12\non the way for \d+\.\d+ ms\n", said)
    said = shell.run(sys.executable, "-c", without)
    assert re.fullmatch(r"heard: ice on the bridge\nround trip in ms: \d+\.\d+\n", said)
    assert shell.run(sys.executable, "-c", goes_on) == ""  # nothing since it subscribed first
    assert (shell.folder / "sign.cursors").exists()


def test_the_commands_of_the_sdk_page_work_together(shell: Shell) -> None:
    (listen,), others = (block.splitlines() for block in blocks(SDK, "sh")[2:])
    shell.check_heard('"payload": "{\\"speed_kmh\\":12}"', listen, others)


def test_the_commands_of_the_site_page_work_together(shell: Shell) -> None:
    status, listen, publish = block_with(SITE, "nearcast status city")
    assert "3 of 3 servers up" in shell.type(status)  # two edge servers and the cloud server
    shell.check_heard('"payload": "hello"', listen, [publish])


def test_the_processors_of_the_site_page_are_set_and_shown(shell: Shell) -> None:
    change, show, *_of_a_standalone = block_with(SITE, "nearcast processors")
    assert "2 rules in force" in shell.type(change)
    said = shell.type(show)
    assert "proximity" in said
    assert '{"limit_kmh": 50}' in said
    shown = CliRunner().invoke(processors, ["--help"], terminal_width=200).output
    assert commands(shown) == block_with(SITE, "nearcast processors")
    # without rules again: the other tests of this site expect that messages are forwarded
    assert "0 rules in force" in shell.type(change.partition(" 'traffic")[0])

    def obey() -> bool:
        site = json.loads(shell.type("nearcast status city --json"))
        return all(server["revision"] == site["revision"] for server in site["servers"])

    until(obey, "all servers have the last rules", 60)


def test_the_flow_of_the_flows_page_runs_moves_and_stops(shell: Shell) -> None:
    example, check, run, show, move, stop = block_with(FLOWS, "nearcast flow move")
    assert in_help()["flow"] == [example, check, run, show, move, stop]
    for command in (example, check):
        shell.type(command)
    assert "flow 'people' runs" in shell.type(run)
    until(lambda: "0..100 %" in shell.type(show), "the servers have reported", 60)
    listen, publish = block_with(FLOWS, "flow camera")
    shell.check_heard('"publisher": "flow:people/recognise@cloud"', listen, [publish])
    assert "hands 0..50 % of 'count' over to 0" in shell.type(move)
    until(lambda: "0..50 %" in shell.type(show), "the part is on its way", 60)
    save, _plan = block_with(FLOWS, "--flows flows.json")  # plans: tests/test_commands.py

    def has_moved() -> bool:
        (flow,) = json.loads(shell.type(save))["flows"]
        return {one["server"] for one in flow["components"]["count"]["places"]} >= {"cloud", "0"}

    until(has_moved, "both servers have reported their parts", 60)
    assert "flow 'people' ends" in shell.type(stop)
    assert "no flow runs" in shell.type(show)


@pytest.mark.parametrize("source", ["page", "help"])
def test_a_broker_is_tried_in_one_minute(tmp_path: Path, source: str) -> None:
    shown = CliRunner().invoke(standalone, ["--help"], terminal_width=200).output
    typed = commands(shown)
    if source == "page":
        typed = [*block_with(SITE, "serve standalone"), *block_with(SITE, "--data broker --out")]
    serve, *enrol, listen, publish, status = typed
    shell = Shell(tmp_path)
    # the ports of the last start count: free ones, not those that other programs may use
    folder = StandaloneFolder(tmp_path / "broker")
    key = folder.ensure_server("standalone").hex()
    folder.save_place(StandalonePlace(key, port=0, http_port=0))
    with shell.start(serve) as running:
        try:
            assert running.stdout is not None
            said = [running.stdout.readline().strip() for _ in range(8)]
            assert said[3:7] == [*enrol, listen, publish]
            for command in (*enrol, *in_help()["client enrol"]):
                shell.type(command)
            shell.check_heard('"payload": "hello"', listen, [publish])
            assert "standalone" in shell.type(status)
            change, show = block_with(SITE, "nearcast processors")[2:]
            assert "1 rules; a server that runs" in shell.type(change)
            assert "speeding" in shell.type(show)
        finally:
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=60)
    assert running.returncode == 0


def test_the_commands_and_the_program_of_the_readme_work_together(shell: Shell) -> None:
    (block,) = (block for block in blocks(README, "sh") if UP in block)
    start, status, listen, publish = block.splitlines()
    assert start.startswith(UP)
    assert "3 of 3 servers up" in shell.type(status)
    shell.check_heard('"payload": "hello"', listen, [publish])
    (program,) = (block for block in blocks(README, "python") if "nearcast.sdk" in block)
    shell.run(sys.executable, "-c", TOP_LEVEL_AWAIT.format(program))


def test_the_commands_of_the_help_texts_work_together(shell: Shell) -> None:
    shown = CliRunner().invoke(up, ["--help"], terminal_width=200).output
    status, listen, publish = commands(shown)[2:]
    assert "3 of 3 servers up" in shell.type(status)
    shell.check_heard('"payload": "hello"', listen, [publish])
    shown = CliRunner().invoke(client, ["--help"], terminal_width=200).output
    *enrol, listen, publish = commands(shown)
    assert enrol == blocks(SDK, "sh")[1].splitlines()
    shell.check_heard('"payload": "ice"', listen, [publish])


def test_the_example_programs_run_as_they_say(shell: Shell) -> None:
    shutil.copytree(ROOT / "examples", shell.folder / "examples")
    listen, publish = (
        re.findall(r"^python examples.*$", (ROOT / "examples" / name).read_text(), re.M)[0]
        for name in ("sdk_subscribe.py", "sdk_publish.py")
    )
    with shell.start(listen) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "listening to traffic/north\n"
        assert shell.type(publish).count("is safe") == 5
        assert listener.stdout.read().count("car: ") == 5


def test_a_site_of_separate_programs_starts_as_the_page_says(tmp_path: Path) -> None:
    scenario = write_small_scenario(tmp_path / "small", clients=["car"], topics=["road"])
    site = lay_out_site(read_scenario(scenario), scenario, tmp_path / "site", quick(scenario))
    lines = block_with(SITE, "serve manager")
    assert {line.split()[2] for line in lines} >= {"manager", "cloud", "edge"}
    shown = CliRunner().invoke(serve, ["--help"], terminal_width=200).output
    assert set(commands(shown)) <= {*lines, *block_with(SITE, "serve standalone")}
    ceremony = Shell(tmp_path)
    for line in block_with(SITE, "site init"):
        ceremony.type(line)
    assert (tmp_path / "city-keys" / "credentials" / "e1.hex").exists()
    shown = CliRunner().invoke(status, ["--help"], terminal_width=200).output
    (ask,) = (line for line in commands(shown) if "--manager" in line)
    # the port of the help text may be somebody else's here
    ask = ask.replace(":8000", f":{site.place('manager').http_port}")
    shell = Shell(site.folder / "config")
    with shell.running(*lines) as programs:

        def is_up() -> bool:
            assert all(program.poll() is None for program in programs)
            with shell.start(ask) as asked:
                said, _ = asked.communicate(timeout=60)
            return asked.returncode == 0 and json.loads(said)["counts"]["servers_up"] == 2

        until(is_up, "both servers are up", 60)
        here = f":{site.place('manager').http_port}"
        inside = Shell(site.folder)
        (enrol,) = block_with(KEYS, "client enrol")
        assert "home is 127.0.0.1:" in inside.type(
            enrol.replace("10.0.0.2:7480", f"127.0.0.1{here}")
        )
        _, revoke = block_with(KEYS, "site revoke")
        said = inside.type(revoke.replace("10.0.0.2:7480", f"127.0.0.1{here}"))
        assert "signed by the manager" in said


def test_the_processor_of_the_page_runs_as_it_says(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (source,), (line,) = blocks(SITE, "python"), block_with(SITE, "IceWarning")
    (tmp_path / "ice.py").write_text(source)
    shell.type(START)
    with shell.running(line) as (running,):
        shell.wait_until_up(running)
        for enrol in blocks(SDK, "sh")[1].splitlines():
            shell.type(enrol)
        publish = "nearcast client publish --credentials car.json --topic 1 --message "
        listen = "nearcast client subscribe --credentials sign.json --topic 1 --count 1"
        shell.check_heard('"payload": "ice ahead"', listen, [publish + "sun", publish + "ice"])
