"""What a server and its processor child say to each other: MessagePack in frames with a length.

Not pickle: the child runs users' code, and nothing that it sends may become code in the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any

import msgspec

from nearcast.broker.messages import Message, encode_message
from nearcast.broker.notifications import (
    AllSubscribers,
    InCircle,
    NamedClients,
    NearestClients,
    Notification,
)
from nearcast.broker.processing import Outcome
from nearcast.broker.requests import Failure, ProcessRequest, ProcessResult

__all__ = [
    "HEADER",
    "LONGEST_ANSWER_BYTES",
    "Answer",
    "Batch",
    "Begin",
    "Begun",
    "Command",
    "Context",
    "Done",
    "Forget",
    "Ready",
    "decode_answer",
    "decode_command",
    "done",
    "frame",
    "frames_for",
    "result_of",
]

HEADER = Struct("<I")
LONGEST_ANSWER_BYTES = 16 << 20
_CONTEXT_MESSAGES = 256
"""In one frame: encoding more at a time would hold up the loop."""


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


class Forget(_Frame):
    """To the child: the topic is gone."""

    topic: str


class Ready(_Frame):
    """From the child: it has started."""


class Begun(_Frame):
    """From the child: the processor is made, or cannot be."""


class Done(_Frame):
    """From the child: what became of a batch."""

    notifications: list[tuple[bytes, list[Any], int]]
    """Payload; audience as its name and fields; number of the cause in the batch."""
    state: bytes | None
    failures: list[tuple[str, int | None]]
    """What went wrong, and the number of the message in the batch."""
    elapsed_s: float


Command = Begin | Context | Batch | Forget
Answer = Ready | Begun | Done

_AUDIENCES = {
    kind.__name__: kind for kind in (AllSubscribers, InCircle, NamedClients, NearestClients)
}
_commands: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def _plain(value: Any) -> Any:
    # numbers of numpy are common in users' code, and have this method
    return value.item() if hasattr(value, "item") else repr(value)


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)


def frame(message: Command | Answer) -> bytes:
    """Return the bytes of a message, its length before it."""
    data = _encoder.encode(message)
    return HEADER.pack(len(data)) + data


def decode_command(data: bytes) -> Command:
    """Return what a server said."""
    return _commands.decode(data)


def decode_answer(data: bytes) -> Answer:
    """Return what a child said; ValueError when that is nonsense."""
    return _answers.decode(data)


def frames_for(request: ProcessRequest, spooled: int | None) -> Iterator[bytes]:
    """Return what the child needs for a request; `spooled` is None when it has no processor."""
    topic, settings = request.topic, request.settings
    if spooled is None:
        yield frame(
            Begin(
                topic,
                settings.processor,
                dict(settings.options),
                settings.spool,
                settings.spool_bytes,
                request.state,
            )
        )
    context = request.spool.since(spooled or 0)
    for start in range(0, len(context), _CONTEXT_MESSAGES):
        part = context[start : start + _CONTEXT_MESSAGES]
        yield frame(Context(topic, [encode_message(message) for message in part]))
    yield frame(Batch(topic, [encode_message(message) for message in request.batch]))


def done(
    batch: Sequence[Message], outcome: Outcome, failures: Sequence[Failure], elapsed_s: float
) -> Done:
    """Return the answer about a batch; `failures` come before those of the outcome."""
    numbers = {id(message): number for number, message in enumerate(batch)}
    return Done(
        [
            (one.payload, _audience_fields(one.audience), numbers[id(one.cause)])
            for one in outcome.notifications
        ],
        outcome.state,
        [
            (one.detail, None if one.message is None else numbers[id(one.message)])
            for one in (*failures, *outcome.failures)
        ],
        elapsed_s,
    )


def result_of(request: ProcessRequest, answer: Done) -> ProcessResult:
    """Return the result that an answer means; ValueError when it means none."""
    batch = request.batch
    numbers = {number for _, _, number in answer.notifications}
    numbers.update(number for _, number in answer.failures if number is not None)
    if numbers and not 0 <= min(numbers) <= max(numbers) < len(batch):
        raise ValueError("an answer is about messages that were not asked")
    return ProcessResult(
        request.topic,
        request.request,
        [
            Notification(payload, _audience(fields), batch[number])
            for payload, fields, number in answer.notifications
        ],
        answer.state,
        [
            Failure(detail, None if number is None else batch[number])
            for detail, number in answer.failures
        ],
        answer.elapsed_s,
    )


def _audience_fields(audience: Any) -> list[Any]:
    match audience:
        case AllSubscribers():
            return ["AllSubscribers"]
        case NamedClients(clients):
            return ["NamedClients", clients]
        case NearestClients(x_km, y_km, count):
            return ["NearestClients", x_km, y_km, count]
        case InCircle(x_km, y_km, radius_km):
            return ["InCircle", x_km, y_km, radius_km]
        case _:
            return [repr(audience)]


def _audience(fields: list[Any]) -> Any:
    # one that is none is the broker's to report, as it is when the processor runs in the server
    try:
        return _AUDIENCES[fields[0]](*fields[1:])
    except (IndexError, KeyError, TypeError):
        return fields
