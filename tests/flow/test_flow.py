"""Flow files: the shipped one is right, every kind of mistake is named with its place."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from nearcast.broker.processors.frames import bright_regions, read_frame
from nearcast.cli.main import nearcast
from nearcast.errors import ConfigError
from nearcast.flow.camera import synthetic_frames
from nearcast.flow.check import check_flow, find_cycle
from nearcast.flow.example import PEOPLE
from nearcast.flow.flow import Component, Flow, read_flow
from shown_commands import in_help, in_pages, with_verb

ONE = """
name = "one"
sources = ["in"]
[components.a]
processor = "forward"
inputs = ["in"]
output = "out"
"""


def flow_of(tmp_path: Path, text: str) -> Flow:
    path = tmp_path / "flow.toml"
    path.write_text(text)
    return read_flow(path)


def test_the_shipped_flow_is_right(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, PEOPLE)
    assert check_flow(flow) == []
    assert flow.readers("people/regions") == ["describe", "count"]


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ('name = "one"', 'name = ""', "name: is empty"),
        ('name = "one"', 'name = "a b"', "name 'a b': names of flows and components have letters"),
        ('name = "one"', f'name = "{"x" * 81}"', "and '.', 80 at most"),
        ("components.a]", 'components."a@b"]', "name 'a@b': names of flows and components"),
        ('["in"]\n[', '["in", "in"]\n[', "sources: 'in' is there twice"),
        ('["in"]\n[', '["in", "other"]\n[', "sources: no component reads 'other'"),
        ('["in"]\n[', '["in", "out"]\n[', "sources: 'out' is the output of a component"),
        ('["in"]\n[', '["in", ""]\n[', "sources: a topic's name has 1 to 1024 bytes"),
        ('inputs = ["in"]', "inputs = []", "component 'a': inputs: there is none"),
        ('inputs = ["in"]', 'inputs = ["in", "in"]', "component 'a': inputs: 'in' is there twice"),
        ('inputs = ["in"]', 'inputs = ["in", "x"]', "inputs: 'x' is neither a source nor"),
        ('inputs = ["in"]', 'inputs = ["in", "x/#"]', "'x/#' is a pattern"),
        ('"out"', '"a/+"', "component 'a': output: 'a/+' is a pattern"),
        ('"out"', '"in"', "cycle: a -> in -> a"),
        ('"forward"', '"no-such"', "component 'a': processor: there is no processor 'no-such'"),
        ('"forward"', '"no_such_module:Class"', "'no_such_module:Class' cannot be loaded"),
        ('"forward"', '"speeding"', "component 'a': processor: processor 'speeding' cannot be"),
        ('"forward"', '"person-count"', "component 'a': mapping: processor 'person-count' keeps"),
        (
            '"forward"',
            '"person-count"\nmapping = "shuffle"',
            "component 'a': mapping: processor 'person-count' keeps a state",
        ),
        ('"out"', '"out"\nmapping = {field = "x", function = "math:sin"}', "either a field or a"),
        ('"forward"', '"forward"\noptions = { x = 1 }', "processor 'forward' cannot be made"),
        ('"out"', '"out"\nmapping = {}', "mapping: give either a field or a function"),
        ('"out"', '"out"\nmapping = {field = ""}', "mapping: the name is empty"),
        ('"out"', '"out"\nmapping = {function = "f"}', "'f' is not of the form module:name"),
        (
            '"out"',
            '"out"\nmapping = {function = "no_such_module:f"}',
            "mapping: function 'no_such_module:f' cannot be loaded: No module named",
        ),
        (
            '"out"',
            '"out"\nmapping = {function = "math:pi"}',
            "mapping: 'math:pi' is no function",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, mistake: str) -> None:
    assert old in ONE
    mistakes = check_flow(flow_of(tmp_path, ONE.replace(old, new)))
    assert any(mistake in one for one in mistakes), mistakes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "is not valid TOML"),
        ('name = "x"', "missing required field `sources`"),
        (ONE + 'colour = "red"', "unknown field `colour` - at `$.components[...]`"),
        (ONE.replace('["in"]\n[', '"in"\n['), "Expected `array`, got `str` - at `$.sources`"),
        (ONE + "mapping = 5", "mapping"),
        (ONE + "mapping = {field = 5}", "mapping"),
        (ONE + 'options = "fast"', "options"),
        (ONE + "[components.a]", "is not valid TOML"),
        (ONE.replace('"forward"', "5"), "Expected `str`, got `int` - at `$.components[...]"),
        (ONE + 'mapping = "random"', "mapping"),
    ],
)
def test_what_is_no_flow_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"flow\.toml") as raised:
        flow_of(tmp_path, text)
    assert message in str(raised.value)


def test_a_flow_without_components_or_of_strange_bytes_is_refused(tmp_path: Path) -> None:
    assert check_flow(Flow("x", (), {})) == ["components: there is none"]
    many = {f"c{at}": Component("forward", ("in",), f"out{at}") for at in range(101)}
    assert check_flow(Flow("x", ("in",), many)) == ["components: there are more than 100"]
    (tmp_path / "flow.toml").write_bytes(b"name = \xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read_flow(tmp_path / "flow.toml")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_flow(tmp_path / "none.toml")


def reachable(edges: Iterable[tuple[int, int]], count: int) -> list[list[bool]]:
    """Which component comes after which, by plain loops."""
    after = [[False] * count for _ in range(count)]
    for one, other in edges:
        after[one][other] = True
    for middle in range(count):
        for one in range(count):
            for other in range(count):
                after[one][other] |= after[one][middle] and after[middle][other]
    return after


@pytest.mark.parametrize("seed", range(200))
def test_cycles_are_found_exactly_when_there_is_one(seed: int) -> None:
    rng = Random(seed)
    count = rng.randint(1, 7)
    edges = {(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(0, count))}
    components = {
        f"c{at}": Component(
            "forward", ("in", *(f"t{one}" for one, other in sorted(edges) if other == at)), f"t{at}"
        )
        for at in range(count)
    }
    cycle = find_cycle(Flow("x", ("in",), components))
    after = reachable(edges, count)
    assert bool(cycle) == any(after[at][at] for at in range(count))
    if cycle:
        names, topics = cycle[::2], cycle[1::2]
        assert names[0] == names[-1]
        assert len(set(names)) == len(names) - 1
        for one, topic, other in zip(names[:-1], topics, names[1:], strict=True):
            assert components[one].output == topic
            assert topic in components[other].inputs


def test_the_command_tells_all_mistakes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "flow.toml"
    path.write_text(ONE.replace('"in"]\n[', '"in", "other"]\n[').replace("forward", "no-such"))
    done = CliRunner().invoke(nearcast, ["flow", "check", str(path), "--json"])
    assert done.exit_code == 2
    assert len(json.loads(done.stdout)["mistakes"]) == 2
    done = CliRunner().invoke(nearcast, ["flow", "check", str(path)])
    assert isinstance(done.exception, ConfigError)
    assert "2 mistakes" in str(done.exception)


def test_the_example_is_written_once_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "people.toml"
    assert CliRunner().invoke(nearcast, ["flow", "example", "--out", str(path)]).exit_code == 0
    done = CliRunner().invoke(nearcast, ["flow", "check", str(path)])
    assert done.exit_code == 0
    assert "equal camera" in done.stdout
    assert "kept, can be merged" in done.stdout
    again = CliRunner().invoke(nearcast, ["flow", "example", "--out", str(path)])
    assert isinstance(again.exception, ConfigError)
    assert path.read_text() == PEOPLE == CliRunner().invoke(nearcast, ["flow", "example"]).stdout


def test_the_camera_that_is_none_shows_people_whom_the_shipped_processors_find() -> None:
    frames = list(islice(synthetic_frames("north", Random(1)), 40))
    assert frames == list(islice(synthetic_frames("north", Random(1)), 40))
    found = [len(list(bright_regions(one, above=60, least_pixels=12))) for one in frames]
    assert set(found) == {0, 1, 2}
    done = CliRunner().invoke(nearcast, ["flow", "camera", "--count", "40"])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [read_frame(one["payload"].encode()) for one in lines] == frames
    assert max(len(one["payload"]) for one in lines) < 1100  # fits into a datagram
    assert {one["topic"] for one in lines} == {"camera/frames"}


def test_the_commands_of_pages_and_help_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = with_verb([*in_pages(), *in_help()["flow"]], "flow")
    assert len(lines) == 11  # those of a site: tests/site/test_pages.py
    enrolled = CliRunner().invoke(
        nearcast, ["client", "enrol", "car", "--data", "broker", "--out", "car.json"]
    )
    assert enrolled.exit_code == 0, enrolled.output
    for line in [one for one in lines if "--site" not in one and "|" not in one]:
        done = CliRunner().invoke(nearcast, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output


def test_a_shown_flow_tells_when_what_happened_and_what_could_not_be_mapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = {
        "server": "e1",
        "parts": [{"net": None, "low": 0, "high": 1 << 61}],
        "per_s": 2.0,
        "processed": 50,
        "queued": 0,
        "outgoing": 0,
        "under_way": [],
        "refusal": "",
        "mapping_errors": 1234,
    }
    component = {"inputs": ["in"], "processor": "forward", "output": "out", "places": [place]}
    event = {"at_s": 1_700_000_000.0, "server": "e1", "what": "c gives: half", "is_fault": False}
    flow = {"name": "f", "number": 3, "components": {"c": component}, "events": [event]}
    monkeypatch.setattr("nearcast.cli.flow_site._ask", lambda **_: [flow])
    monkeypatch.setenv("COLUMNS", "200")
    done = CliRunner().invoke(nearcast, ["flow", "show", "--manager", "http://manager"])
    assert done.exit_code == 0, done.output
    assert re.search(r"^  2023-11-1[45] \d\d:\d\d:20 e1: c gives: half$", done.output, re.MULTILINE)
    (row,) = [line for line in done.output.splitlines() if "0..50 %" in line]
    assert "1234" in row
