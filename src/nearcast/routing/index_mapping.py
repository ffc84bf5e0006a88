"""Index mappings: by chance, or by what a message is about."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from nearcast.routing.chance import Chance
from nearcast.routing.keys import INDEX_END, check_range

__all__ = [
    "ContentMapping",
    "IndexMapping",
    "MappedIndex",
    "ShuffleMapping",
    "content_index",
    "hashed_index",
]


@dataclass(frozen=True, slots=True)
class MappedIndex:
    """The index of a message."""

    index: int
    error: str = ""
    """Why the user's function was of no use; the index then comes from the whole message."""


class IndexMapping(Protocol):
    """Gives each message its index; devices and components never see it."""

    def index_of(self, body: bytes, rng: Chance) -> MappedIndex:
        """Return the index of a message; never raises, since a message must go somewhere."""


@dataclass(frozen=True, slots=True)
class ShuffleMapping:
    """Any index of a range, by chance: each component gets as much as its range is wide."""

    low: int = 0
    high: int = INDEX_END

    def __post_init__(self) -> None:
        check_range(self.low, self.high)

    def index_of(self, body: bytes, rng: Chance) -> MappedIndex:
        """Return a random index."""
        return MappedIndex(rng.randrange(self.low, self.high))


@dataclass(frozen=True, slots=True)
class ContentMapping:
    """The index of what a message is about: what has one content id is processed at one place."""

    content_id: Callable[[bytes], object]
    """A user's function from a message to a text, bytes or whole number, such as a user's id."""

    def index_of(self, body: bytes, rng: Chance) -> MappedIndex:
        """Return the index of the content id, or of the whole message if there is none."""
        try:
            found = self.content_id(body)
            index = content_index(found)  # of a class of the user's, maybe
        except (Exception, SystemExit) as reason:  # a user's code may raise anything
            return MappedIndex(hashed_index(body), f"content mapping raised {_said(reason)}")
        if index is not None:
            return MappedIndex(index)
        return MappedIndex(
            hashed_index(body),
            f"content mapping returned {type(found).__name__}, not a text, bytes or whole number",
        )


def _said(error: BaseException) -> str:
    try:
        return repr(error)
    except (Exception, SystemExit):  # its class is the user's too
        return type(error).__name__


def content_index(content_id: object) -> int | None:
    """Return the index of a content id; None when it is no text, bytes or whole number."""
    if type(content_id) is int:
        return hashed_index(b"i" + str(content_id).encode())
    if isinstance(content_id, str):
        return hashed_index(b"s" + content_id.encode("utf-8", "surrogatepass"))
    if isinstance(content_id, bytes):
        return hashed_index(b"b" + content_id)
    return None


def hashed_index(content: bytes) -> int:
    """Return an index that is the same on every machine."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big") % INDEX_END
