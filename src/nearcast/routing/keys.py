"""Keys of the overlay: (topic, net, flag, index, unique id), in that order."""

from __future__ import annotations

from typing import NamedTuple

from nearcast.errors import ConfigError
from nearcast.routing.chance import Chance

__all__ = [
    "CLOUD",
    "INDEX_END",
    "PUBLISHER",
    "SUBSCRIBER",
    "UNIQUE_MAX",
    "Key",
    "NetPath",
    "check_range",
    "fallback_target",
    "fresh_unique_id",
    "net_path",
    "publisher_key",
    "subscriber_key",
    "target_of",
    "unique_id_above",
]

NetPath = tuple[str, ...]
"""A network by its path, such as ("jp", "jose", "yrp"); a prefix comes before what it begins."""
CLOUD: NetPath = ()
"""The least path: keys of components where they were started, the owners of last resort."""
PUBLISHER = 0
SUBSCRIBER = 1
INDEX_END = 1 << 62
"""Indexes are whole numbers from 0 up to here, so split points and ends are exact."""
UNIQUE_MAX = (1 << 63) - 1
"""Only targets have it: no key lies behind its own target."""
_FRESH_BITS, _STEP_BITS = 62, 31
"""Fresh ids leave 2^31 steps above them, each of which sets apart one reconfiguration."""


class Key(NamedTuple):
    """A key; comparing two compares their elements in turn, so the order is total.

    Deviation: the paper writes a publisher's target once with the flag before the net. Its other
    keys, and its claim that a net's publishers and subscribers are adjacent, need the net first.
    """

    topic: str
    net: NetPath
    flag: int
    index: int  # type: ignore[assignment]  # the paper's word; no key needs tuple.index
    unique_id: int


def net_path(text: str) -> NetPath:
    """Return the path that a text with dots names; the empty text is the cloud.

    Raises
    ------
    ConfigError
        When a part of it is empty.
    """
    path = tuple(text.split(".")) if text else CLOUD
    if not all(path):
        raise ConfigError(f"net {text!r}: a part between dots is empty")
    return path


def check_range(low: int, high: int) -> None:
    """Refuse what is not a range of indexes.

    Raises
    ------
    ConfigError
        When it is empty or reaches beyond the indexes.
    """
    if not 0 <= low < high <= INDEX_END:
        raise ConfigError(f"range [{low}, {high}) is not within [0, {INDEX_END}), or is empty")


def publisher_key(topic: str, net: NetPath, unique_id: int) -> Key:
    """Return the key of a publisher, which lies left of all subscribers of its net."""
    return Key(topic, net, PUBLISHER, 0, unique_id)


def subscriber_key(topic: str, net: NetPath, low: int, unique_id: int) -> Key:
    """Return the key of a range's owner; where the range ends, the next subscriber's begins."""
    return Key(topic, net, SUBSCRIBER, low, unique_id)


def target_of(topic: str, net: NetPath, index: int) -> Key:
    """Return where a message is sent: the largest key up to this one should be its owner's."""
    return Key(topic, net, SUBSCRIBER, index, UNIQUE_MAX)


def fallback_target(topic: str, index: int) -> Key:
    """Return where a message is sent when its net has no owner for it."""
    return target_of(topic, CLOUD, index)


def fresh_unique_id(rng: Chance) -> int:
    """Return an id that no other key has."""
    return rng.getrandbits(_FRESH_BITS) + 1


def unique_id_above(unique_id: int, rng: Chance) -> int:
    """Return an id whose key takes over from one with the same index."""
    return min(unique_id + 1 + rng.getrandbits(_STEP_BITS), UNIQUE_MAX - 1)
