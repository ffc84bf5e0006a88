"""What a server and its processor child say to each other, as MessagePack.

Not pickle: the child runs users' code, and nothing that it sends may become code in the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from nearcast.broker.notifications import (
    AllSubscribers,
    InCircle,
    NamedClients,
    NearestClients,
    Notification,
)
from nearcast.broker.processing import Outcome
from nearcast.broker.requests import Failure, MadeProcessor, ProcessRequest, ProcessResult
from nearcast.runtime.pipe_frames import pack_frame
from nearcast.wire.publication import Publication

__all__ = [
    "LONGEST_ANSWER_BYTES",
    "Answer",
    "Batch",
    "Begin",
    "Begun",
    "Command",
    "Context",
    "Done",
    "Forget",
    "Merge",
    "Ready",
    "Split",
    "decode_answer",
    "decode_command",
    "done",
    "frame",
    "request_frames",
    "result_of",
]

LONGEST_ANSWER_BYTES = 16 << 20
_CONTEXT_MESSAGES = 256
_ALL = AllSubscribers()


class _Frame(msgspec.Struct, array_like=True, tag=True):
    pass


class Begin(_Frame):
    """To the child: make a topic's processor, in place of an older one."""

    topic: str
    processor: str
    options: dict[str, Any]
    spool: int
    spool_bytes: int | None
    state: bytes | None


class Context(_Frame):
    """To the child: spool these, they are not to be processed."""

    topic: str
    records: list[bytes]


class Batch(_Frame):
    """To the child: process these."""

    topic: str
    records: list[bytes]
    names: list[str] = []
    """For a component of a flow: the topics of the records."""


class Split(_Frame):
    """To the child: take off the state of the content ids with an index of this range."""

    topic: str
    low: int
    high: int


class Merge(_Frame):
    """To the child: take this state in besides the own one."""

    topic: str
    state: bytes


class Forget(_Frame):
    """To the child: the topic is gone."""

    topic: str


class Ready(_Frame):
    """From the child: it has started."""


class Begun(_Frame):
    """From the child: the processor is made, or cannot be."""


_Number = Annotated[int, msgspec.Meta(ge=0)]


class Done(_Frame):
    """From the child: what became of a batch."""

    notifications: list[
        tuple[
            bytes,
            list[Any] | None,
            _Number,
            dict[str, Any] | None,
            str | None,
            float | None,
            str | None,
        ]
    ]
    """Payload; audience as its name and fields, None for all; number of the cause in the batch;
    attributes, area, validity and class, None for those of the cause."""
    state: bytes | None
    failures: list[tuple[str, _Number | None]]
    """What went wrong, and the number of the message in the batch."""
    elapsed_s: float
    malformed: _Number
    made: MadeProcessor | None = None
    """Of the first answer."""
    part: bytes | None = None
    """The state that was taken off."""
    refused: dict[str, _Number] = {}
    """Messages that the processor could read and did not take, by its reason."""


Command = Begin | Context | Batch | Split | Merge | Forget
Answer = Ready | Begun | Done

_AUDIENCES = {
    kind.__name__: kind for kind in (AllSubscribers, InCircle, NamedClients, NearestClients)
}
_commands: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
# what the other side said; ValueError when that is nonsense
decode_command = _commands.decode
decode_answer = _answers.decode


def _plain(value: Any) -> Any:
    # numbers of numpy are common in users' code, and have this method
    return value.item() if hasattr(value, "item") else repr(value)


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def frame(message: Command | Answer) -> bytes:
    """Return the bytes of a message."""
    return pack_frame(_encode(message))


def request_frames(request: ProcessRequest) -> bytes:
    """Return all that the child needs for a request."""
    topic, settings = request.settings.topic, request.settings
    parts = []
    if request.first:
        parts.append(
            frame(
                Begin(
                    topic,
                    settings.processor,
                    dict(settings.options),
                    settings.spool,
                    settings.spool_bytes,
                    request.state,
                )
            )
        )
    context = request.context
    for start in range(0, len(context), _CONTEXT_MESSAGES):
        part = context[start : start + _CONTEXT_MESSAGES]
        parts.append(frame(Context(topic, [one.record() for one in part])))
    if request.split is not None:
        parts.append(frame(Split(topic, *request.split)))
    elif request.merge is not None:
        parts.append(frame(Merge(topic, request.merge)))
    else:
        batch, names = request.batch, list[str]()
        if batch and batch[0].topic != topic:  # of a component
            names = [one.topic for one in batch]
        parts.append(frame(Batch(topic, [one.record() for one in batch], names)))
    return b"".join(parts) if len(parts) > 1 else parts[0]


def done(
    batch: Sequence[Publication], outcome: Outcome, failures: Sequence[Failure], elapsed_s: float
) -> Done:
    """Return the answer about a batch; `failures` come before those of the outcome."""
    numbers = {id(message): number for number, message in enumerate(batch)}
    return Done(
        [
            (
                one.payload,
                _audience_fields(one.audience),
                numbers[id(one.cause)],
                one.attributes,
                one.area,
                one.valid_until_s,
                one.message_class,
            )
            for one in outcome.notifications
        ],
        outcome.state,
        [
            (one.detail, None if one.message is None else numbers[id(one.message)])
            for one in (*failures, *outcome.failures)
        ],
        elapsed_s,
        outcome.malformed,
        refused=outcome.refused,
    )


def result_of(request: ProcessRequest, answer: Done) -> ProcessResult:
    """Return the result that an answer means; ValueError when it does not fit the request."""
    batch = request.batch
    try:
        notifications = [
            Notification(
                payload,
                _ALL if fields is None else _audience(fields),
                batch[number],
                attributes,
                area,
                valid_until_s,
                message_class,
            )
            for (
                payload,
                fields,
                number,
                attributes,
                area,
                valid_until_s,
                message_class,
            ) in answer.notifications
        ]
        failures = [
            Failure(detail, None if number is None else batch[number])
            for detail, number in answer.failures
        ]
    except IndexError:
        raise ValueError("an answer is about messages that were not asked") from None
    return ProcessResult(
        request.settings.topic,
        request.request,
        notifications,
        answer.state,
        failures,
        answer.elapsed_s,
        malformed=answer.malformed,
        refused=answer.refused,
        made=answer.made,
        part=answer.part,
    )


def _audience_fields(audience: Any) -> list[Any] | None:
    match audience:
        case AllSubscribers():
            return None
        case NamedClients(clients):
            return ["NamedClients", clients]
        case NearestClients(x_km, y_km, count):
            return ["NearestClients", x_km, y_km, count]
        case InCircle(x_km, y_km, radius_km):
            return ["InCircle", x_km, y_km, radius_km]
        case _:
            return [repr(audience)]


def _audience(fields: list[Any]) -> Any:
    # an invalid one is the broker's to report, as it is when the processor runs in the server
    try:
        return _AUDIENCES[fields[0]](*fields[1:])
    except (IndexError, KeyError, TypeError):
        return fields
