"""Rows in pieces of whole topics, and values by key, as one sort would have them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from nearcast.domain import scenario as scenario_module
from nearcast.domain.grouping import group_pieces
from nearcast.domain.scenario import Members


@pytest.mark.parametrize("rows", [0, 1, 9, 200])
def test_values_are_in_the_order_of_their_keys_and_then_as_they_came(rows: int) -> None:
    rng = np.random.default_rng(rows)
    key = rng.integers(0, 12, rows).astype(np.int32)
    values = rng.integers(0, 1000, rows).astype(np.int32)
    cuts = [0, *sorted(rng.integers(0, rows + 1, 3).tolist()), rows]

    def pieces() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for begin, end in pairwise(cuts):
            yield key[begin:end], values[begin:end]

    out = np.empty(rows, np.int32)
    start = group_pieces(pieces, 14, out)
    assert start.tolist() == np.searchsorted(np.sort(key), np.arange(15)).tolist()
    assert out.tolist() == values[np.argsort(key, kind="stable")].tolist()


def test_pieces_are_all_rows_and_no_topic_is_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_module, "_ROWS_OF_A_PIECE", 5)
    topic = np.repeat(np.arange(9, dtype=np.int32), [3, 1, 1, 8, 2, 0, 4, 5, 1])
    flags = np.ones(len(topic), np.bool_)
    members = Members(topic, topic, flags, flags, np.arange(len(topic), dtype=np.float64))
    pieces = list(members.pieces())
    assert len(pieces) > 3
    assert [piece.start for piece in pieces] == [0, *(piece.stop for piece in pieces[:-1])]
    assert pieces[-1].stop == len(topic)
    for piece in pieces[1:]:
        assert topic[piece.start] != topic[piece.start - 1]
    assert members.rows(pieces[1]).rate_hz.tolist() == list(range(pieces[1].start, pieces[1].stop))
    assert not list(members.rows(slice(0, 0)).pieces())
