"""Content filters: what they say, how they are written, and the index against a plain evaluator."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.content.attributes import Attributes, Value, check_attributes
from nearcast.content.expression import And, Comparison, Expression, Has, In, Not, Or
from nearcast.content.filter_index import FilterIndex
from nearcast.content.filter_text import MOST_COMPARISONS, MOST_FILTER_LENGTH, read_filter
from nearcast.content.interval_index import IntervalIndex
from nearcast.errors import FilterError

NAMES = ["kind", "price", "lane", "open"]
numbers = st.sampled_from([-1, 0, 1, 1.0, 1.5, 2, 2**53, 2**53 + 1, 1e300, -1e300, 5e-324])
values: st.SearchStrategy[Value] = st.one_of(
    numbers, st.booleans(), st.sampled_from(["", "fuel", 'a "b" \\ c', "1"])
)
names = st.sampled_from(NAMES)
messages = st.dictionaries(names, values)
_leaves: st.SearchStrategy[Expression] = st.one_of(
    st.builds(Comparison, names, st.sampled_from(["=", "!="]), values),
    st.builds(Comparison, names, st.sampled_from(["<", "<=", ">", ">="]), numbers),
    st.builds(In, names, st.lists(values, min_size=1, max_size=4).map(tuple)),
    st.builds(Has, names),
)
filters: st.SearchStrategy[Expression] = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=4).map(tuple)),
    ),
    max_leaves=8,
)


def kind(value: Any) -> str:
    return {str: "text", bool: "truth"}.get(type(value), "number")


def holds(expression: Any, message: Attributes) -> bool:
    """Tell by the plainest rules whether a filter holds."""
    match expression:
        case Not(part):
            return not holds(part, message)
        case And(parts):
            return all(holds(part, message) for part in parts)
        case Or(parts):
            return any(holds(part, message) for part in parts)
        case Has(name):
            return name in message
        case In(name, wanted):
            return any(holds(Comparison(name, "=", value), message) for value in wanted)
    assert isinstance(expression, Comparison)
    if expression.name not in message:
        return False
    found: Any = message[expression.name]
    if kind(found) != kind(expression.value):
        return False
    answers = {
        "=": found == expression.value,
        "!=": found != expression.value,
    }
    if kind(found) == "number":
        less, more = found < expression.value, found > expression.value
        answers |= {"<": less, "<=": not more, ">": more, ">=": not less}
    return bool(answers[expression.sign])


def written(expression: Any) -> str:
    """Return a filter as text, with every pair of parentheses."""
    match expression:
        case Not(part):
            return f"not ({written(part)})"
        case And(parts):
            return "(" + " and ".join(written(part) for part in parts) + ")"
        case Or(parts):
            return "(" + " or ".join(written(part) for part in parts) + ")"
        case Has(name):
            return f"has {name}"
        case In(name, wanted):
            return f"{name} in ({', '.join(map(literal, wanted))})"
    return f"{expression.name} {expression.sign} {literal(expression.value)}"


def literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


@given(filters, st.lists(messages, min_size=1, max_size=10))
@settings(max_examples=300, deadline=None)
def test_a_filter_says_what_the_plain_evaluator_says_and_survives_its_text(
    expression: Expression, given_messages: list[Attributes]
) -> None:
    again = read_filter(written(expression))
    for message in given_messages:
        assert expression.matches(message) == holds(expression, message)
        assert again.matches(message) == holds(expression, message)


@given(
    st.lists(st.tuples(st.integers(0, 15), filters | st.none()), max_size=40),
    st.lists(messages, min_size=1, max_size=10),
)
@settings(max_examples=300, deadline=None)
def test_the_index_finds_what_the_plain_evaluator_finds(
    steps: list[tuple[int, Expression | None]], given_messages: list[Attributes]
) -> None:
    index: FilterIndex[int] = FilterIndex()
    kept: dict[int, Expression] = {}
    for key, expression in steps:
        if expression is not None:
            index.put(key, expression)
            kept[key] = expression
        elif key in kept:
            index.remove(key)
            del kept[key]
    for message in given_messages:
        expected = sorted(key for key, one in kept.items() if holds(one, message))
        assert sorted(index.matching(message)) == expected
    for key in kept:
        index.remove(key)
    assert index._root.is_empty()


def test_filters_that_fail_are_not_looked_at() -> None:
    index: FilterIndex[int] = FilterIndex()
    for number in range(20_000):
        limit = number / 10_000
        index.put(
            number, read_filter(f'kind = "fuel" and price < {limit} and town = "t{number % 100}"')
        )
    assert index.candidates({"kind": "food", "price": 1.0, "town": "t1"}) == []
    assert index.candidates({"kind": "fuel", "price": 3.0, "town": "t1"}) == []
    found = index.candidates({"kind": "fuel", "price": 1.9, "town": "t1"})
    assert found == index.matching({"kind": "fuel", "price": 1.9, "town": "t1"})
    assert len(found) == 10
    between: FilterIndex[int] = FilterIndex()
    for number in range(20_000):
        between.put(number, read_filter(f"price >= {number} and price <= {number + 3}"))
    assert len(between.candidates({"price": 77.5})) == 3


@given(
    st.lists(st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)), max_size=30),
    st.floats(allow_nan=False, allow_infinity=False),
)
@settings(max_examples=300, deadline=None)
def test_intervals_are_those_of_a_scan(ends: list[tuple[float, float]], value: float) -> None:
    index = IntervalIndex()
    kept = [(min(pair), max(pair)) for pair in ends]
    kept = [pair for pair in kept if pair[0] != float("inf") and pair[1] != float("-inf")]
    for row, (low, high) in enumerate(kept):
        index.add(low, high, row)
    expected = {row for row, (low, high) in enumerate(kept) if low <= value <= high}
    assert set(index.containing(value)) == expected
    for row, (low, high) in enumerate(kept):
        index.remove(low, high, row)
    assert not index


@pytest.mark.parametrize(
    ("text", "position", "error"),
    [
        ("", 1, "the name of an attribute is wanted, not the end"),
        ('kind = "fuel', 8, "a text that does not end"),
        (r'kind = "fu\n"', 8, "a text that does not end"),
        ("kind = 'fuel'", 8, "double quotes"),
        ("kind == 1", 7, "a value is wanted"),
        ("kind && 1", 6, "'&&' is not known; write =, and, or"),
        ("kind", 5, "after 'kind' one of = != < <= > >= or 'in' is wanted, not the end"),
        ("kind = ", 8, "a value is wanted"),
        ("kind = fuel", 8, "a value is wanted .* not 'fuel'"),
        ("kind = 1 price = 2", 10, "'and', 'or' or the end is wanted, not 'price'"),
        ("kind = 1 and", 13, "the name of an attribute is wanted"),
        ("(kind = 1", 10, r"'\)' is wanted, not the end"),
        ("kind = 1)", 9, "or the end is wanted"),
        ("and = 1", 1, "the name of an attribute is wanted, not 'and'"),
        ("1 = kind", 1, "the name of an attribute is wanted, not '1'"),
        ('price < "a"', 7, "< compares numbers only"),
        ("price < true", 7, "< compares numbers only"),
        ("price < 1e999", 9, "the value is inf"),
        ("price < 99999999999999999999", 9, "more than 64 bits"),
        ("price < 1x", 9, "'1' is not part"),
        ("kind in ()", 10, "a value is wanted"),
        ("kind in (1 2)", 12, r"'\)' is wanted"),
        ("has 3", 5, "the name of an attribute"),
        ("a @ 3", 3, "'@' is not part of a filter"),
        ('a = "' + "x" * 300 + '"', 5, "longer than 256"),
        ("a" * 65 + " = 1", 1, "longer than 64"),
        ("(" * 17 + "a = 1" + ")" * 17, 17, "deeper than 16"),
        ("not " * 40 + "a = 1", 65, "deeper than 16"),
        (" or ".join(["a = 1"] * 65), None, f"more than {MOST_COMPARISONS} comparisons"),
        ("a in (" + ", ".join("1" * 65) + ")", None, "more than 64 comparisons"),
        ("a" * (MOST_FILTER_LENGTH + 1), None, "at most 2,048"),
    ],
    ids=range(31),
)
def test_a_mistake_is_told_with_its_position(text: str, position: int | None, error: str) -> None:
    with pytest.raises(FilterError, match=error) as caught:
        read_filter(text)
    if position is not None:
        assert caught.value.position == position
        assert str(caught.value).startswith(f"character {position}: ")


@given(st.text(alphabet='()<>=!"\\,.andorthsi 019_e-', max_size=40))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_filter_or_a_filter_error(text: str) -> None:
    with contextlib.suppress(FilterError):
        read_filter(text)


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({"a": float("nan")}, "attribute 'a' is nan"),
        ({"a": None}, "attribute 'a' is None, not a text"),
        ({"a": 2**63}, "64 bits"),
        ({"a": "x" * 257}, "longer than 256"),
        ({"a b": 1}, "'a b' is not the name"),
        ({"a" * 65: 1}, "longer than 64"),
        ({f"a{n}": n for n in range(33)}, "33 attributes; at most 32"),
    ],
    ids=range(7),
)
def test_bad_attributes_are_refused(attributes: Any, error: str) -> None:
    with pytest.raises(FilterError, match=error):
        check_attributes(attributes)


def test_no_more_filters_than_the_limit() -> None:
    index: FilterIndex[str] = FilterIndex(most_filters=1)
    index.put("a", read_filter("x = 1"))
    index.put("a", read_filter("x = 2"))
    with pytest.raises(FilterError, match="there are 1 filters"):
        index.put("b", read_filter("x = 1"))
    assert index.matching({"x": 2}) == ["a"]
