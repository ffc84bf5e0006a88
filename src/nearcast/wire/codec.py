"""Messages to frames and back: the only place that knows Protobuf."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError

from nearcast.errors import WireError
from nearcast.trust.topic_pattern import is_pattern
from nearcast.wire import group_messages, messages
from nearcast.wire.areas import is_place
from nearcast.wire.generated import nearcast_pb2
from nearcast.wire.messages import Message, NotifyFields

__all__ = [
    "COPY",
    "FRAME_BYTES",
    "FRAME_LIMIT",
    "GAP",
    "Refused",
    "check_published_topic",
    "check_topic",
    "decode",
    "decode_body",
    "decode_for_client",
    "encode",
    "encode_publish_head",
    "encode_publish_tail",
    "join_publish",
    "mark_copy",
    "notify_fields",
]

# The pure Python backend recurses without a limit and is 50 times slower.
assert api_implementation.Type() == "upb", "nearcast needs protobuf with its upb backend"

FRAME_BYTES = 3
"""Type and length before each body."""
FRAME_LIMIT = 64
"""Most frames in one datagram."""
COPY = 0x80
"""Bit of the type: the frame was sent before, in another datagram."""

GAP = 20
"""The type of a Gap."""

_TOPIC_BYTES = 256
_TOPIC_LEVELS = 16
_BODY_BYTES = 0xFFFF


class Refused(Exception):  # noqa: N818 - not an error: something to count and forget
    """What arrived is not acceptable; it has no effect, and the reason is counted."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Kind(NamedTuple):
    number: int
    names: tuple[str, ...]
    values: Callable[[Any], tuple[Any, ...]]
    check: Callable[[Any], str | None]
    make: type[Any]
    protobuf: type[Any]


@lru_cache(maxsize=4_096)
def check_topic(topic: str) -> str | None:
    """Return what is wrong with a topic, None when nothing is."""
    if not topic:
        return "the topic is empty"
    if len(topic) * 4 > _TOPIC_BYTES and len(topic.encode()) > _TOPIC_BYTES:
        return f"the topic has more than {_TOPIC_BYTES} bytes"
    if topic.count("/") >= _TOPIC_LEVELS:
        return f"the topic has more than {_TOPIC_LEVELS} levels"
    if topic[0] == "\0":
        return "the topic begins with a zero byte"  # servers keep what is theirs under such names
    return None


@lru_cache(maxsize=4_096)
def check_published_topic(topic: str) -> str | None:
    """Return what is wrong with a topic to publish to, None when nothing is."""
    return "a pattern is no topic to publish to" if is_pattern(topic) else check_topic(topic)


def _check_of(message_type: type[Any]) -> Callable[[Any], str | None]:
    """Return what finds the first thing wrong with a message of this type."""
    types = message_type.__annotations__
    floats = tuple(name for name, kind in types.items() if kind == "float")
    float_values = _values_of(floats)
    needs_topic = "topic" in types and message_type is not messages.Busy
    numbered = message_type is messages.Publish

    def check(message: Any) -> str | None:
        if floats and not all(map(math.isfinite, float_values(message))):
            wrong = (name for name in floats if not math.isfinite(getattr(message, name)))
            return f"{next(wrong)} is not finite"
        if numbered and not message.oldest <= message.sequence:
            return "oldest lies after sequence"
        return check_topic(message.topic) if needs_topic else None

    return check


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    # attrgetter of one name returns no tuple
    return lambda message: tuple(getattr(message, name) for name in names)


def _kind(number: int, message_type: type[Any]) -> _Kind:
    names = message_type.__struct_fields__
    protobuf = getattr(nearcast_pb2, message_type.__name__)
    return _Kind(number, names, _values_of(names), _check_of(message_type), message_type, protobuf)


_KINDS = tuple(
    _kind(number, message_type)
    for number, message_type in {
        1: messages.Init,
        2: messages.Acknowledge,
        3: messages.Heartbeat,
        4: messages.Report,
        5: messages.Publish,
        6: messages.Published,
        7: messages.Nack,
        8: messages.Busy,
        9: messages.Subscribe,
        10: messages.Unsubscribe,
        11: messages.Confirm,
        12: messages.Notify,
        13: messages.Received,
        14: messages.Redirect,
        15: messages.Close,
        16: messages.Echo,
        17: messages.Way,
        18: messages.Route,
        19: messages.Refuse,
        GAP: messages.Gap,
        21: messages.Resume,
        22: messages.Prove,
        23: messages.Proof,
        24: messages.Revoked,
        25: group_messages.GroupKey,
        26: group_messages.GroupReceived,
    }.items()
)
_BY_NUMBER = {kind.number: kind for kind in _KINDS}
_BY_TYPE = {kind.make: kind for kind in _KINDS}
_NOTIFY = _BY_TYPE[messages.Notify].number
_notify_fields = _BY_TYPE[messages.Notify].values
_parse_notify = nearcast_pb2.Notify.FromString
assert messages.Notify.__struct_fields__[0] == "topic"
_PUBLISH = _BY_TYPE[messages.Publish].number


def encode(message: Message) -> bytes:
    """Return the frame of a message; WireError says what is wrong with it."""
    kind = _BY_TYPE[type(message)]
    try:
        problem = kind.check(message)
        if problem is not None:
            raise WireError(problem)
        fields_of = dict(zip(kind.names, kind.values(message), strict=True))
        body: bytes = kind.protobuf(**fields_of).SerializeToString()
    except (ValueError, TypeError) as error:
        raise WireError(f"{kind.make.__name__}: {error}") from None
    if len(body) > _BODY_BYTES:
        raise WireError(f"{kind.make.__name__}: {len(body)} bytes do not fit into a datagram")
    return bytes((kind.number,)) + len(body).to_bytes(2, "big") + body


def encode_publish_head(
    topic: str,
    sequence: int,
    payload: bytes,
    position: tuple[float, float] | None,
    published_us: int,
    *,
    durable: bool,
    envelope: bytes = b"",
) -> bytes:
    """Return what stays the same in a Publish however often it is sent; WireError as `encode`."""
    try:
        problem = check_published_topic(topic)
        if problem is not None:
            raise WireError(problem)
        head = nearcast_pb2.Publish(
            topic=topic,
            sequence=sequence,
            durable=durable,
            payload=payload,
            published_us=published_us,
            envelope=envelope,
        )
        if position is not None:
            head.has_position = True
            head.x_km, head.y_km = position
            if not (math.isfinite(head.x_km) and math.isfinite(head.y_km)):
                raise WireError("the position is not finite")
            if not is_place(head.x_km, head.y_km):  # its home would not take it, however often
                raise WireError(f"the position ({head.x_km:g}, {head.y_km:g}) km is too far away")
        return head.SerializeToString()
    except (ValueError, TypeError) as error:
        raise WireError(f"Publish: {error}") from None


def encode_publish_tail(epoch: int, oldest: int) -> bytes:
    """Return the fields of a Publish that may change until it is sent again."""
    return nearcast_pb2.Publish(epoch=epoch, oldest=oldest).SerializeToString()


def join_publish(head: bytes, tail: bytes) -> bytes:
    """Return the frame of a Publish: Protobuf takes fields in any order."""
    return b"%c%b%b%b" % (_PUBLISH, (len(head) + len(tail)).to_bytes(2, "big"), head, tail)


def mark_copy(frame: bytes) -> bytes:
    """Return the frame marked as sent before; no need to encode the message again."""
    return bytes((frame[0] | COPY,)) + frame[1:]


def decode(payload: bytes) -> list[tuple[Message, bool]]:
    """Return the messages of an opened payload, each with whether it is a copy.

    Unknown types are skipped. Anything malformed refuses the whole payload.
    """
    found: list[tuple[Message, bool]] = []
    for number, body in _split(payload):
        message = decode_body(number & ~COPY, body)
        if message is not None:
            found.append((message, number >= COPY))
    return found


def decode_for_client(payload: bytes) -> list[Message | NotifyFields]:
    """Return the messages of an opened payload, of each Notify only its fields in their order.

    A subscriber makes one object of a notification, not two. Otherwise as `decode`.
    """
    found: list[Message | NotifyFields] = []
    for number, body in _split(payload):
        number &= ~COPY
        if number == _NOTIFY:
            found.append(notify_fields(body))
        elif (message := decode_body(number, body)) is not None:
            found.append(message)
    return found


def notify_fields(body: bytes) -> NotifyFields:
    """Return the fields of the body of a Notify, in their order."""
    try:
        fields: NotifyFields = _notify_fields(_parse_notify(body))
    except DecodeError:
        raise Refused("malformed") from None
    if check_topic(fields[0]) is not None:
        raise Refused("invalid_field")
    return fields


def _split(payload: bytes) -> list[tuple[int, bytes]]:
    """Return the frames of an opened payload: the first byte and the body of each."""
    found: list[tuple[int, bytes]] = []
    start, size = 0, len(payload)
    while start < size:
        number = payload[start]
        if number == 0:
            break
        if len(found) == FRAME_LIMIT:
            raise Refused("too_many_frames")
        body = start + FRAME_BYTES
        if body > size:
            raise Refused("malformed")
        end = body + (payload[start + 1] << 8 | payload[start + 2])
        if end > size:
            raise Refused("malformed")
        found.append((number, payload[body:end]))
        start = end
    return found


def decode_body(number: int, body: bytes) -> Message | None:
    """Return the message of a frame's body by the frame's type; None for an unknown type."""
    kind = _BY_NUMBER.get(number)
    return None if kind is None else _parse(kind, body)


def _parse(kind: _Kind, body: bytes) -> Message:
    try:
        parsed = kind.protobuf.FromString(body)
    except DecodeError:
        raise Refused("malformed") from None
    message: Message = kind.make(*kind.values(parsed))
    if kind.check(message) is not None:
        raise Refused("invalid_field")
    return message
