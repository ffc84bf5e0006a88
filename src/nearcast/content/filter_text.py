"""Filters as text: ``kind = "fuel" and (price < 1.80 or has discount)``.

::

    filter      = both { "or" both }
    both        = one { "and" one }
    one         = "not" one | "(" filter ")" | "has" NAME | NAME sign value
                | NAME "in" "(" value { "," value } ")"
    sign        = "=" | "!=" | "<" | "<=" | ">" | ">="
    value       = "text" | number | true | false
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nearcast.content.attributes import (
    MOST_NAME_LENGTH,
    Value,
    check_value,
    is_number,
)
from nearcast.content.expression import (
    OPERATORS,
    And,
    Comparison,
    Expression,
    Has,
    In,
    Not,
    Or,
)
from nearcast.errors import FilterError

__all__ = ["MOST_COMPARISONS", "MOST_DEPTH", "MOST_FILTER_LENGTH", "read_filter"]

MOST_FILTER_LENGTH = 2048
MOST_COMPARISONS = 64
MOST_DEPTH = 16

_TOKEN = re.compile(
    r"""(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![A-Za-z0-9_.]))
      | (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
      | (?P<text>"(?:[^"\\]|\\["\\])*")
      | (?P<sign><=|>=|!=|=|<|>)
      | (?P<mark>[(),])""",
    re.VERBOSE | re.ASCII,
)
_SPACE = re.compile(r"[ \t\r\n]*")
_KEYWORDS = frozenset({"and", "or", "not", "in", "has", "true", "false"})


def read_filter(text: str) -> Expression:
    """Return the filter that a text describes.

    Raises
    ------
    FilterError
        With the position of what is wrong; there is no other error.
    """
    if len(text) > MOST_FILTER_LENGTH:
        raise FilterError(
            f"the filter has {len(text):,} characters; at most {MOST_FILTER_LENGTH:,} are taken"
        )
    reader = _Reader(_tokens(text))
    found = reader.either(depth=1)
    reader.end()
    return found


class _Token(NamedTuple):
    kind: str
    text: str
    position: int

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:40])


def _tokens(text: str) -> list[_Token]:
    found = []
    at = _SPACE.match(text).end()  # type: ignore[union-attr]
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FilterError(_unreadable(text, at), at + 1)
        found.append(_Token(match.lastgroup or "", match[0], at + 1))
        at = _SPACE.match(text, match.end()).end()  # type: ignore[union-attr]
    return [*found, _Token("end", "", len(text) + 1)]


def _unreadable(text: str, at: int) -> str:
    if text[at] == '"':
        return 'a text that does not end, or with a \\ that is not before " or \\'
    if text[at] == "'":
        return 'a text stands in double quotes: "fuel"'
    if text[at : at + 2] in ("==", "&&", "||"):
        return f"{text[at : at + 2]!r} is not known; write =, and, or"
    return f"{text[at]!r} is not part of a filter"


class _Reader:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._comparisons = 0

    def either(self, depth: int) -> Expression:
        parts = [self._both(depth)]
        while self._taken("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def end(self) -> None:
        if self._next.kind != "end":
            raise self._wrong("'and', 'or' or the end is wanted")

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _both(self, depth: int) -> Expression:
        parts = [self._one(depth)]
        while self._taken("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self, depth: int) -> Expression:
        if depth > MOST_DEPTH:
            raise FilterError(f"deeper than {MOST_DEPTH} levels", self._next.position)
        if self._taken("not"):
            return Not(self._one(depth + 1))
        if self._taken("("):
            inner = self.either(depth + 1)
            self._take(")")
            return inner
        if self._taken("has"):
            self._count(1)
            return Has(self._name())
        name = self._name()
        if self._taken("in"):
            values = self._values()
            self._count(len(values))
            return In(name, values)
        self._count(1)
        return self._comparison(name)

    def _comparison(self, name: str) -> Expression:
        sign = self._next
        if sign.kind != "sign":
            raise self._wrong(f"after {name!r:.60} one of {' '.join(OPERATORS)} or 'in' is wanted")
        self._at += 1
        value = self._value()
        if sign.text not in ("=", "!=") and not is_number(value):
            raise FilterError(f"{sign.text} compares numbers only", sign.position)
        return Comparison(name, sign.text, value)

    def _values(self) -> tuple[Value, ...]:
        self._take("(")
        values = [self._value()]
        while self._taken(","):
            values.append(self._value())
        self._take(")")
        return tuple(values)

    def _value(self) -> Value:
        token = self._next
        value: Value
        if token.kind == "text":
            value = re.sub(r"\\(.)", r"\1", token.text[1:-1])
        elif token.kind == "number":
            value = int(token.text) if re.fullmatch(r"[-+]?\d+", token.text) else float(token.text)
        elif token.text in ("true", "false"):
            value = token.text == "true"
        else:
            raise self._wrong('a value is wanted (a "text", a number, true or false)')
        check_value(value, "the value", token.position)
        self._at += 1
        return value

    def _name(self) -> str:
        token = self._next
        if token.kind != "word" or token.text in _KEYWORDS:
            raise self._wrong("the name of an attribute is wanted")
        if len(token.text) > MOST_NAME_LENGTH:
            raise FilterError(f"a name longer than {MOST_NAME_LENGTH} characters", token.position)
        self._at += 1
        return token.text

    def _count(self, more: int) -> None:
        self._comparisons += more
        if self._comparisons > MOST_COMPARISONS:
            raise FilterError(f"more than {MOST_COMPARISONS} comparisons", self._next.position)

    def _taken(self, text: str) -> bool:
        if self._next.text != text:
            return False
        self._at += 1
        return True

    def _take(self, text: str) -> None:
        if not self._taken(text):
            raise self._wrong(f"{text!r} is wanted")

    def _wrong(self, wanted: str) -> FilterError:
        return FilterError(f"{wanted}, not {self._next.shown}", self._next.position)
