"""Users' code that misbehaves in a running site: the others do not notice."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from click.testing import CliRunner

from nearcast.cli.processors import processors
from nearcast.runtime.config import ProcessorsConfig
from nearcast.sdk import SyncClient
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.live_site import LiveSite, run_site
from small_site.making import (
    health,
    is_running,
    metrics_of,
    output_of,
    quick,
    until,
    write_small_scenario,
)

pytestmark = pytest.mark.slow

MOODY_RULE = ProcessorRule("#", "moody_processor:Moody")
MOODY = """
import os

from nearcast.broker.notifications import Notification


class Moody:
    def process(self, batch, spool):
        for message in batch:
            match message.payload:
                case b"raise":
                    raise RuntimeError("in a bad mood")
                case b"hang":
                    while True:
                        pass
                case b"exit":
                    os._exit(3)
                case b"print":
                    print("many words " * 1000)
            yield Notification(message.payload.upper(), cause=message)
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    """A site whose processor is a module of the user's, found by PYTHONPATH."""
    folder = tmp_path_factory.mktemp("moody")
    (folder / "moody_processor.py").write_text(MOODY)
    scenario = write_small_scenario(folder / "small", clients=["car", "sign"], topics=["a", "b"])
    limits = ProcessorsConfig(timeout_s=0.5, quarantine_s=0.5)
    options = replace(quick(scenario), processor_rules=(MOODY_RULE,), processors=limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        try:
            with run_site(scenario, folder / "site", options) as site:
                site.enrol_clients()
                yield site
        finally:
            sys.modules.pop("moody_processor", None)


def _heard(sign: SyncClient, wanted: bytes) -> None:
    """Wait for a notification; those of other messages may come before it."""
    while True:
        notification = sign.next_notification(timeout_s=30.0)
        assert notification is not None, f"nobody told of {wanted!r}"
        if notification.payload == wanted:
            return


def _processor_events(live: LiveSite) -> list[dict[str, str]]:
    lines = [one for one in output_of(live, "e1").splitlines() if one.startswith("{")]
    return [one for one in map(json.loads, lines) if one["event"] == "processor"]


@pytest.mark.parametrize(
    ("mood", "counter", "detail"),
    [
        ("raise", "failed", "in a bad mood"),
        ("hang", "killed", "took more than 0.5 s"),
        ("exit", "killed", ""),
    ],
)
def test_a_processor_that_misbehaves_in_one_topic_leaves_the_others_notified(
    live: LiveSite, mood: str, counter: str, detail: str
) -> None:
    pid, port = live.processes.pid("e1"), live.site.place("e1").http_port
    before = metrics_of(port).get(f"nearcast_processor_{counter}_total", {}).get("", 0)
    credentials = live.site.credentials_file
    with (
        SyncClient.connect(credentials("car"), timeout_s=60) as car,
        SyncClient.connect(credentials("sign"), timeout_s=60) as sign,
    ):
        for topic in ("a", "b"):
            sign.subscribe(topic)
        bad = car.publish("a", mood)
        for number in range(20):
            car.publish("b", f"{mood} {number}").wait(30)
        for number in range(20):
            _heard(sign, f"{mood} {number}".upper().encode())
        bad.wait(30)  # it is spooled all the same
        until(
            lambda: metrics_of(port)[f"nearcast_processor_{counter}_total"][""] > before,
            "the incident is counted",
        )
        incidents = [one for one in _processor_events(live) if one["what"] == counter]
        assert any(one["topic"] == "a" and detail in one["detail"] for one in incidents)
        # and the topic itself goes on with the next message, after a rest if it needs one
        until(lambda: _answers(car, sign), "topic a is processed again")
    assert health(live, "e1") == "ok"
    assert live.processes.pid("e1") == pid
    assert is_running(pid)


def _answers(car: SyncClient, sign: SyncClient) -> bool:
    car.publish("a", "once more").wait(30)
    while (one := sign.next_notification(timeout_s=0.3)) is not None:
        if one.payload == b"ONCE MORE":
            return True
    return False


def test_what_a_processor_prints_is_in_the_servers_output(live: LiveSite) -> None:
    credentials = live.site.credentials_file
    with (
        SyncClient.connect(credentials("car"), timeout_s=60) as car,
        SyncClient.connect(credentials("sign"), timeout_s=60) as sign,
    ):
        sign.subscribe("b")
        car.publish("b", "print").wait(30)
        _heard(sign, b"PRINT")
    until(lambda: "many words many words" in output_of(live, "e1"), "the print is in the output")
    assert "Traceback" not in output_of(live, "e1")


def test_a_topic_gets_another_processor_and_keeps_its_messages(live: LiveSite) -> None:
    credentials, port = live.site.credentials_file, live.site.place("e1").http_port
    with (
        SyncClient.connect(credentials("car"), timeout_s=60) as car,
        SyncClient.connect(credentials("sign"), timeout_s=60) as sign,
    ):
        sign.subscribe("b")
        car.publish("b", "before").wait(30)
        _heard(sign, b"BEFORE")
        kept = metrics_of(port)["nearcast_spool_messages"]["b"]
        words = ["--site", str(live.site.folder)]
        done = CliRunner().invoke(
            processors, ["set", *words, "b=forward", "#=moody_processor:Moody"]
        )
        assert done.exit_code == 0, done.output
        shown = CliRunner().invoke(processors, ["show", *words, "--json"]).output
        assert [one["pattern"] for one in json.loads(shown)["processors"]] == ["b", "#"]
        until(lambda: _echoes(car, sign, "after"), "the new processor is at work")
        assert metrics_of(port)["nearcast_spool_messages"]["b"] > kept
        wrong = CliRunner().invoke(processors, ["set", *words, "b=nonsense"])
        assert "processor 'nonsense' is not allowed here" in str(wrong.exception)


def _echoes(car: SyncClient, sign: SyncClient, text: str) -> bool:
    """Tell whether a message of topic b is forwarded as it is."""
    car.publish("b", text).wait(30)
    found = sign.next_notification(timeout_s=30)
    return found is not None and found.payload == text.encode()
