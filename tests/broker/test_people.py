"""The processors that look for people, on synthetic frames, against another labelling."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest
from msgspec import structs
from scipy import ndimage

from broker.making import message
from nearcast.broker.notifications import Notification
from nearcast.broker.processor import Processor
from nearcast.broker.processors.frames import CameraFrame, bright_regions, read_frame, write_frame
from nearcast.broker.processors.people import (
    PersonCount,
    PersonFeatures,
    PersonMatch,
    PersonRegion,
)
from nearcast.broker.topic_spool import TopicSpool
from nearcast.errors import ConfigError
from nearcast.wire.publication import Publication

WIDTH, HEIGHT = 32, 24


def frame_with(
    people: list[tuple[int, int, int]], rng: Random, camera: str = "north"
) -> CameraFrame:
    """Noise with people of 4 x 8 pixels at (column, row), who differ in their upper part."""
    pixels = bytearray(rng.randrange(20, 40) for _ in range(WIDTH * HEIGHT))
    for column, row, upper in people:
        for y in range(row, row + 8):
            for x in range(column, column + 4):
                pixels[y * WIDTH + x] = upper if y < row + 4 else 250
    return CameraFrame(camera, WIDTH, bytes(pixels))


def run(processor: Processor, payloads: list[bytes]) -> list[Notification]:
    spool = TopicSpool(1000)
    batch: list[Publication] = []
    for sequence, payload in enumerate(payloads, 1):
        one = message(sequence=sequence)
        one = structs.replace(one, payload=payload)
        spool.append(one)
        batch.append(one)
    return list(processor.process(batch, spool.view()))


@pytest.mark.parametrize("seed", range(40))
def test_regions_are_those_of_another_labelling(seed: int) -> None:
    rng = Random(seed)
    width, height = rng.randint(1, 40), rng.randint(1, 30)
    share = rng.random() * 0.45
    pixels = bytes(200 if rng.random() < share else 10 for _ in range(width * height))
    grey = np.frombuffer(pixels, np.uint8).reshape(height, width)
    labels, _ = ndimage.label(grey > np.sort(grey, axis=None)[grey.size // 2] + 60.0)
    expected = sorted(
        (columns.start, rows.start, columns.stop - 1, rows.stop - 1, int((labels == at).sum()))
        for at, (rows, columns) in enumerate(ndimage.find_objects(labels), 1)
        if (labels == at).sum() >= 3
    )
    found = bright_regions(CameraFrame("c", width, pixels), 60, 3)
    assert sorted((r.left, r.top, r.right, r.bottom, r.count) for r in found) == expected


def test_people_are_found_described_recognised_and_counted() -> None:
    rng = Random(1)
    frames = [
        frame_with([(2, 3, 110), (14, 9, 180)], rng),
        frame_with([(20, 2, 110)], rng),
        frame_with([(5, 5, 110)], rng, camera="south"),
    ]
    regions = run(PersonRegion(), [write_frame(one) for one in frames])
    assert [(read_frame(one.payload) or frames[0]).width for one in regions] == [4, 4, 4, 4]
    looks = run(PersonFeatures(), [one.payload for one in regions])
    first = json.loads(looks[0].payload)
    assert first["look"] == [round(110 / 255, 4)] * 8 + [round(250 / 255, 4)] * 8
    alerts = run(PersonMatch(), [one.payload for one in looks])
    assert [json.loads(one.payload) for one in alerts] == [
        {"alert": "seen again", "camera": "north", "person": 1}
    ]
    counts = run(PersonCount(every=3), [one.payload for one in regions])
    assert [json.loads(one.payload) for one in counts] == [{"camera": "north", "people": 3}]


def test_a_whole_frame_fits_into_a_message() -> None:
    assert len(write_frame(frame_with([], Random(2)))) <= 1_100


def test_state_goes_on_where_it_was() -> None:
    look = json.dumps({"camera": "c", "look": [0.5] * 16}).encode()
    first, second = PersonMatch(), PersonMatch()
    assert run(first, [look]) == []
    second.restore(first.state())
    assert [json.loads(one.payload)["person"] for one in run(second, [look])] == [1]
    here, there = PersonCount(), PersonCount(every=4)
    run(here, [look] * 3)
    there.restore(here.state())
    there.merge(here.state())
    assert json.loads(there.state()) == {"c": 6}


def test_only_so_many_people_are_remembered() -> None:
    looks = [json.dumps({"camera": "c", "look": [at / 10] * 16}).encode() for at in range(4)]
    match = PersonMatch(tolerance=0.1, remembered=2)
    assert run(match, looks) == []
    again = run(match, [looks[3], looks[2], looks[0]])
    assert [json.loads(one.payload)["person"] for one in again] == [4, 3]


GARBAGE = [
    b"",
    b"[1]",
    b'{"camera": 1, "width": 4, "pixels": ""}',
    b'{"camera": "c", "width": 0, "pixels": "AAAA"}',
    b'{"camera": "c", "width": 2, "pixels": "AAAA"}',
    b'{"camera": "c", "width": true, "pixels": "AAAA"}',
    b'{"camera": "c", "width": 3, "pixels": "A"}',
    b'{"camera": "c", "width": 3, "pixels": "\\u00e9AAA"}',
    b'{"camera": "c", "look": [1, 2]}',
    b'{"camera": "c", "look": ["x"]}',
    b'{"camera": "c", "look": [NaN,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}',
]


@pytest.mark.parametrize("processor", [PersonRegion(), PersonFeatures(), PersonMatch()])
def test_what_cannot_be_used_is_counted(
    processor: PersonRegion | PersonFeatures | PersonMatch,
) -> None:
    assert run(processor, GARBAGE) == []
    assert processor.malformed == len(GARBAGE)


def test_options_that_make_no_sense_are_refused() -> None:
    for make in (
        lambda: PersonRegion(above=0),
        lambda: PersonRegion(least_pixels=0),
        lambda: PersonMatch(tolerance=0),
        lambda: PersonMatch(remembered=0),
        lambda: PersonCount(every=0),
    ):
        with pytest.raises(ConfigError):
            make()


@pytest.mark.parametrize("kind", [PersonCount, PersonMatch])
def test_a_state_that_is_split_and_merged_is_the_same(
    kind: type[PersonCount] | type[PersonMatch],
) -> None:
    processor, other = kind(), kind()
    look = [0.5] * 16
    for camera in ("north", "north", "south"):
        run(processor, [json.dumps({"camera": camera, "look": look}).encode()])
    before = json.loads(processor.state())
    other.merge(processor.split(lambda camera: camera == "south"))
    assert b"south" not in processor.state()
    assert b"north" not in other.state()
    processor.merge(other.state())
    assert json.loads(processor.state()) == before
