"""What ``nearcast client`` reads and prints: one JSON object per line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from nearcast.errors import ConfigError

__all__ = ["print_line", "read_area_option", "read_attribute", "read_batches"]

Line = TypeVar("Line", bound=msgspec.Struct)

_CHUNK_BYTES = 1 << 16
_LINE_LIMIT_BYTES = 1 << 20


def read_attribute(text: str) -> tuple[str, str | bool | int | float]:
    """Return name and value of NAME=VALUE; true, false and numbers are read as such."""
    name, sign, value = text.partition("=")
    if not sign:
        raise ConfigError(f"--attribute {text!r}: is NAME=VALUE")
    try:
        read = json.loads(value)
    except ValueError:
        return name, value
    return name, read if isinstance(read, str | bool | int | float) else value


def read_area_option(given: str | None) -> str | None:
    """Return the text of an area, read from a file where it says so."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text()
    except (OSError, ValueError) as error:
        raise ConfigError(f"--area {given}: {error}") from None


def read_batches(kind: type[Line]) -> Iterator[list[tuple[int, Line]]]:
    """Yield the lines of standard input with their numbers, all that are there at a time.

    ConfigError names a bad line, after those before it were yielded.
    """
    stdin: Any = sys.stdin.buffer
    decode = msgspec.json.Decoder(kind).decode
    number, rest = 0, b""
    while chunk := stdin.read1(_CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from _decode_lines(lines, number, decode)
        number += len(lines)
        if len(rest) > _LINE_LIMIT_BYTES:
            raise ConfigError(f"line {number + 1}: longer than {_LINE_LIMIT_BYTES} bytes")
    yield from _decode_lines([rest], number, decode)


def _decode_lines(
    lines: list[bytes], before: int, decode: Callable[[bytes], Line]
) -> Iterator[list[tuple[int, Line]]]:
    batch = []
    for number, line in enumerate(lines, start=before + 1):
        if not line.strip():
            continue
        try:
            batch.append((number, decode(line)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            yield batch
            raise ConfigError(f"line {number}: {error}") from None
    yield batch


def print_line(values: dict[str, Any]) -> None:
    """Print one JSON object on a line of its own, at once."""
    click.echo(json.dumps(values, ensure_ascii=False))
