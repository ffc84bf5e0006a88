"""The sealed stream between servers, without sockets: any chunking, any damage."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import WireError
from nearcast.wire.noise import public_key
from nearcast.wire.stream_channel import (
    StreamChannel,
    StreamError,
    StreamSettings,
    UnknownKeyError,
)

DIALLER, LISTENER, OTHER = b"\1" * 32, b"\2" * 32, b"\3" * 32
PIECE = 65_535 - 16 - 1


def dial(to: bytes = LISTENER, limits: StreamSettings | None = None) -> StreamChannel:
    channel = StreamChannel.dial(
        static=DIALLER,
        ephemeral=b"\4" * 32,
        peer_key=public_key(to),
        payload=b"dialler's",
        settings=limits,
    )
    channel.begin()
    return channel


def answer(limits: StreamSettings | None = None, static: bytes = LISTENER) -> StreamChannel:
    return StreamChannel.answer(
        static=static,
        ephemeral=b"\5" * 32,
        accepts=lambda key, _payload: key == public_key(DIALLER),
        payload=b"listener's",
        settings=limits,
    )


def pair(limits: StreamSettings | None = None) -> tuple[StreamChannel, StreamChannel]:
    """Two sides that know each other."""
    dialler, listener = dial(limits=limits), answer(limits)
    listener.receive(dialler.take_output(), 0.0)
    dialler.receive(listener.take_output(), 0.0)
    dialler.ping(0.0)
    listener.receive(dialler.take_output(), 0.0)
    dialler.receive(listener.take_output(), 0.25)
    return dialler, listener


def chunks_of(data: bytes, rng: random.Random) -> list[bytes]:
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(12)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def test_both_sides_prove_their_keys_and_measure_the_round_trip() -> None:
    dialler, listener = pair()
    assert (dialler.is_established, listener.is_established) == (True, True)
    assert listener.peer_key == public_key(DIALLER)
    assert (listener.peer_payload, dialler.peer_payload) == (b"dialler's", b"listener's")
    assert dialler.round_trip_s == 0.25


@given(
    messages=st.lists(st.binary(max_size=300), max_size=8),
    large=st.sampled_from([0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 7]),
    seed=st.integers(0, 1 << 30),
)
@settings(deadline=None, max_examples=60)
def test_messages_arrive_whole_and_in_order_however_the_stream_is_cut(
    messages: list[bytes], large: int, seed: int
) -> None:
    rng = random.Random(seed)
    dialler, listener = dial(), answer()
    messages = [*messages, rng.randbytes(large)]
    first = dialler.take_output()
    for chunk in chunks_of(first, rng):
        assert listener.receive(chunk, 0.0) == []
    for chunk in chunks_of(listener.take_output(), rng):
        dialler.receive(chunk, 0.0)
    for message in messages:
        dialler.send(message)
    got = [
        one for chunk in chunks_of(dialler.take_output(), rng) for one in listener.receive(chunk, 0)
    ]
    assert got == messages
    for message in messages:
        listener.send(message)
    back = listener.take_output()
    assert [one for chunk in chunks_of(back, rng) for one in dialler.receive(chunk, 0)] == messages


@given(seed=st.integers(0, 1 << 30))
@settings(deadline=None, max_examples=150)
def test_any_flipped_bit_ends_the_stream_and_nothing_false_is_taken(seed: int) -> None:
    rng = random.Random(seed)
    dialler, listener = pair()
    sent = [rng.randbytes(rng.randrange(80)) for _ in range(5)]
    for message in sent:
        dialler.send(message)
    stream = bytearray(dialler.take_output())
    place = rng.randrange(len(stream) * 8)
    stream[place // 8] ^= 1 << place % 8
    got: list[bytes] = []
    try:
        for chunk in chunks_of(bytes(stream), rng):
            got += listener.receive(chunk, 0.0)
    except StreamError:
        pass
    # a changed length may only make it wait for bytes that never come
    assert got == sent[: len(got)]
    assert len(got) < len(sent)


@given(seed=st.integers(0, 1 << 30))
@settings(deadline=None, max_examples=80)
def test_garbage_instead_of_a_handshake_is_refused_or_waited_for(seed: int) -> None:
    rng = random.Random(seed)
    for channel in (answer(), dial()):
        channel.take_output()
        with suppress(StreamError):
            assert channel.receive(rng.randbytes(rng.randrange(700)), 0.0) == []
        assert not channel.is_established
        assert channel.take_output() == b""
        with pytest.raises(StreamError):
            channel.send(b"before anything is proved")


def test_a_truncated_stream_gives_what_was_complete_and_no_more() -> None:
    dialler, listener = pair()
    dialler.send(b"one")
    whole = len(first := dialler.take_output())
    dialler.send(b"two")
    stream = first + dialler.take_output()
    for end in range(whole, len(stream)):
        if end == whole:
            assert listener.receive(stream[:whole], 0.0) == [b"one"]
        else:
            assert listener.receive(stream[end - 1 : end], 0.0) == []
    assert listener.receive(stream[-1:], 0.0) == [b"two"]


def test_records_that_are_repeated_left_out_or_swapped_do_not_open() -> None:
    for order in ([0, 0], [1], [1, 0], [0, 2]):
        dialler, listener = pair()
        records = []
        for number in range(3):
            dialler.send(b"%d" % number)
            records.append(dialler.take_output())
        with pytest.raises(StreamError, match="seal"):
            listener.receive(b"".join(records[at] for at in order), 0.0)


def test_a_record_that_is_sent_back_to_its_sender_does_not_open() -> None:
    dialler, _listener = pair()
    dialler.send(b"mirror")
    with pytest.raises(StreamError, match="seal"):
        dialler.receive(dialler.take_output(), 0.0)


def test_a_replayed_first_message_establishes_nothing() -> None:
    recorded = dial().take_output()
    listener = answer()
    listener.receive(recorded, 0.0)
    assert not listener.is_established
    with pytest.raises(StreamError, match="not established"):
        listener.send(b"for the true dialler only")
    # nor do the records of another stream with the same first message
    dialler, other = dial(), answer()
    other.receive(dialler.take_output(), 0.0)
    dialler.receive(other.take_output(), 0.0)
    dialler.send(b"old")
    again = StreamChannel.answer(
        static=LISTENER, ephemeral=b"\x09" * 32, accepts=lambda *_: True, payload=b""
    )
    again.receive(recorded, 0.0)
    with pytest.raises(StreamError, match="seal"):
        again.receive(dialler.take_output(), 0.0)
    assert not again.is_established


def test_a_key_that_is_not_accepted_gets_no_answer() -> None:
    unknown = StreamChannel.dial(static=OTHER, ephemeral=b"\4" * 32, peer_key=public_key(LISTENER))
    unknown.begin()
    listener = answer()
    with pytest.raises(UnknownKeyError):
        listener.receive(unknown.take_output(), 0.0)
    assert listener.take_output() == b""
    assert listener.peer_key == public_key(OTHER)


def test_a_listener_that_is_another_one_cannot_read_the_first_message() -> None:
    impostor = answer(static=OTHER)
    with pytest.raises(StreamError, match="handshake"):
        impostor.receive(dial().take_output(), 0.0)


def test_two_sides_of_the_same_role_do_not_meet() -> None:
    one, two = dial(), dial()
    with pytest.raises(StreamError):
        one.receive(two.take_output(), 0.0)


def test_limits_of_size_and_number_end_the_stream() -> None:
    dialler, _ = pair(StreamSettings(message_bytes=100_000))
    with pytest.raises(WireError, match="too large"):
        dialler.send(bytes(100_001))
    dialler.send(bytes(100_000))
    generous, strict = dial(), answer(StreamSettings(message_bytes=100_000))
    strict.receive(generous.take_output(), 0.0)
    generous.receive(strict.take_output(), 0.0)
    generous.send(bytes(4 * PIECE))
    with pytest.raises(StreamError, match="too large"):
        strict.receive(generous.take_output(), 0.0)

    dialler, listener = pair(StreamSettings(records=10))
    for number in range(9):  # one record was the ping
        assert dialler.is_exhausted == (number >= 4)
        dialler.send(b"x")
    with pytest.raises(StreamError, match="used up"):
        dialler.send(b"x")
    assert len(listener.receive(dialler.take_output(), 0.0)) == 9
    assert listener.is_exhausted


def test_pings_are_answered_unless_the_other_side_does_not_read() -> None:
    dialler, listener = pair()
    listener.answers_pings = False
    dialler.ping(1.0)
    dialler.ping(2.0)
    assert listener.receive(dialler.take_output(), 0.0) == []
    assert listener.take_output() == b""
    listener.answers_pings = True
    dialler.ping(3.0)
    listener.receive(dialler.take_output(), 0.0)
    dialler.receive(listener.take_output(), 4.0)
    assert dialler.round_trip_s == 0.25  # the one that was being measured got no answer
    dialler.ping(5.0)
    listener.receive(dialler.take_output(), 0.0)
    dialler.receive(listener.take_output(), 5.5)
    assert dialler.round_trip_s == 0.5


def test_a_key_that_cannot_be_used_is_told() -> None:
    channel = StreamChannel.dial(static=DIALLER, ephemeral=b"\4" * 32, peer_key=bytes(32))
    with pytest.raises(StreamError, match="public key is not usable"):
        channel.begin()
    channel = answer()
    channel.begin()  # has nothing to say first
    assert channel.take_output() == b""
