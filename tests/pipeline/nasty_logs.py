"""Logs as the world writes them: heavy tails, odd names, repeats, and every kind of bad row, counted."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

Cells = dict[str, str]

START_S = 1_700_000_000
NOW_S = START_S + 7 * 86_400.0
_NAMES = (
    "Zürich/温度",
    "a,b",
    'say "hi"',
    "#1",
    "null",
    "🚲",
    "עיר",
    "e\u0301",
    "NaN",
    "0",
    "x\ty",
)
_COMMENTS = ("", "fine", 'in, "quotes"', '"', "long " * 20_000)
_TIME, _PLACE = "time is neither seconds nor a date", "position is not a pair of numbers"
_RANGE = " is out of range"

BAD_CELLS: dict[str, list[tuple[str, str]]] = {
    "no client": [("client", ""), ("client", " \t")],
    "no topic": [("topic", "")],
    "control character in a name": [("client", "c\x003"), ("topic", "t\x7f"), ("topic", "a\x85b")],
    _TIME: [("time", ""), ("time", "soon"), ("time", "nan"), ("time", "2024-13-01")],
    "time" + _RANGE: [("time", "2096-01-01"), ("time", "1e15"), ("time", "1e300")],
    f"time{_RANGE}, as if it were in milliseconds": [("time", str(START_S * 1000))],
    _PLACE: [("x", "inf"), ("y", "two"), ("y", ""), ("x", "1e999")],
    "position" + _RANGE: [("x", "1e9"), ("y", "-1e300")],
    "size is not a number": [("size", "big"), ("size", "0x10")],
    "size" + _RANGE: [("size", "-1"), ("size", "1e200")],
    "unknown action": [("action", "shout")],
}
BAD_LINES: dict[str, list[Callable[[str], str]]] = {
    "json": [
        lambda line: line + line,
        lambda line: f"{line} trailing",
        lambda line: line[: len(line) // 2],
        lambda line: f"[{line}]",
        lambda line: f'{{"topic": "lost", {line[1:]}',
        lambda line: f"{{'topic': 'single', {line[1:]}",
        lambda line: line.replace('"topic": "', '"topic": {"a": "b"}, "others": "'),
        lambda line: line.replace('"client": "', '"client": ["a"], "others": "'),
        lambda _: "3",
        lambda line: f'{line[:-1]}, "deep": {"[" * 5_000}{"]" * 5_000}}}',
    ],
    "csv": [
        lambda line: line.rpartition(",")[0],
        lambda line: f"{line},more",
        lambda line: '"' + line.replace('"', ""),
        lambda _: "...",
        # Two lines each: a line break inside quotes is none of ours.
        lambda line: '"road\nnorth"' + line[_end_of_cell(line) :],
        lambda line: f'{line.rpartition(",")[0]},"multi\nline"',
        lambda line: '"t"x' + line[_end_of_cell(line) :],
        lambda line: '"a"b"' + line[_end_of_cell(line) :],
        lambda line: 'say "hi"' + line[_end_of_cell(line) :],
        lambda line: f'{line.rpartition(",")[0]},"{"long " * 20_000}',
    ],
    "parquet": [],
}


NOT_TEXT = {"json": b'{"topic": "t\xff", "client": "\xc3\x28"}', "csv": b"t\xff,c,1,1,1,,publish,"}


@dataclass(frozen=True, slots=True)
class NastyLog:
    """What was written, and what must become of it."""

    good: list[Cells]
    """In the order of the file."""
    bad: Counter[str]
    """Rows to be put aside, by reason."""


def write_nasty_log(path: Path, *, good: int, seed: int, in_degrees: bool = False) -> NastyLog:
    """Write a log; its good rows are the same in every format."""
    kind = {".jsonl": "json", ".csv": "csv", ".parquet": "parquet"}[path.suffixes[0]]
    axes = {"x": "latitude", "y": "longitude"} if in_degrees else {"x": "x_km", "y": "y_km"}
    rows = _good_rows(np.random.default_rng(seed), good, in_degrees)
    rng = np.random.default_rng(seed + 1)
    entries: list[tuple[Cells, bytes]] = [(row, _line(row, kind)) for row in rows]
    reasons = Counter[str]()

    def put(reason: str, cells: Cells, line: bytes) -> None:
        reasons[reason] += 1
        entries.insert(int(rng.integers(len(entries) + 1)), (cells, line))

    # Parquet holds no broken line: what is left are the cells.
    for reason, cells in BAD_CELLS.items():
        for name, value in cells * int(rng.integers(1, 5)):
            row = rows[rng.integers(good)] | {axes.get(name, name): value}
            put(reason, row, _line(row, kind))
    if in_degrees:
        lost = rows[0] | {"latitude": "0", "longitude": "0.0"}
        put("position is 0, 0", lost, _line(lost, kind))
    for break_line in BAD_LINES[kind]:
        for _ in range(int(rng.integers(1, 5))):
            line = _line(rows[rng.integers(good)], kind).decode()
            for broken in break_line(line).split("\n"):
                put(f"malformed {kind.upper()}", {}, broken.encode())
    if kind != "parquet":
        put("not UTF-8", {}, NOT_TEXT[kind])
    _write(path, kind, entries)
    is_bad = {id(cells) for cells, _ in entries} - {id(row) for row in rows}
    return NastyLog([cells for cells, _ in entries if id(cells) not in is_bad], reasons)


def _good_rows(rng: np.random.Generator, count: int, in_degrees: bool) -> list[Cells]:
    """Return publications with few topics of most rows, tied and unordered times, and repeats."""
    topic = np.minimum(rng.zipf(1.3, count), 40)
    x0, y0 = (48.1, 11.5) if in_degrees else (5.0, 5.0)
    rows: list[Cells] = []
    for number in range(count):
        if rows and rng.random() < 0.05:
            rows.append(dict(rows[rng.integers(len(rows))]))
            continue
        client = int(rng.integers(60))
        name = _NAMES[client] if client < len(_NAMES) else f"c{client}"
        row = {
            "topic": _NAMES[topic[number] % len(_NAMES)] + str(topic[number]),
            "client": name,
            "time": str(START_S + int(rng.integers(3600))),
            "latitude" if in_degrees else "x_km": repr(x0 + float(rng.normal(0, 0.05))),
            "longitude" if in_degrees else "y_km": repr(y0 + float(rng.normal(0, 0.05))),
            "size": str(rng.integers(1, 9)) if rng.random() < 0.8 else "",
            "action": "publish",
            "comment": _COMMENTS[number % len(_COMMENTS)],
        }
        rows.append(row)
    return rows


def _line(row: Cells, kind: str) -> bytes:
    if kind == "json":
        return json.dumps(row, ensure_ascii=False).encode()
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(row.values())
    return text.getvalue().encode()


def _end_of_cell(line: str) -> int:
    """Return where the first cell of a line of CSV ends."""
    first = io.StringIO()
    csv.writer(first, lineterminator="").writerow([next(csv.reader([line]))[0]])
    return len(first.getvalue())


def _write(path: Path, kind: str, entries: list[tuple[Cells, bytes]]) -> None:
    if kind == "parquet":
        table = pa.Table.from_pylist([cells for cells, _ in entries])
        pa_parquet.write_table(table, path, row_group_size=64)
        return
    header = [",".join(entries[0][0] or entries[-1][0]).encode()] if kind == "csv" else []
    # Some files end their lines as Windows does, and leave lines empty.
    data = b"\r\n".join([*header, *(line for _, line in entries), b"", b"  "])
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
