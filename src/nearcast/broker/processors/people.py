"""Looking for people in camera frames: where they are, what they look like, who, how many."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from math import dist
from typing import Any

from nearcast.broker.notifications import Notification
from nearcast.broker.payloads import read_number, read_object, write_object
from nearcast.broker.processors.frames import (
    CameraFrame,
    Region,
    bright_regions,
    read_frame,
    write_frame,
)
from nearcast.broker.topic_spool import SpoolView
from nearcast.errors import ConfigError
from nearcast.wire.publication import Publication

__all__ = ["PersonCount", "PersonFeatures", "PersonMatch", "PersonRegion"]

_GRID = 4
"""A person's look is the mean grey of 4 x 4 parts of the box."""


class PersonRegion:
    """Finds upright regions that stand out of a frame; tells the pixels of each.

    Parameters
    ----------
    above
        How much brighter than the frame's middle grey a person is.
    least_pixels
        Smaller regions are noise.
    """

    def __init__(self, above: int = 60, least_pixels: int = 12) -> None:
        if not 1 <= above <= 255 or least_pixels < 1:
            raise ConfigError("person-region needs 1 <= above <= 255 and least_pixels >= 1")
        self._above, self._least_pixels = above, least_pixels
        self.malformed = 0
        """Messages without a frame."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return a notification for each person in the frames of the batch."""
        for message in batch:
            frame = read_frame(message.payload)
            if frame is None:
                self.malformed += 1
                continue
            for box in bright_regions(frame, self._above, self._least_pixels):
                if box.bottom - box.top > box.right - box.left:
                    yield Notification(_cut(frame, box), cause=message)


class PersonFeatures:
    """Describes a region by the mean grey of its parts, between 0 and 1."""

    def __init__(self) -> None:
        self.malformed = 0
        """Messages without a region."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return the look of each region of the batch."""
        for message in batch:
            frame = read_frame(message.payload)
            if frame is None:
                self.malformed += 1
            else:
                look = write_object(camera=frame.camera, look=_look(frame))
                yield Notification(look, cause=message)


class PersonMatch:
    """Recognises people: alerts when a look comes again, and remembers the ones that are new.

    Parameters
    ----------
    tolerance
        Looks at most this far apart are of one person.
    remembered
        People for each camera; the one longest not seen is forgotten first.
    """

    def __init__(self, tolerance: float = 0.25, remembered: int = 100) -> None:
        if not tolerance > 0 or remembered < 1:
            raise ConfigError("person-match needs tolerance > 0 and remembered >= 1")
        self._tolerance, self._remembered = tolerance, remembered
        self._known: dict[str, list[tuple[int, list[float]]]] = {}
        self._newest: dict[str, int] = {}
        self.malformed = 0
        """Messages without a look."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return an alert for each person of the batch that was seen before."""
        for message in batch:
            found = read_object(message.payload) or {}
            camera, look = found.get("camera"), _read_look(found.get("look"))
            if not isinstance(camera, str) or look is None:
                self.malformed += 1
                continue
            person = self._recognise(camera, look)
            if person is not None:
                alert = write_object(alert="seen again", camera=camera, person=person)
                yield Notification(alert, cause=message)

    def state(self) -> bytes:
        """Return the people known."""
        return json.dumps([self._known, self._newest]).encode()

    def restore(self, state: bytes) -> None:
        """Know these people."""
        known, self._newest = json.loads(state)
        self._known = {
            camera: [(person, look) for person, look in people] for camera, people in known.items()
        }

    def merge(self, state: bytes) -> None:
        """Know another one's people too; of a camera that both have, its own are kept newest."""
        known, newest = self._known, self._newest
        self.restore(state)
        for camera, people in known.items():
            others = self._known.get(camera, [])
            first = self._newest.get(camera, 0)  # people of both have numbers of their own
            joined = others + [(first + person, look) for person, look in people]
            self._known[camera] = joined[-self._remembered :]
            self._newest[camera] = first + newest.get(camera, 0)

    def split(self, goes: Callable[[str], bool]) -> bytes:
        """Return the people of the cameras that go, and forget them."""
        cameras = [camera for camera in self._known if goes(camera)]
        known = {camera: self._known.pop(camera) for camera in cameras}
        newest = {camera: self._newest.pop(camera, 0) for camera in cameras}
        return json.dumps([known, newest]).encode()

    def _recognise(self, camera: str, look: list[float]) -> int | None:
        known = self._known.setdefault(camera, [])
        best = min(range(len(known)), key=lambda at: dist(known[at][1], look), default=None)
        if best is not None and dist(known[best][1], look) <= self._tolerance:
            person = known.pop(best)[0]
            known.append((person, look))
            return person
        self._newest[camera] = self._newest.get(camera, 0) + 1
        known.append((self._newest[camera], look))
        del known[: -self._remembered]
        return None


class PersonCount:
    """Counts people for each camera; tells once in every N.

    Parameters
    ----------
    every
        People between two notifications of a camera.
    """

    def __init__(self, every: int = 10) -> None:
        if every < 1:
            raise ConfigError("person-count needs every >= 1")
        self._every = every
        self._counts: dict[str, int] = {}
        self.malformed = 0
        """Messages without a camera."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return the count of each camera that has come to a round number."""
        for message in batch:
            camera = (read_object(message.payload) or {}).get("camera")
            if not isinstance(camera, str):
                self.malformed += 1
                continue
            count = self._counts[camera] = self._counts.get(camera, 0) + 1
            if count % self._every == 0:
                yield Notification(write_object(camera=camera, people=count), cause=message)

    def state(self) -> bytes:
        """Return the counts."""
        return json.dumps(self._counts).encode()

    def restore(self, state: bytes) -> None:
        """Go on from these counts."""
        self._counts = json.loads(state)

    def merge(self, state: bytes) -> None:
        """Add another one's counts."""
        for camera, count in json.loads(state).items():
            self._counts[camera] = self._counts.get(camera, 0) + count

    def split(self, goes: Callable[[str], bool]) -> bytes:
        """Return the counts of the cameras that go, and forget them."""
        cameras = [camera for camera in self._counts if goes(camera)]
        return json.dumps({camera: self._counts.pop(camera) for camera in cameras}).encode()


def _cut(frame: CameraFrame, box: Region) -> bytes:
    rows = range(box.top, box.bottom + 1)
    pixels = b"".join(
        frame.pixels[row * frame.width + box.left : row * frame.width + box.right + 1]
        for row in rows
    )
    return write_frame(CameraFrame(frame.camera, box.right - box.left + 1, pixels))


def _look(frame: CameraFrame) -> list[float]:
    sums, counts = [0] * (_GRID * _GRID), [0] * (_GRID * _GRID)
    for at, grey in enumerate(frame.pixels):
        row, column = divmod(at, frame.width)
        part = row * _GRID // frame.height * _GRID + column * _GRID // frame.width
        sums[part] += grey
        counts[part] += 1
    return [
        round(grey / count / 255, 4) if count else 0.0
        for grey, count in zip(sums, counts, strict=True)
    ]


def _read_look(value: Any) -> list[float] | None:
    if not isinstance(value, list) or len(value) != _GRID * _GRID:
        return None
    numbers = [read_number(one) for one in value]
    return None if None in numbers else [one for one in numbers if one is not None]
