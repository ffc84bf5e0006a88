"""What a client may do: topics that it may publish and subscribe to, and how much."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from nearcast.trust.topic_pattern import check_pattern, matches

__all__ = ["EVERYTHING", "NOTHING", "Action", "Rights", "refusal"]

Action = Literal["publish", "subscribe"]

_MOST_PATTERNS = 16
_Patterns = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(max_length=_MOST_PATTERNS)
]


class Rights(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Rights of a client; without any it may do nothing. 0 means: as the server limits everybody."""

    publish: _Patterns = ()
    """Topic patterns."""
    subscribe: _Patterns = ()
    messages_per_s: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    """Publications, over all topics."""
    payload_bytes: Annotated[int, Meta(ge=0, le=65_507)] = 0
    """Most bytes of one publication."""
    topics: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """Topics that it may bring into being."""

    def __post_init__(self) -> None:
        for pattern in (*self.publish, *self.subscribe):
            check_pattern(pattern)


NOTHING = Rights()
EVERYTHING = Rights(("#",), ("#",))


def refusal(rights: Rights, action: Action, topic: str) -> str | None:
    """Return why a client may not do something with a topic; None when it may.

    Asked once per client and topic, by `authorise` of the server.
    """
    allowed = rights.publish if action == "publish" else rights.subscribe
    if any(matches(pattern, topic) for pattern in allowed):
        return None
    return f"no right to {action} {topic!r}"
