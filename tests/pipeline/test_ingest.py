from __future__ import annotations

import gzip
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from nearcast.errors import PipelineError, ScenarioError
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.raw_logs import LogShape, write_publication_log
from nearcast.pipeline.stages.ingest import ingest_publications
from nearcast.pipeline.workspace import Workspace
from pipeline.log_rows import Row, random_rows, write_rows

HEADER = "topic,client,time,x_km,y_km,size,action\n"


def ingest(workspace: Workspace, *paths: Path) -> StageRecord:
    record = StageRecord("ingest")
    ingest_publications(workspace, paths, record)
    return record


def publications(workspace: Workspace) -> list[Row]:
    rows: list[Row] = workspace.load("publications").toArrow().sort_by("row").to_pylist()
    return rows


DIRTY_CELLS: dict[str, list[tuple[object, str]]] = {
    "client": [("", "no client"), ("  ", "no client")],
    "topic": [("", "no topic")],
    "time": [
        ("", "time is neither seconds nor a date"),
        ("NaN", "time is neither seconds nor a date"),
        ("12:00", "time is neither seconds nor a date"),
        ("5d", "time is neither seconds nor a date"),
        ("2024-13-01", "time is neither seconds nor a date"),
    ],
    "x_km": [
        ("inf", "position is not a pair of numbers"),
        ("1e999", "position is not a pair of numbers"),
    ],
    "y_km": [
        ("", "position is not a pair of numbers"),
        ("two", "position is not a pair of numbers"),
    ],
    "size": [("-1", "size is out of range"), ("big", "size is not a number")],
    "action": [("shout", "unknown action")],
}


def dirty_text(kind: str, seed: int) -> tuple[str, Counter[str], list[str]]:
    """Return a file, the reasons to put rows aside, and the clients of the others in order."""
    chance = random.Random(seed)
    broken = {"csv": ["t,c", 't,c,1,1,1,1,publish,extra,"'], "json": ["{", "[1", "null", "3"]}
    lines, reasons, clients = [], Counter[str](), []
    for number in range(150):
        row: dict[str, object] = {
            "topic": f"t{chance.randrange(5)}",
            "client": f"c{number}",
            "time": chance.choice(["2024-05-01T12:00:00Z", str(number)]),
            "x_km": str(chance.random()),
            "y_km": str(-chance.random()),
            "size": chance.choice(["", "2", "0.5"]),
            "action": chance.choice(["", "publish", "Subscribe", " unsubscribe "]),
        }
        fault = chance.choice(["none", "none", "broken", *DIRTY_CELLS])
        if fault == "broken":
            reasons["malformed " + kind.upper()] += 1
            lines.append(chance.choice(broken[kind]))
            continue
        if fault == "none":
            clients.append(f"c{number}")
        else:
            row[fault], reason = chance.choice(DIRTY_CELLS[fault])
            reasons[reason] += 1
        if kind == "csv":
            lines.append(",".join(str(cell) for cell in row.values()))
        else:
            lines.append(json.dumps(row))
        lines.extend([""] * chance.randrange(2))
    return (HEADER if kind == "csv" else "") + "\n".join(lines), reasons, clients


@pytest.mark.parametrize(("kind", "seed"), [("csv", 1), ("json", 2), ("csv", 3)])
def test_every_row_is_either_used_or_put_aside_with_its_reason(
    workspace: Workspace, tmp_path: Path, kind: str, seed: int
) -> None:
    text, reasons, clients = dirty_text(kind, seed)
    (tmp_path / f"log.{kind}").write_text(text)
    record = ingest(workspace, tmp_path / f"log.{kind}")
    assert record.rows_in == 150
    assert record.rows_in == record.rows_out + record.quarantined
    assert record.notes["reasons"] == reasons
    assert [row["client"] for row in publications(workspace)] == clients
    aside = workspace.load("quarantine").toArrow().to_pylist()
    assert Counter(row["reason"] for row in aside) == reasons
    assert all(row["text"] in text and row["file"].endswith(f"log.{kind}") for row in aside)


WHOLE = '{"topic":"t","client":"c","time":1,"x_km":1,"y_km":2}'
NESTED = '{"topic":"}{","client":"c","time":1,"x_km":1,"y_km":2,"more":{"a":[1,{}]}}'


def test_what_follows_a_json_object_in_its_line_puts_it_aside(
    workspace: Workspace, tmp_path: Path
) -> None:
    ends = ["{}", WHOLE, f" {WHOLE}", f",{WHOLE}", " rest", "]", "}", ",", ',"x"]', "\0", "//", "1"]
    broken = [start + end for start in (WHOLE, NESTED) for end in ends]
    lines = [WHOLE, *broken, NESTED, f" {WHOLE}\t\r"]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    record = ingest(workspace, tmp_path / "log.jsonl")
    assert (record.rows_in, record.rows_out) == (len(lines), 3)
    aside = workspace.load("quarantine").orderBy("row").toArrow().column("text").to_pylist()
    assert aside == broken
    assert record.notes["reasons"] == {"malformed JSON": len(broken)}


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (WHOLE.replace('"y_km"', '"y_km "'), "position is not a pair of numbers"),
        (WHOLE.replace('"topic"', '"Topic"'), "no topic"),
        (WHOLE.replace('"topic"', '"topic_id"'), "no topic"),
        (WHOLE.replace("_km", ""), "position is not a pair of numbers"),
        (
            WHOLE.replace("x_km", "latitude").replace("y_km", "lon"),
            "position is not a pair of numbers",
        ),
        (WHOLE.replace('"topic"', '"Topic":"u","topic"'), None),
    ],
)
def test_one_odd_row_of_json_does_not_decide_on_the_columns(
    workspace: Workspace, tmp_path: Path, odd: str, reason: str | None
) -> None:
    (tmp_path / "log.jsonl").write_text("\n".join([odd, WHOLE, WHOLE]))
    record = ingest(workspace, tmp_path / "log.jsonl")
    assert record.notes["reasons"] == ({} if reason is None else {reason: 1})
    assert [row["topic"] for row in publications(workspace)] == ["t"] * record.rows_out


def test_dirty_rows_of_parquet_are_counted_too(workspace: Workspace, tmp_path: Path) -> None:
    shape = LogShape(clients=50, topics=20, members=400, dirty=0.2)
    dirty = write_publication_log(tmp_path / "log.parquet", shape, 3)
    record = ingest(workspace, tmp_path / "log.parquet")
    assert (record.rows_in, record.quarantined) == (400, dirty)
    assert len(record.notes["reasons"]) == 5
    texts = workspace.load("quarantine").toArrow().column("text").to_pylist()
    assert all("topic" in json.loads(text) for text in texts)


def test_files_of_a_folder_are_one_log_in_the_order_of_their_names(
    workspace: Workspace, tmp_path: Path
) -> None:
    folder = tmp_path / "logs [1] {a,b} + ü"
    folder.mkdir()
    rows = random_rows(90)
    # The later a file the larger: Spark itself starts with the largest.
    write_rows(folder / "a%20b.csv", rows[:10])
    write_rows(folder / "b.csv.gz", rows[10:40])
    write_rows(folder / "c.csv", rows[40:])
    (folder / "d.csv").touch()
    (folder / "_SUCCESS").touch()
    record = ingest(workspace, folder)
    found = publications(workspace)
    assert [row["time_s"] for row in found] == [row["time"] for row in rows]
    assert [row["client"] for row in found] == [str(row["client"]) for row in rows]
    assert (record.rows_in, record.notes["files"], record.notes["empty_files"]) == (90, 3, 1)


def test_actions_times_and_quotes_mean_what_they_say(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "\ufeffTOPIC;Client_ID;timestamp;Lat;lng;action\r\n"
        '"a;""b""";1;2024-05-01T12:00:00.250+02:00;48;11;\r\n'
        "t; 2 ;1.5;48;11;SUBSCRIBE\r\n"
        ";3;2024-05-01;48;11;report\r\n"
        "t;4;0;91;11;\r\n"
    )
    record = ingest(workspace, tmp_path / "log.csv")
    found = publications(workspace)
    assert [row["topic"] for row in found] == ['a;"b"', "t", None]
    assert [row["client"] for row in found] == ["1", "2", "3"]
    assert [row["action"] for row in found] == ["publish", "subscribe", "report"]
    noon = datetime(2024, 5, 1, 10, tzinfo=UTC).timestamp()
    assert [row["time_s"] for row in found] == [noon + 0.25, 1.5, noon - 36_000]
    assert record.notes["positions"] == "degrees"
    assert record.notes["reasons"] == {"position is out of range": 1}


def test_empty_cells_at_both_ends_of_a_line_between_tabs(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_text(
        "topic\tclient\ttime\tx_km\ty_km\taction\tsize\n"
        "\tc\t1\t2\t3\treport\t\n"
        "\t\t\t\n"
        "t\td\t1\t2\t3\t\t\n"
    )
    assert ingest(workspace, tmp_path / "log.csv").quarantined == 0
    assert [row["topic"] for row in publications(workspace)] == [None, "t"]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_timestamps_of_parquet_are_seconds(
    workspace: Workspace, tmp_path: Path, unit: str, zone: str | None
) -> None:
    moment = datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    times = pa.array([moment.replace(tzinfo=None)], pa.timestamp(unit)).cast(
        pa.timestamp(unit, tz=zone)
    )
    ones = pa.array([1], pa.uint64())
    table = pa.table({"topic": ones, "client": ones, "time": times, "x_km": ones, "y_km": [0.5]})
    pa_parquet.write_table(table, tmp_path / "log.parquet")
    ingest(workspace, tmp_path / "log.parquet")
    (row,) = publications(workspace)
    assert row["time_s"] == moment.timestamp()
    assert (row["topic"], row["client"], row["x_km"]) == ("1", "1", 1.0)


Writer = Callable[[Path], Path]


def text_file(name: str, text: str) -> Writer:
    def write(folder: Path) -> Path:
        (folder / name).write_text(text)
        return folder / name

    return write


def parquet_file(**columns: object) -> Writer:
    def write(folder: Path) -> Path:
        usual = {"topic": ["t"], "client": ["c"], "time": [1.0], "x_km": [1.0], "y_km": [1.0]}
        pa_parquet.write_table(pa.table(usual | columns), folder / "log.parquet")
        return folder / "log.parquet"

    return write


def truncated_parquet(folder: Path) -> Path:
    path = parquet_file()(folder)
    path.write_bytes(path.read_bytes()[:-20])
    return path


def truncated_gzip(folder: Path) -> Path:
    text = HEADER + "".join(f"t{n},c{n},1,1,1,{math.sin(n)},\n" for n in range(20_000))
    (folder / "log.csv.gz").write_bytes(gzip.compress(text.encode())[:-1000])
    return folder / "log.csv.gz"


def disguised_gzip(folder: Path) -> Path:
    (folder / "log.csv").write_bytes(gzip.compress(HEADER.encode()))
    return folder / "log.csv"


def mixed_formats(folder: Path) -> Path:
    write_rows(folder / "a.csv", random_rows(2))
    write_rows(folder / "b.jsonl", random_rows(2))
    return folder


def mixed_columns(folder: Path) -> Path:
    write_rows(folder / "a.csv", random_rows(2))
    write_rows(folder / "b.csv", random_rows(2, in_degrees=True))
    return folder


def mixed_types(folder: Path) -> Path:
    parquet_file()(folder).rename(folder / "a.parquet")
    parquet_file(time=["1"])(folder).rename(folder / "b.parquet")
    return folder


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda folder: folder / "gone.csv", "gone.csv: no such file"),
        (lambda folder: folder / "gone-*.csv", r"gone-\*.csv: no such file"),
        (lambda folder: folder, "is a folder without files"),
        (text_file("log.txt", "x"), "log.txt: must end in .csv"),
        (text_file("log.csv", " \n\n"), "log.csv: is empty"),
        (text_file("log.csv", HEADER), "log.csv: has no rows of data"),
        (
            text_file("log.csv", "topic,client,x_km,y_km\nt,c,1,1\n"),
            "no column time or timestamp; the columns found are: topic",
        ),
        (text_file("log.csv", "topic,client,time,x_km\nt,c,1,1\n"), "no column latitude or lat"),
        (text_file("log.csv", "topic,client,client,time\nt,c,c,1\n"), "'client': appears twice"),
        (
            text_file("log.csv", HEADER + "t,c,x,1,1,1,\n"),
            r"none of 1 rows can be used: time is neither seconds nor a date \(1\)",
        ),
        (text_file("log.jsonl", "[1]\n[2]\n"), "log.jsonl: has no line that is a JSON object"),
        (text_file("log.parquet", "PAR1 or not"), "log.parquet: is not a whole Parquet file"),
        (truncated_parquet, "log.parquet: is not a whole Parquet file"),
        (parquet_file(client=[{"a": 1}]), "column 'client': holds struct"),
        (parquet_file(client=[1.5]), "column 'client': holds double, not text"),
        (parquet_file(x_km=[[1.0]]), "column 'x_km': holds list"),
        (disguised_gzip, "log.csv: is packed by gzip; let its name end in .gz"),
        (mixed_formats, "b.jsonl: is json, but .*a.csv is csv"),
        (mixed_columns, "b.csv: has the columns topic, client, time, latitude"),
        (mixed_types, "b.parquet, column 'time': is string, but double in .*a.parquet"),
    ],
)
def test_a_log_that_cannot_be_read_is_named(
    workspace: Workspace, tmp_path: Path, write: Writer, message: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(ScenarioError, match=message):
        ingest(workspace, write(folder))


def test_what_spark_finds_while_it_reads_is_one_sentence(
    workspace: Workspace, tmp_path: Path
) -> None:
    with pytest.raises(PipelineError, match=r"log\.csv\.gz.*\(Unexpected end of input stream\)"):
        ingest(workspace, truncated_gzip(tmp_path))
