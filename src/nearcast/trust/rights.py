"""What a client may do: topics that it may publish and subscribe to, and how much."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from nearcast.errors import TrustError
from nearcast.trust.topic_pattern import check_pattern, matches

__all__ = ["EVERYTHING", "NOTHING", "Action", "Rights", "may_use", "refusal", "within"]

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
    classes: Annotated[tuple[Annotated[str, Meta(max_length=31)], ...], Meta(max_length=16)] = ()
    """Message classes that it may use besides those that are not urgent; ``*``: all."""

    def __post_init__(self) -> None:
        for pattern in (*self.publish, *self.subscribe):
            check_pattern(pattern)


NOTHING = Rights()
EVERYTHING = Rights(("#",), ("#",), classes=("*",))


def within(asked: Rights, granted: Rights) -> Rights:
    """Return rights that were asked for, with the limits that are granted where none was asked.

    Raises
    ------
    TrustError
        When more is asked than is granted.
    """
    wanted = {"publish": asked.publish, "subscribe": asked.subscribe}
    for action in ("publish", "subscribe"):
        for pattern in wanted[action]:
            reason = refusal(granted, action, pattern)
            if reason is not None:
                raise TrustError(f"{reason}: an enrolment token does not grant it")
    for name in asked.classes:
        if not may_use(granted, name):
            raise TrustError(
                f"no right to the class {name!r}: an enrolment token does not grant it"
            )
    limits = {}
    for name in ("messages_per_s", "payload_bytes", "topics"):
        value, most = getattr(asked, name), getattr(granted, name)
        if value and not most:  # it might be above what servers allow everybody
            raise TrustError(f"{name} {value:g}: an enrolment token does not set it")
        if not 0 <= value <= most:
            raise TrustError(f"{name} {value:g}: an enrolment token grants {most:g}")
        limits[name] = value or most
    return Rights(asked.publish, asked.subscribe, **limits, classes=asked.classes)


def may_use(rights: Rights, message_class: str) -> bool:
    """Tell whether a client may use a class that is urgent."""
    return message_class in rights.classes or "*" in rights.classes


def refusal(rights: Rights, action: Action, topic: str) -> str | None:
    """Return why a client may not do something with a topic; None when it may.

    Asked once per client and topic, by `authorise` of the server.
    """
    allowed = rights.publish if action == "publish" else rights.subscribe
    if any(matches(pattern, topic) for pattern in allowed):
        return None
    return f"no right to {action} {topic!r}"
