"""The names of segment files, and how far each segment is known to be durable.

A segment cannot tell by itself that its end is missing: a file that was cut short or zeroed from
some place on looks like one to which less was written. So a small file beside the segments says up
to where they were synced. It is written after a sync, now and then: what it says is true, and may
be less than the whole truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from zlib import crc32

from nearcast.errors import SpoolError

__all__ = [
    "DAMAGED_BYTES",
    "DAMAGED_FILE",
    "ENDS_BYTES",
    "ENDS_FILE",
    "SPARE",
    "SegmentName",
    "encode_end",
    "is_spare",
    "read_ends",
    "sort_files",
]

_PREFIX, _SUFFIX = "segment-", ".spool"
"""Either marks a segment, of every format that will ever be."""
_SEQUENCE_DIGITS = 12
ENDS_FILE = "ends"
DAMAGED_BYTES = 512
DAMAGED_FILE = "damaged"
"""There from the moment on when something is found missing until the server has heard of it. It
may die before, and a new segment begins with what is left and looks whole."""
SPARE = "spare-"
"""How the name of a file begins that holds nothing and waits to become a segment."""
_END = Struct("<QIQ")  # number and marker of a segment, bytes of it that are durable
_CHECKSUM = Struct("<I")
_SLOT_BYTES = 512
"""A sector: a torn write to one slot leaves the other alone."""
_SLOTS = 2
"""For the segment in use and the one before it."""
ENDS_BYTES = _SLOTS * _SLOT_BYTES


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """What the name of a segment file says: its place in the log and its marker."""

    sequence: int
    marker: int

    def __str__(self) -> str:
        return f"{_PREFIX}{self.sequence:0{_SEQUENCE_DIGITS}d}-{self.marker:08x}{_SUFFIX}"

    @classmethod
    def parse(cls, name: str) -> SegmentName | None:
        """Return what a name says, None when it is not a segment's."""
        sequence, _, marker = name.removeprefix(_PREFIX).removesuffix(_SUFFIX).partition("-")
        try:
            found = cls(int(sequence), int(marker, 16))
        except ValueError:
            return None
        return found if str(found) == name and found.marker < 1 << 32 else None


def is_spare(name: str) -> bool:
    """Tell whether a name is one that a spool gives to a file that waits to become a segment."""
    rest = name.removeprefix(SPARE)
    is_number = len(rest) == _SEQUENCE_DIGITS and rest.isascii() and rest.isdigit()
    return name.startswith(SPARE) and (is_number or SegmentName.parse(rest) is not None)


def sort_files(files: Iterable[str]) -> tuple[list[SegmentName], list[str]]:
    """Return the segments among the files of a folder, in order, and the files of others.

    Raises
    ------
    SpoolError
        When a file may be a segment of another format, or one whose name was changed: without it
        the spool would look whole and be less.
    """
    segments, foreign = [], []
    for name in files:
        segment = SegmentName.parse(name)
        if segment is not None:
            segments.append(segment)
        elif name in (ENDS_FILE, DAMAGED_FILE) or is_spare(name):
            continue
        elif name.startswith(_PREFIX) or name.endswith(_SUFFIX):
            raise SpoolError(
                f"{name!r} is no file of a spool that this nearcast knows: update nearcast, or"
                " move it away if something else put it there"
            )
        else:
            # a name may be of bytes that are no text
            foreign.append(name.encode(errors="backslashreplace").decode())
    return sorted(segments), sorted(foreign)


def encode_end(segment: SegmentName, end: int) -> tuple[int, bytes]:
    """Return where in the file of ends to write, and what: `end` bytes of a segment are durable."""
    content = _END.pack(segment.sequence, segment.marker, end)
    return segment.sequence % _SLOTS * _SLOT_BYTES, content + _CHECKSUM.pack(crc32(content))


def read_ends(data: bytes) -> dict[SegmentName, int]:
    """Return how many bytes of segments were durable, as far as the file of ends is readable."""
    ends = {}
    for start in range(0, len(data) - _END.size - _CHECKSUM.size + 1, _SLOT_BYTES):
        content = data[start : start + _END.size]
        (checksum,) = _CHECKSUM.unpack_from(data, start + _END.size)
        if crc32(content) == checksum:
            sequence, marker, end = _END.unpack(content)
            ends[SegmentName(sequence, marker)] = end
    return ends
