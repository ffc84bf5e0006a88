from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.wire.areas import FURTHEST_KM
from nearcast.wire.publication import Origin, Publication, decode_record

numbers = st.floats(-FURTHEST_KM, FURTHEST_KM)
whole = st.integers(0, 2**63 - 1)
messages = st.builds(
    Publication,
    st.text(max_size=20),
    st.text(max_size=20),
    whole,
    whole,
    whole,
    whole,
    numbers,
    numbers,
    st.binary(max_size=100),
    st.sampled_from(Origin),
)


@given(messages)
def test_a_message_comes_back_from_its_bytes(message: Publication) -> None:
    assert decode_record(message.topic, message.record()) == message


@given(messages, st.integers(0, 60))
def test_a_record_cut_short_is_refused(message: Publication, length: int) -> None:
    record = message.record()
    shortest = len(record) - len(message.payload)
    if length < shortest:
        with pytest.raises(ValueError, match="record"):
            decode_record("t", record[:length])


@given(st.binary(max_size=120))
def test_any_bytes_are_a_message_or_a_value_error(data: bytes) -> None:
    try:
        found = decode_record("t", data)
    except ValueError:
        return
    assert isinstance(found, Publication)
