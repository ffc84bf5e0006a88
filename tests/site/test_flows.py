"""The shipped flow on the processes of a site: subscribers hear what the processors give by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from broker.making import message
from broker.test_people import frame_with
from nearcast.broker.processor import Processor
from nearcast.broker.processors.frames import write_frame
from nearcast.broker.processors.people import (
    PersonCount,
    PersonFeatures,
    PersonMatch,
    PersonRegion,
)
from nearcast.broker.topic_spool import TopicSpool
from nearcast.cli.main import nearcast
from nearcast.flow.example import PEOPLE
from nearcast.routing.keys import INDEX_END
from nearcast.runtime.config import FlowsConfig, ProcessorsConfig, ServerConfig
from nearcast.runtime.config_files import load_config, write_config
from nearcast.sdk import SyncClient
from nearcast.site.layout import SiteFolder
from nearcast.site.live_site import LiveSite, run_site
from nearcast.testing.recording_processor import RECORDING
from small_site.making import quick, until, write_small_scenario

pytestmark = pytest.mark.slow

TOPICS = ["camera/frames", "people/alerts", "people/counts", "notes", "noted"]
FRAMES = 12


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    """A cloud server and two edges, at each of which a camera is at home."""
    folder = tmp_path_factory.mktemp("flows")
    scenario = write_small_scenario(
        folder / "small", edges=2, clients=["north", "south", "guard"], topics=TOPICS
    )
    settings = replace(quick(scenario), processors=ProcessorsConfig(allowed=(RECORDING,)))
    with run_site(scenario, folder / "site", settings, prepare=_leave_parts) as site:
        site.enrol_clients()
        (site.site.folder / "people.toml").write_text(PEOPLE)
        yield site


def _leave_parts(site: SiteFolder) -> None:
    """Let no server move parts by itself: on a crowded machine each of them is overloaded."""
    never = FlowsConfig(overloaded=1e3, queue_age_s=1e6, idle_s=1e6)
    for place in site.servers[1:]:
        config = load_config(site.config_file(place.server))
        assert isinstance(config, ServerConfig)
        write_config(site.config_file(place.server), structs.replace(config, flows=never))


def _flow(live: LiveSite, *words: str) -> Any:
    done = CliRunner().invoke(nearcast, ["flow", *words, "--site", str(live.site.folder), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def _frames(camera: str, seed: int) -> list[bytes]:
    """Frames with two people each, of whom some come again; 20 rows fit into a datagram."""
    rng = Random(seed)
    looks = (120, 160, 200, 240)
    made = []
    for _ in range(FRAMES):
        people = [(2, 3, rng.choice(looks)), (18, 10, rng.choice(looks))]
        frame = frame_with(people, rng, camera)
        made.append(write_frame(replace(frame, pixels=frame.pixels[: 20 * frame.width])))
    return made


def _by_hand(processor: Processor, payloads: Sequence[bytes]) -> list[bytes]:
    spool = TopicSpool(1000)
    made = []
    for sequence, payload in enumerate(payloads, 1):
        one = structs.replace(message(sequence=sequence), payload=payload)
        spool.append(one)
        made += [found.payload for found in processor.process([one], spool.view())]
    return made


def _expected(frames: Sequence[bytes]) -> list[bytes]:
    regions = _by_hand(PersonRegion(), frames)
    alerts = _by_hand(PersonMatch(), _by_hand(PersonFeatures(), regions))
    return [*alerts, *_by_hand(PersonCount(), regions)]


def _places(live: LiveSite, component: str) -> dict[str, int]:
    """Return how many indexes of a component servers hold, as they last reported."""
    (flow,) = _flow(live, "show")["flows"]
    return {
        one["server"]: sum(part["high"] - part["low"] for part in one["parts"])
        for one in flow["components"][component]["places"]
        if one["parts"]
    }


def test_alerts_and_counts_reach_a_subscriber_while_parts_move_and_a_server_is_killed(
    live: LiveSite,
) -> None:
    number = _flow(live, "run", str(live.site.folder / "people.toml"))["number"]
    cloud = "cloud"
    until(lambda: _places(live, "count") == {cloud: INDEX_END}, "the flow runs", 60)
    frames = {camera: _frames(camera, seed) for seed, camera in enumerate(("north", "south"))}
    file = live.site.credentials_file
    with (
        SyncClient.connect(file("guard"), timeout_s=60) as guard,
        SyncClient.connect(file("north"), timeout_s=60) as north,
        SyncClient.connect(file("south"), timeout_s=60) as south,
    ):
        guard.subscribe("people/alerts")
        guard.subscribe("people/counts")
        for at, pair in enumerate(zip(frames["north"], frames["south"], strict=True)):
            for client, payload in zip((north, south), pair, strict=True):
                client.publish("camera/frames", payload).wait(60)
            if at == FRAMES // 3:
                words = ("people", "count", "--from", cloud, "--to", "e1", "--half")
                assert _flow(live, "move", *words)["moved"][0]["high"] == INDEX_END // 2
            if at == 2 * FRAMES // 3:
                live.processes.kill("e1")
                live.processes.start("e1")
        expected = sorted([*_expected(frames["north"]), *_expected(frames["south"])])
        heard: list[bytes] = []
        while len(heard) < len(expected):
            one = guard.next_notification(timeout_s=60.0)
            assert one is not None, f"{len(heard)} of {len(expected)} were heard"
            assert one.publisher.startswith("flow:people/")
            heard.append(one.payload)
        assert sorted(heard) == expected
    assert number > 0
    half = {cloud: INDEX_END // 2, "e1": INDEX_END // 2}
    until(lambda: _places(live, "count") == half, "the part has moved", 60)
    _flow(live, "stop", "people")
    assert _flow(live, "show") == {"flows": []}


def test_a_processor_that_hangs_or_dies_costs_its_message_and_not_the_server(
    live: LiveSite,
) -> None:
    file = live.site.folder / "notes.toml"
    file.write_text(
        f'name = "notes"\nsources = ["notes"]\n\n[components.note]\nprocessor = "{RECORDING}"\n'
        'inputs = ["notes"]\noutput = "noted"\nmapping = { field = "key" }\n'
    )
    _flow(live, "run", str(file))
    until(lambda: _places(live, "note") == {"cloud": INDEX_END}, "the flow runs", 60)
    pid = live.processes.pid("cloud")
    credentials = live.site.credentials_file
    with (
        SyncClient.connect(credentials("guard"), timeout_s=60) as guard,
        SyncClient.connect(credentials("north"), timeout_s=60) as north,
    ):
        guard.subscribe("noted")
        sent = []
        for number in range(60):
            body = {"key": f"k{number % 5}", "publisher": "north", "number": number}
            if number in (20, 35):
                body["order"] = "hang" if number == 20 else "die"
            else:
                sent.append(number)
            north.publish("notes", json.dumps(body).encode()).wait(60)
            if number == 10:
                words = ("notes", "note", "--from", "cloud", "--to", "e1", "--half")
                _flow(live, "move", *words)
        heard: list[int] = []
        while len(heard) < len(sent):
            one = guard.next_notification(timeout_s=60.0)
            assert one is not None, f"{len(heard)} of {len(sent)} were heard"
            assert one.topic == "noted"  # and nothing that the guard's last program has heard
            heard.append(json.loads(one.payload)["number"])
        assert sorted(heard) == sent
    assert live.processes.pid("cloud") == pid
    half = {"cloud": INDEX_END // 2, "e1": INDEX_END // 2}
    until(lambda: _places(live, "note") == half, "the part has moved", 60)

    def set_aside() -> int:
        places = _flow(live, "show")["flows"][0]["components"]["note"]["places"]
        return sum(one["set_aside"] for one in places)

    until(lambda: set_aside() == 2, "servers have told what was set aside", 60)
    _flow(live, "stop", "notes")


def test_a_wrong_place_or_flow_is_told(live: LiveSite, tmp_path: Path) -> None:
    site = ["--site", str(live.site.folder)]
    file = str(live.site.folder / "people.toml")
    for words, mistake in (
        (["run", file, "--place", "count=nowhere"], "there is no server 'nowhere'"),
        (["run", file, "--place", "count"], "give COMPONENT=SERVER"),
        (["stop", "nothing"], "no flow 'nothing' runs here"),
        (["move", "nothing", "x", "--from", "cloud", "--to", "e1"], "holds nothing"),
    ):
        done = CliRunner().invoke(nearcast, ["flow", *words, *site])
        assert done.exit_code != 0
        assert mistake in str(done.exception), done.output
