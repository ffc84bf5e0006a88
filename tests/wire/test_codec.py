"""Messages survive the wire; nothing else does."""

from __future__ import annotations

import random
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from nearcast.errors import WireError
from nearcast.wire import messages
from nearcast.wire.codec import (
    COPY,
    FRAME_LIMIT,
    Refused,
    decode,
    decode_for_client,
    encode,
    mark_copy,
)
from nearcast.wire.generated import nearcast_pb2
from nearcast.wire.group_messages import GroupKey, GroupReceived
from nearcast.wire.messages import Echo, Heartbeat, Message, Notify, Publish, Report, Subscribe

TYPES = [
    getattr(messages, name)
    for name in messages.__all__
    if name not in ("Message", "CloseReason", "NotifyFields", "RefuseReason", "TOKEN_BYTES")
]
TYPES += [GroupKey, GroupReceived]
U32 = {
    "beacon_ms",
    "count",
    "key_id",
    "slot",
    "spread_ms",
    "number",
    "session",
    "missing",
    "retry_after_ms",
    "request",
    "part",
    "port",
    "reason",
    "starts",
}


def _values(message_type: type[Message]) -> st.SearchStrategy[Message]:
    def of_field(name: str, kind: object) -> st.SearchStrategy[object]:
        if name == "topic":
            return st.text("äb/c ", min_size=1, max_size=15)
        if kind == "int":
            return st.integers(0, 2**32 - 1 if name in U32 else 2**64 - 1)
        if kind == "float":
            return st.floats(allow_nan=False, allow_infinity=False)
        if kind == "bool":
            return st.booleans()
        return st.binary(max_size=50) if kind == "bytes" else st.text(max_size=20)

    fixed = {"oldest": st.just(0)} if message_type is Publish else {}
    return st.builds(
        message_type,
        **{name: of_field(name, kind) for name, kind in message_type.__annotations__.items()}
        | fixed,
    )


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.lists(st.one_of([_values(kind) for kind in TYPES]), max_size=10), st.data())
def test_messages_come_back_unchanged(sent: list[Message], data: st.DataObject) -> None:
    copies = [data.draw(st.booleans()) for _ in sent]
    frames = [
        mark_copy(encode(message)) if is_copy else encode(message)
        for message, is_copy in zip(sent, copies, strict=True)
    ]
    payload = b"".join(frames) + bytes(data.draw(st.integers(0, 20)))
    assert decode(payload) == list(zip(sent, copies, strict=True))


def test_every_message_is_in_the_schema_with_the_same_fields_and_without_nesting() -> None:
    schema = nearcast_pb2.DESCRIPTOR.message_types_by_name
    assert sorted(schema) == sorted(kind.__name__ for kind in TYPES)
    for kind in TYPES:
        described = schema[kind.__name__].fields
        assert [field.name for field in described] == list(kind.__struct_fields__)
        assert all(not field.is_repeated and field.message_type is None for field in described)


def test_the_numbers_of_the_types_are_those_of_the_schema() -> None:
    """Other implementations read them there: `// Type 5, ...` before `message Publish`."""
    text = (files("nearcast.wire") / "nearcast.proto").read_text()
    number = 0
    found = {}
    for line in text.splitlines():
        if line.startswith("// Type "):
            number = int(line.split()[2].rstrip(","))
        elif line.startswith("message "):
            found[line.split()[1]] = number
    samples: list[Message] = [
        messages.Init(1),
        messages.Acknowledge(1, 1.0, 1),
        Heartbeat(),
        Report(0.0, 0.0),
        Publish("t", 1, 1, 1, True, b""),
        messages.Published("t", 1, 1),
        messages.Nack("t", 1, 1, 1),
        messages.Busy("", 1),
        messages.Gap("t", "b", 0, 1),
        messages.Resume("t", "b", 1),
        Subscribe(1, "t"),
        messages.Unsubscribe(1, "t"),
        messages.Confirm(1, True),
        Notify("t", "p", 1, 1, True, 0, b""),
        messages.Received(1, 1),
        messages.Redirect("h", 1, b""),
        messages.Close(0),
        Echo(b""),
        messages.Way(0, 1, "h", 1, b""),
        messages.Route("t"),
        messages.Refuse("t", 1, 1, True, 0),
        messages.Prove(b"", b""),
        messages.Proof(b"", b"", b""),
        messages.Revoked(b""),
        GroupKey("h", 1, 1, b"", b"", 0, 0, 1, 1),
        GroupReceived(1),
    ]
    assert found == {type(sample).__name__: encode(sample)[0] for sample in samples}


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (Subscribe(1, ""), "empty"),
        (Subscribe(1, "ä" * 129), "256 bytes"),
        (Subscribe(1, "/" * 16), "16 levels"),
        (Subscribe(1, "\ud800"), "surrogates"),
        (Subscribe(-1, "a"), "range"),
        (Subscribe(1 << 32, "a"), "range"),
        (Report(float("inf"), 0.0), "x_km is not finite"),
        (Publish("a", 1, 1, 2, True, b""), "oldest"),
        (Echo(bytes(70_000)), "do not fit"),
        (Echo("text"), "Echo"),  # type: ignore[arg-type]
    ],
)
def test_what_must_not_be_sent_is_an_error_that_says_why(message: Message, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        encode(message)


def _frame(number: int, body: bytes) -> bytes:
    return bytes([number]) + len(body).to_bytes(2, "big") + body


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\x05", "malformed"),
        (b"\x05\x00", "malformed"),
        (b"\x05\x00\x09abc", "malformed"),
        (_frame(9, b"\x08"), "malformed"),
        (_frame(9, b"\x12\x02\xff\xfe"), "malformed"),  # a topic that is not UTF-8
        (_frame(9, b"\x08\x01"), "invalid_field"),  # no topic
        (_frame(9, b"\x12\x81\x02" + b"x" * 257), "invalid_field"),
        (_frame(4, b"\x09" + bytes(6) + b"\xf0\x7f"), "invalid_field"),  # infinity
        (encode(Heartbeat()) * (FRAME_LIMIT + 1), "too_many_frames"),
        (_frame(99, b"") * (FRAME_LIMIT + 1), "too_many_frames"),
    ],
)
def test_malformed_payloads_are_refused_whole(payload: bytes, reason: str) -> None:
    with pytest.raises(Refused) as refusal:
        decode(encode(Heartbeat()) + payload if reason != "too_many_frames" else payload)
    assert refusal.value.reason == reason


def test_unknown_types_and_fields_are_skipped() -> None:
    later = _frame(9, b"\x08\x01\x12\x01t\xf8\x07\x05")  # a field of number 127
    payload = _frame(99, b"future") + later + _frame(99 | COPY, b"")
    assert decode(payload) == [(Subscribe(1, "t"), False)]


def test_fifty_thousand_mutated_payloads_decode_or_are_refused() -> None:
    rng = random.Random(1)
    valid = encode(Publish("a/b", 5, 6, 3, True, b"payload", True, 1.0, 2.0, 7))
    valid += encode(Notify("alerts", "car", 1, 2, True, 0, b"x", 1, 2, 3, 4)) + encode(Report(1, 2))
    decoded = refused = 0
    for _ in range(50_000):
        payload = bytearray(valid)
        for _ in range(rng.randrange(1, 4)):
            payload[rng.randrange(len(payload))] = rng.randrange(256)
        del payload[len(payload) - rng.randrange(4) :]
        try:
            decode(bytes(payload))
            decoded += 1
        except Refused:
            refused += 1
    assert decoded > 1_000
    assert refused > 25_000


def _for_client(payload: bytes) -> list[object] | str:
    try:
        return [*decode_for_client(payload)]
    except Refused as refusal:
        return refusal.reason


def _as_for_client(payload: bytes) -> list[object] | str:
    try:
        found = [message for message, _ in decode(payload)]
    except Refused as refusal:
        return refusal.reason
    return [structs.astuple(one) if isinstance(one, Notify) else one for one in found]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.one_of([_values(kind) for kind in TYPES]), max_size=5), st.data())
def test_a_client_reads_what_everybody_reads(sent: list[Message], data: st.DataObject) -> None:
    payload = bytearray(b"".join(map(encode, sent)))
    assert _for_client(bytes(payload)) == _as_for_client(bytes(payload))
    if payload:
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        assert _for_client(bytes(payload)) == _as_for_client(bytes(payload))


def test_the_fields_of_a_notification_may_come_in_any_order() -> None:
    notify = Notify("t", "p", 1, 2, True, 0, b"x", 3, 4, 5, 0, 7)
    body = encode(notify)[3:] + nearcast_pb2.Notify(notified_us=6).SerializeToString()
    frame = bytes((12,)) + len(body).to_bytes(2, "big") + body
    (fields,) = decode_for_client(frame)
    assert fields == structs.astuple(structs.replace(notify, notified_us=6))
