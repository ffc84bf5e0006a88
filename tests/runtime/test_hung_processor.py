"""A processor that hangs a server's loop: the server ends, and goes on without it in its loop."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cli.conftest import Run, run  # noqa: F401
from cli.test_standalone import PORTS, enrol, serving
from nearcast.links.http_client import ask
from nearcast.runtime.watchdog import HungProcessor, read_hung
from nearcast.sdk import NotAcknowledgedError, SyncClient
from small_site.making import metrics_of

STUBBORN = '''
import os
from nearcast.broker.notifications import NamedClients, Notification

class Stubborn:
    """Tells in which process it runs; hangs if a message orders it."""
    def process(self, batch, spool):
        for message in batch:
            while message.payload == b"hang":
                pass
            yield Notification(str(os.getpid()).encode(), NamedClients((message.publisher,)))
'''
NAME = "stubborn:Stubborn"


def where_it_runs(car: Path, topic: str) -> int:
    """Return the process in which the topic's processor runs."""
    with SyncClient.connect(car, timeout_s=30) as client:
        client.subscribe(topic)
        client.publish(topic, "where?").wait(30)
        heard = client.next_notification(30)
        assert heard is not None
        return int(heard.payload)


@pytest.mark.slow
def test_a_server_that_was_ended_goes_on_with_its_processor_outside(
    run: Run,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    data = tmp_path / "broker"
    words = (*PORTS, "--processor", NAME, "--inline-processor", NAME)
    with serving(data, *words) as server:
        car = enrol(run, data, "car")
        assert where_it_runs(car, "road") == server.said["pid"]
        assert ask(f"{server.said['http']}/status")["hung_processors"] == []
        client = SyncClient.connect(car, timeout_s=30)
        client.publish("road", "hang")
        assert server.process.wait(120) == -signal.SIGKILL
        with pytest.raises(NotAcknowledgedError):
            client.close(0.0)
        assert server.process.stderr is not None
        assert f"processor '{NAME}' of topic 'road' hangs" in server.process.stderr.read()
    assert read_hung(data) == {HungProcessor("road", NAME)}
    with serving(data, *words[len(PORTS) :]) as again:
        assert where_it_runs(car, "road") != again.said["pid"]
        assert where_it_runs(car, "street") != again.said["pid"]
        http = again.said["http"]
        assert ask(f"{http}/status")["hung_processors"] == [NAME]
        (warning,) = ask(f"{http}/health")["warnings"]
        assert NAME in warning
        assert metrics_of(again.http_port)["nearcast_processors_hung"][""] == 1
        again.stop()
