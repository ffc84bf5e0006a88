"""Keys have a total order in which each net's publishers and subscribers are adjacent."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.errors import ConfigError
from nearcast.routing.index_mapping import ContentMapping, ShuffleMapping
from nearcast.routing.keys import (
    CLOUD,
    INDEX_END,
    UNIQUE_MAX,
    Key,
    check_range,
    fallback_target,
    fresh_unique_id,
    net_path,
    publisher_key,
    subscriber_key,
    target_of,
    unique_id_above,
)

NETS = st.lists(st.sampled_from(["a", "b", "ab", ""]), max_size=3).map(tuple)
KEYS = st.builds(
    Key,
    st.sampled_from(["", "t", "tt", "u"]),
    NETS,
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1, INDEX_END // 2, INDEX_END - 1]),
    st.sampled_from([0, 7, UNIQUE_MAX]),
)


@pytest.mark.overlay_property(15)
@given(KEYS, KEYS, KEYS)
def test_the_order_is_total_and_transitive(a: Key, b: Key, c: Key) -> None:
    assert (a < b) + (a == b) + (a > b) == 1
    if a <= b <= c:
        assert a <= c


@pytest.mark.overlay_property(15)
@given(st.lists(KEYS, min_size=1, max_size=40))
def test_a_topics_net_and_flag_are_one_run_of_keys(keys: list[Key]) -> None:
    runs = [key[:3] for key in sorted(keys)]
    starts = [run for at, run in enumerate(runs) if at == 0 or runs[at - 1] != run]
    assert len(starts) == len(set(starts))


@given(NETS, NETS, st.integers(0, INDEX_END - 1), st.integers(1, 2**62))
def test_a_publisher_a_subscriber_and_their_target_are_in_this_order(
    net: tuple[str, ...], other: tuple[str, ...], index: int, unique_id: int
) -> None:
    publisher, target = publisher_key("t", net, unique_id), target_of("t", net, index)
    assert publisher < subscriber_key("t", net, index, unique_id) < target
    assert fallback_target("t", index) <= target
    if other != net:
        for key in (publisher_key("t", other, unique_id), target_of("t", other, index)):
            assert not publisher < key < target


def test_a_prefix_of_a_net_comes_before_what_it_begins() -> None:
    assert CLOUD == net_path("") < net_path("jp") < net_path("jp.jose") < net_path("jp.jose.yrp")
    assert net_path("jp.jose.yrp") < net_path("jp.kyoto")
    with pytest.raises(ConfigError, match=r"net 'jp\.\.yrp': a part"):
        net_path("jp..yrp")


@given(st.integers(0, 2**32))
def test_a_later_unique_id_is_above(seed: int) -> None:
    rng = Random(seed)
    first = fresh_unique_id(rng)
    assert 0 < first < unique_id_above(first, rng) < UNIQUE_MAX


@pytest.mark.parametrize("bad", [(-1, 5), (5, 5), (0, INDEX_END + 1)])
def test_a_range_that_is_none_is_refused(bad: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="range"):
        check_range(*bad)


@given(st.one_of(st.text(), st.binary(), st.integers()), st.binary(), st.binary())
def test_one_content_id_has_one_index(content: str | bytes | int, one: bytes, two: bytes) -> None:
    mapping = ContentMapping(lambda _body: content)
    first = mapping.index_of(one, Random(1))
    assert first == mapping.index_of(two, Random(2))
    assert 0 <= first.index < INDEX_END
    assert not first.error


def _raising(_body: bytes) -> object:
    raise KeyError("user")


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (_raising, "content mapping raised KeyError('user')"),
        (lambda _body: 1.5, "content mapping returned float, not"),
        (lambda _body: None, "content mapping returned NoneType, not"),
        (lambda _body: True, "content mapping returned bool, not"),
    ],
)
def test_a_mapping_that_fails_says_so_and_gives_an_index(function: object, error: str) -> None:
    mapped = ContentMapping(function).index_of(b"body", Random(1))  # type: ignore[arg-type]
    assert mapped.error.startswith(error)
    assert 0 <= mapped.index < INDEX_END


def test_shuffling_stays_in_its_range() -> None:
    rng = Random(1)
    assert {ShuffleMapping(4, 7).index_of(b"", rng).index for _ in range(99)} == {4, 5, 6}
