"""Camera frames in payloads: grey pixels, small enough for one message."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass

from nearcast.broker.payloads import read_object, write_object

__all__ = ["CameraFrame", "Region", "bright_regions", "read_frame", "write_frame"]

_LARGEST_SIDE = 255


@dataclass(frozen=True, slots=True)
class CameraFrame:
    """What a camera sees: rows of grey values, 0 to 255."""

    camera: str
    width: int
    pixels: bytes

    @property
    def height(self) -> int:
        """Rows."""
        return len(self.pixels) // self.width


@dataclass(frozen=True, slots=True)
class Region:
    """A box around pixels that hang together; right and bottom are the last ones inside."""

    left: int
    top: int
    right: int
    bottom: int
    count: int
    """Pixels that hang together in it."""


def write_frame(frame: CameraFrame) -> bytes:
    """Return the payload of a frame."""
    text = base64.b64encode(frame.pixels).decode()
    return write_object(camera=frame.camera, width=frame.width, pixels=text)


def read_frame(payload: bytes) -> CameraFrame | None:
    """Return the frame of a payload, None when it does not hold one."""
    found = read_object(payload)
    if found is None:
        return None
    camera, width, pixels = found.get("camera"), found.get("width"), found.get("pixels")
    if not isinstance(camera, str) or type(width) is not int or not isinstance(pixels, str):
        return None
    try:
        grey = base64.b64decode(pixels, validate=True)
    except (binascii.Error, ValueError):
        return None
    whole = 1 <= width <= _LARGEST_SIDE and grey and len(grey) % width == 0
    return CameraFrame(camera, width, grey) if whole else None


def bright_regions(frame: CameraFrame, above: int, least_pixels: int) -> Iterator[Region]:
    """Return regions of pixels that stand out of the frame's middle grey, from the top on."""
    limit = sorted(frame.pixels)[len(frame.pixels) // 2] + above
    width, bright = frame.width, {at for at, grey in enumerate(frame.pixels) if grey > limit}
    while bright:
        start = min(bright)
        bright.discard(start)
        together, edge = [start], [start]
        while edge:
            at = edge.pop()
            beside = [at - width, at + width]
            if at % width:
                beside.append(at - 1)
            if (at + 1) % width:
                beside.append(at + 1)
            fresh = bright.intersection(beside)
            bright -= fresh
            edge += fresh
            together += fresh
        if len(together) >= least_pixels:
            columns, rows = [at % width for at in together], [at // width for at in together]
            yield Region(min(columns), min(rows), max(columns), max(rows), len(together))
