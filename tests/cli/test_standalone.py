"""``nearcast serve standalone`` as a process, and clients that a local command enrols."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Answer, Run
from nearcast.links.http_client import ask
from nearcast.sdk import SyncClient
from nearcast.testing.ports import closed_port
from nearcast.testing.recording_processor import RECORDING
from small_site.making import metrics_of, until

START_S = 60.0
PORTS = ("--port", "0", "--http-port", "0")


class Standalone:
    """A server that runs, as its own words describe it."""

    def __init__(self, process: subprocess.Popen[str], said: dict[str, Any]) -> None:
        self.process, self.said = process, said

    @property
    def http_port(self) -> int:
        return int(self.said["http"].rpartition(":")[2])

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> str:
        """Press Ctrl-C; return what it says then."""
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return said


@contextmanager
def serving(data: Path, *words: str) -> Iterator[Standalone]:
    program = Path(sys.executable).parent / "nearcast"
    with subprocess.Popen(
        [program, "serve", "standalone", "--data", data, "--json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            ready, _, _ = select.select([process.stdout], [], [], START_S)
            line = process.stdout.readline() if ready else ""
            assert line, process.stderr.read()
            yield Standalone(process, json.loads(line))
        finally:
            process.kill()


def enrol(run: Run, data: Path, name: str) -> Path:
    file = data.parent / f"{name}.json"
    answer = run("client", "enrol", name, "--data", data, "--out", file, "--overwrite")
    assert (answer.code, answer.err) == (0, "")
    return file


def test_clients_and_messages_are_there_after_a_crash(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "broker"
    with serving(data, *PORTS) as server:
        assert stat.S_IMODE((data / "keys" / "standalone.key").stat().st_mode) == 0o600
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        car, sign = enrol(run, data, "car"), enrol(run, data, "sign")
        with (
            SyncClient.connect(sign, timeout_s=30) as listener,
            SyncClient.connect(car, timeout_s=30) as publisher,
        ):
            listener.subscribe("road")
            publisher.publish("road", "ice").wait(30)
            heard = listener.next_notification(30)
            assert heard is not None
            assert (heard.payload, heard.publisher) == (b"ice", "car")
        assert ask(f"{server.said['http']}/health") == {"status": "ok"}
        server.kill()
    with serving(data) as again:
        assert again.said | {"pid": 0} == server.said | {"pid": 0, "clients": 2}
        assert metrics_of(again.http_port)["nearcast_spool_messages"] == {"road": 1.0}
        with SyncClient.connect(car, timeout_s=30) as publisher:
            publisher.publish("road", "sun").wait(30)
        assert metrics_of(again.http_port)["nearcast_spool_messages"] == {"road": 2.0}
        assert "the server has stopped" in again.stop()


def test_a_client_enrolled_again_has_a_new_key_only(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "broker"
    old = enrol(run, data, "car").rename(tmp_path / "old.json")  # before the first start
    default = json.loads((data / "standalone.json").read_text())
    assert (default["port"], default["http_port"]) == (7400, 7480)
    with serving(data, *PORTS) as server:
        new = enrol(run, data, "car")
        with SyncClient.connect(new, timeout_s=30) as client:
            client.echo()
        lost = json.loads(old.read_text())
        lost["home"]["port"] = int(server.said["address"].rpartition(":")[2])
        old.write_text(json.dumps(lost))
        answer = run("client", "echo", "--credentials", old, "--timeout", "0.5")
        assert answer.code == 2
        assert "were enrolled for 127.0.0.1:7400" in server.stop()


def test_topics_have_the_processors_of_their_patterns(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "broker"
    rule = 'speed/#=speeding{"limit_kmh": 50}'
    with serving(data, *PORTS, "--processor-for", rule, "--processor", "echo") as server:
        car, sign = enrol(run, data, "car"), enrol(run, data, "sign")
        with (
            SyncClient.connect(sign, timeout_s=30) as listener,
            SyncClient.connect(car, timeout_s=30) as publisher,
        ):
            listener.subscribe("speed/north")
            publisher.subscribe("road")
            publisher.publish("speed/north", {"speed": 40}).wait(30)
            publisher.publish("speed/north", "no number").wait(30)
            publisher.publish("speed/north", {"speed": 60}).wait(30)
            publisher.publish("road", "hello").wait(30)
            alert, echo = listener.next_notification(30), publisher.next_notification(30)
            assert alert is not None
            assert echo is not None
            assert json.loads(alert.payload)["alert"] == "speeding"
            assert echo.payload == b"hello"
        assert metrics_of(server.http_port)["nearcast_processor_malformed_total"][""] == 1


def test_processors_change_while_the_server_runs_and_stay(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "broker"
    with serving(data, *PORTS, "--processor", "echo") as server:
        car = enrol(run, data, "car")
        with SyncClient.connect(car, timeout_s=30) as client:
            client.subscribe("road")
            client.publish("road", "one").wait(30)
            assert client.next_notification(30) is not None
            status = f"{server.said['http']}/status"
            before = ask(status)["revision"]
            options = {"limit_kmh": 50, "tell": "driver"}
            rule = {"pattern": "road", "processor": "speeding", "options": options}
            (tmp_path / "rules").write_text(json.dumps([rule]))
            changed = run(
                "processors", "set", "--data", data, "--file", tmp_path / "rules", "--json"
            )
            wanted = [rule | {"notify_after_sync": False, "acknowledge": "one"}]
            assert changed.json == {"revision": None, "processors": wanted}
            until(lambda: ask(status)["revision"] > before, "the server has the rule", 30)
            client.publish("road", {"speed": 60}).wait(30)
            heard = client.next_notification(30)
            assert heard is not None
            assert json.loads(heard.payload)["alert"] == "speeding"
        server.stop()
    with serving(data) as again:
        assert run("processors", "show", "--data", data, "--json").json == {"processors": wanted}
        again.stop()
    with serving(data, "--processor", "forward"):
        assert run("processors", "show", "--data", data, "--json").json == {"processors": []}


def test_what_options_leave_out_stays_as_at_the_last_start(tmp_path: Path) -> None:
    data = tmp_path / "broker"
    names = ["--host", "localhost", "--public-host", "broker.example", "--id", "e1"]
    with serving(data, *PORTS, *names) as server:
        assert server.said["address"].startswith("broker.example:")
        server.stop()
    with serving(data) as again:
        assert again.said | {"pid": 0} == server.said | {"pid": 0}
        assert ask(f"{again.said['http']}/status")["server"] == "e1"


def test_status_shows_a_standalone_server(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "broker"
    with serving(data, *PORTS) as server:
        for words in (["--data", data], ["--manager", server.said["http"]]):
            shown = run("status", *words, "--json").json
            assert (shown["server"], shown["role"], shown["sessions"]) == (
                "standalone",
                "standalone",
                0,
            )
            assert "losses: nothing" in run("status", *words).out


def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    program = Path(sys.executable).parent / "nearcast"
    words = [str(program), "serve", "standalone", "--data", str(tmp_path / "broker"), *PORTS]
    with subprocess.Popen(
        [*words, "--parent-fd", str(read_end)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=[read_end],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"clients: 127.0.0.1:")
        os.close(write_end)
        assert process.wait(60) == 0
    os.close(read_end)


def _the_error(answer: Answer) -> str:
    assert answer.code == 2
    assert answer.out == ""
    (line,) = answer.err.splitlines()
    return line


def test_a_second_server_on_the_same_folder_is_refused(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "broker"
    with serving(data, *PORTS):
        said = _the_error(run("serve", "standalone", "--data", data, *PORTS))
    assert said.startswith(f"error: {data}: another server uses this folder")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--processor-for", "a#=echo"), "'+' and '#' stand for whole levels"),
        (("--processor-for", "echo"), "'echo' is not PATTERN=PROCESSOR"),
        (("--processor-for", "a=speeding{1}"), "'{1}' is not a JSON object"),
        (("--processor-for", "a=speeding"), "limit_kmh"),
        (("--processor-for", "a=nonsense"), "there is no processor 'nonsense'"),
        (("--processor-for", "a=echo", "--processor-for", "a=forward"), "has two processors"),
        (("--processor-options", "[]"), "is not a JSON object"),
        (("--host", "nowhere.invalid"), "nowhere.invalid"),
    ],
)
def test_a_wrong_option_is_one_clear_error(
    run: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    answer = run("serve", "standalone", "--data", tmp_path / "broker", *PORTS, *words)
    assert said in _the_error(answer)


def test_a_port_in_use_is_one_clear_error(run: Run, tmp_path: Path) -> None:
    with serving(tmp_path / "one", *PORTS) as server:
        ports = ["--port", "0", "--http-port", server.http_port]
        said = _the_error(run("serve", "standalone", "--data", tmp_path / "two", *ports))
        assert f"HTTP port {server.http_port}" in said


def test_files_that_cannot_be_used_are_named(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "broker"
    enrol(run, data, "car")
    register = (data / "register.db").read_bytes()
    (data / "register.db").write_bytes(b"nonsense " * 100)
    said = _the_error(run("serve", "standalone", "--data", data, *PORTS))
    assert f"{data / 'register.db'}: no register of credentials" in said
    (data / "register.db").write_bytes(register)
    (data / "processors.json").write_text('[{"pattern": 1}]')
    said = _the_error(run("serve", "standalone", "--data", data, *PORTS))
    assert said.startswith(f"error: {data / 'processors.json'}: ")
    (data / "standalone.json").write_text("{")
    said = _the_error(run("serve", "standalone", "--data", data, *PORTS))
    assert said.startswith(f"error: {data / 'standalone.json'}: ")
    (tmp_path / "file").write_text("")
    said = _the_error(run("serve", "standalone", "--data", tmp_path / "file", *PORTS))
    assert "cannot be written" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "broker", "a=nonsense"), "there is no processor 'nonsense'"),
        (("--data", "broker", "a=echo", "a=echo"), "has two processors"),
        (("--data", "broker", "--file", "rules"), "error: rules: "),
        (("--data", "nowhere", "a=echo"), "error: nowhere/standalone.json: "),
    ],
)
def test_wrong_processors_change_nothing(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    enrol(run, tmp_path / "broker", "car")
    Path("rules").write_text('[{"pattern": "a", "procesor": "echo"}]')
    assert said in _the_error(run("processors", "set", *words))
    assert run("processors", "set", "--data", "broker", "--site", "city").code == 2
    assert not Path("broker", "processors.json").exists()
    assert not Path("nowhere").exists()


def test_an_enrolment_that_cannot_be_made_leaves_no_client(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "broker"
    words = ["--data", data, "--out", tmp_path / "car.json"]
    said = _the_error(run("client", "enrol", "c" * 256, *words))
    assert "a client's id has 1 to 255 bytes" in said
    said = _the_error(run("client", "enrol", "car", *words, "--x-km", "nan", "--y-km", "1"))
    assert "x_km: must be a finite number" in said
    for more in ([], ["car", "--id", "car"], ["car", "--site", "city"]):
        assert run("client", "enrol", *more, *words).code == 2
    assert not (tmp_path / "car.json").exists()


def test_a_server_that_does_not_run_is_told(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "broker"
    said = _the_error(run("status", "--data", data))
    assert said.endswith(f"`nearcast serve standalone --data {data}` makes it")
    enrol(run, data, "car")
    place = json.loads((data / "standalone.json").read_text())
    place["http_port"] = closed_port()
    (data / "standalone.json").write_text(json.dumps(place))
    assert f":{place['http_port']}/status does not answer" in _the_error(
        run("status", "--data", data)
    )


def test_a_damaged_list_of_revocations_does_not_stop_a_running_server(
    run: Run, tmp_path: Path
) -> None:
    data = tmp_path / "broker"
    with serving(data, *PORTS) as server:
        car = enrol(run, data, "car")
        with SyncClient.connect(car, timeout_s=30) as client:
            revocations = data / "revocations.msgpack"
            revocations.write_text("{")
            client.echo()
            revocations.unlink()
            sign = enrol(run, data, "sign")
            with SyncClient.connect(sign, timeout_s=30) as other:
                other.echo()
            until(lambda: ask(f"{server.said['http']}/status")["sessions"] == 1, "one is left")


NOTES = f"""name = "notes"
sources = ["notes"]

[components.note]
processor = "{RECORDING}"
inputs = ["notes"]
output = "noted"
mapping = {{ field = "key" }}
"""


def _note(client: SyncClient, number: int) -> None:
    body = {"key": "k", "publisher": "car", "number": number}
    client.publish("notes", json.dumps(body)).wait(START_S)


@pytest.mark.slow
def test_a_flow_runs_and_goes_on_after_a_crash(run: Run, tmp_path: Path) -> None:
    data, file = tmp_path / "broker", tmp_path / "notes.toml"
    file.write_text(NOTES)
    heard: list[int] = []
    with serving(data, *PORTS) as server:
        answer = run("flow", "run", file, "--data", data, "--json")
        said = json.loads(answer.out)
        assert said == {"number": 1, "begins_at": {"note": "standalone"}, "late": []}
        car, sign = enrol(run, data, "car"), enrol(run, data, "sign")
        with SyncClient.connect(sign, timeout_s=START_S) as hearer:
            hearer.subscribe("noted")
            with SyncClient.connect(car, timeout_s=START_S) as client:
                for number in range(5):
                    _note(client, number)
            server.kill()  # some of them may be in an outbox only
            with serving(data) as again:
                with SyncClient.connect(car, timeout_s=START_S) as client:
                    _note(client, 5)
                while len(heard) < 6:
                    one = hearer.next_notification(timeout_s=START_S)
                    assert one is not None, heard
                    heard.append(json.loads(one.payload)["number"])
                assert heard == [0, 1, 2, 3, 4, 5]
                (flow,) = json.loads(run("flow", "show", "--data", data, "--json").out)["flows"]
                (place,) = flow["components"]["note"]["places"]
                assert (flow["number"], place["server"]) == (1, "standalone")
                words = ("notes", "note", "--from", "standalone", "--to", "x", "--data", data)
                refused = run("flow", "move", *words)
                assert (refused.code, "nowhere to move" in refused.err) == (2, True)
                assert run("flow", "stop", "notes", "--data", data).code == 0
                until(lambda: not ask(f"{again.said['http']}/status")["flows"], "it has ended")
    assert json.loads(run("flow", "run", file, "--data", data, "--json").out)["number"] == 2


def test_bad_flows_of_a_standalone_server_are_told(run: Run, tmp_path: Path) -> None:
    data, file = tmp_path / "broker", tmp_path / "notes.toml"
    file.write_text(NOTES)
    missing = run("flow", "run", file, "--data", data)
    assert (missing.code, "serve standalone" in missing.err) == (2, True)
    assert not data.exists()
    enrol(run, data, "car")  # now it is a folder of a server, which never ran
    for words, mistake in (
        (["run", file, "--place", "note=elsewhere"], "there is no server 'elsewhere'"),
        (["run", file, "--site", tmp_path], "either --data"),
        (["stop", "notes"], "no flow 'notes' runs here"),
    ):
        answer = run("flow", *words, "--data", data)
        assert (answer.code, mistake in answer.err) == (2, True), answer
    file.write_text(NOTES.replace(RECORDING, "no_such:Thing"))
    assert "no_such" in run("flow", "run", file, "--data", data).err
    assert not (data / "flows.json").exists()
    (data / "flows.json").write_text('{"orders": 5}')
    file.write_text(NOTES)
    for words in (["flow", "run", file], ["flow", "show"], ["serve", "standalone"]):
        answer = run(*words, "--data", data)
        assert (answer.code, "flows.json" in answer.err) == (2, True), answer
    assert (data / "flows.json").read_text() == '{"orders": 5}'


def test_programs_use_the_session_of_a_client_endpoint(run: Run, tmp_path: Path) -> None:
    data, program = tmp_path / "broker", Path(sys.executable).parent / "nearcast"
    with serving(data, *PORTS, "--origin", "11.57,48.13"):
        car, sign = enrol(run, data, "car"), enrol(run, data, "sign")
        command: list[str | Path] = [program, "client", "endpoint", "--credentials", car]
        command += ["--degrees", "--json"]
        with (
            SyncClient.connect(sign, timeout_s=30) as listener,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process,
        ):
            try:
                listener.subscribe("road")
                assert process.stdout is not None
                said = json.loads(process.stdout.readline())
                token_file = Path(said["token_file"])
                assert token_file == tmp_path / "car.token"
                assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
                token = token_file.read_text().strip()
                place = {"lon": 11.57, "lat": 48.13}
                assert ask(f"{said['url']}/report", place, token) == {"reported": True}
                line = {"topic": "road", "payload": "ice"}
                answer = ask(f"{said['url']}/publish", line, token)
                assert answer["line"] == 1
                assert "error" not in answer
                heard = listener.next_notification(30)
                assert heard is not None
                assert (heard.text, heard.publisher) == ("ice", "car")
                assert ask(f"{said['url']}/status", token=token)["client"] == "car"
                process.send_signal(signal.SIGINT)
                _, complaints = process.communicate(timeout=60)
            finally:
                process.kill()
        assert (process.returncode, complaints) == (0, "")
        assert not token_file.exists()
