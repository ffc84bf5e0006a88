from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.messages import Message, Origin, decode_message, encode_message

numbers = st.floats(allow_nan=False)
whole = st.integers(0, 2**63 - 1)
messages = st.builds(
    Message,
    st.text(max_size=20),
    st.text(max_size=20),
    whole,
    whole,
    numbers,
    numbers,
    numbers,
    numbers,
    st.binary(max_size=100),
    st.sampled_from(Origin),
)


@given(messages)
def test_a_message_comes_back_from_its_bytes(message: Message) -> None:
    assert decode_message(message.topic, encode_message(message)) == message


@given(messages, st.integers(0, 60))
def test_a_record_cut_short_is_refused(message: Message, length: int) -> None:
    record = encode_message(message)
    shortest = len(record) - len(message.payload)
    if length < shortest:
        with pytest.raises(ValueError, match="record"):
            decode_message("t", record[:length])


@given(st.binary(max_size=120))
def test_any_bytes_are_a_message_or_a_value_error(data: bytes) -> None:
    try:
        found = decode_message("t", data)
    except ValueError:
        return
    assert isinstance(found, Message)
