"""Classes of messages: how urgent a message is, and by when it has to be with its subscribers.

A message names its class in its envelope. What the name means is the servers' configuration: the
publisher cannot make a class more urgent than they do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from nearcast.errors import WireError

__all__ = [
    "CONSUMER",
    "MESSAGE_CLASSES",
    "MessageClass",
    "check_class",
    "is_marked",
    "with_classes",
]

CONSUMER = "consumer"
"""The class that is as urgent as a message without any."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_CLASSES_LIMIT = 32


class MessageClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the servers do for messages of a class."""

    urgency: Annotated[int, Meta(ge=0, le=9)]
    """More urgent messages overtake others; 0: as urgent as a message without a class, and no
    right is needed to use it."""
    deadline_ms: Annotated[float, Meta(gt=0, le=86_400_000)]
    """From the publisher to its subscribers."""
    drops_late: bool = False
    """Whether a message is told to nobody when its deadline has passed since it was received."""
    per_s: Annotated[float, Meta(gt=0, le=1e6)] = 50.0
    """Messages of one client that overtake others; more of them wait like the rest."""


MESSAGE_CLASSES: Mapping[str, MessageClass] = {
    "emergency": MessageClass(3, 100.0, per_s=20.0),
    "control": MessageClass(2, 10.0, drops_late=True, per_s=100.0),
    "lane_change": MessageClass(1, 50.0, drops_late=True),
    CONSUMER: MessageClass(0, 1_000.0),
}
"""Those that every server has: of seed 003, where late steering is worth nothing and a late alarm
is better than none."""


def check_class(name: str) -> None:
    """Raise WireError when a text cannot be the name of a class."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise WireError(
            f"{name!r} is no message class: small letters, digits, - and _, at most 31,"
            " a letter first"
        )


def is_marked(name: str) -> bool:
    """Tell whether messages of a class travel in datagrams that are marked as urgent."""
    return name not in ("", CONSUMER)


def with_classes(own: Mapping[str, MessageClass]) -> dict[str, MessageClass]:
    """Return the shipped classes with some changed or added; ValueError names a bad one."""
    if len(own) > _CLASSES_LIMIT:
        raise ValueError(f"more than {_CLASSES_LIMIT} classes")
    for name in own:
        try:
            check_class(name)
        except WireError as error:
            raise ValueError(str(error)) from None
    return {**MESSAGE_CLASSES, **own}
