"""The error for everything that can be wrong in a scenario: it names file, row and column."""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.small_scenario import SMALL, put, put_parquet
from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import ScenarioError

# What is wrong: (file, content, row, column, words of the message).
WRONG: list[tuple[str, str | bytes, int | None, str | None, str]] = [
    ("servers.csv", "", None, None, "Empty CSV file"),
    ("servers.csv", "\n\n", None, None, "cannot be read"),
    ("servers.csv", "server_id,x_km,y_km\n", None, None, "there are no servers"),
    ("clients.csv", "client_id,x_km,y_km\n", 1, "client_id", "there is no client 3"),
    ("topics.csv", "topic_id\n", 1, "topic_id", "there is no topic 't2'"),
    ("servers.csv", "server,x_km,y_km\na,1,1\n", None, "server_id", "found are: server, x_km, y_km"),
    ("servers.csv", "server_id,x_km,x_km,y_km\na,1,1,1\n", None, "x_km", "twice in the header"),
    ("servers.csv", "server_id,x_km,y_km\na,1,1\nb,1\n", 2, None, "has 2 cells, not 3"),
    ("servers.csv", "server_id,x_km,y_km\na,1,1\n\nb,1,1,1\n", 2, None, "has 4 cells, not 3"),
    ("servers.csv", b"server_id,x_km,y_km\na,1,1\n\xff,1,1\n", 2, "server_id", "UTF-8"),
    ("servers.csv", b"\xff,x_km,y_km\na,1,1\n", None, None, "cannot be read"),
    ("servers.csv", "server_id,x_km,y_km\na,1,1\nb,1,north\n", 2, "y_km", "'north' is not a number"),
    ("servers.csv", "server_id,x_km,y_km\na,1,1\nb,,1\n", 2, "x_km", "is empty"),
    ("servers.csv", "server_id,x_km,y_km\na,1,1\nb,nan,1\n", 2, "x_km", "NaN"),
    ("servers.csv", "server_id,x_km,y_km\na,1,-inf\n", 1, "y_km", "-inf is not finite"),
    ("servers.csv", "server_id,x_km,y_km\na,1,1\n,1,1\n", 2, "server_id", "is empty"),
    ("servers.csv", "server_id,x_km,y_km\na,1,1\nb,1,1\na,2,2\nb,2,2\n", 3, "server_id", "'a' is there twice"),
    ("servers.csv", "server_id,x_km,y_km,storage\na,1,1,-3\n", 1, "storage", "-3 is negative"),
    ("servers.csv", "server_id,x_km,y_km,compute\na,1,1,-1\n", 1, "compute", "-1 is negative"),
    ("servers.csv", "server_id,x_km,y_km,client_limit\na,1,1,-1\n", 1, "client_limit", "is negative"),
    ("servers.csv", "server_id,x_km,y_km,storage\na,1,1,NaN\n", 1, "storage", "NaN"),
    ("clients.csv", "client_id,x_km,y_km\n1,0,0\n2,inf,4\n3,9,7\n", 2, "x_km", "inf is not finite"),
    ("clients.csv", "client_id,x_km,y_km\n1,0,0\n2,3,4\n3,9,7\n2,0,0\n", 4, "client_id", "2 is there twice"),
    ("topics.csv", "topic_id,spool\nt1,8\nt2,-6\n", 2, "spool", "-6 is negative"),
    ("topics.csv", "topic_id,spool\nt1,inf\nt2,6\n", 1, "spool", "inf is not finite"),
    ("topics.csv", "topic_id,permissible_ms\nt1,8\nt2,-6\n", 2, "permissible_ms", "is negative"),
    ("topics.csv", "topic_id,process_ms\nt1,8\nt2,-6\n", 2, "process_ms", "is negative"),
    ("topics.csv", "topic_id\nt1\nt2\nt1\n", 3, "topic_id", "'t1' is there twice"),
    ("topics.csv", "topic_id\nt1\nt2\nt3\n", 3, "topic_id", "topic 't3' has no member"),
    ("members.csv", "topic_id,client_id\nt1,1\nt2,4\n", 2, "client_id", "there is no client 4"),
    ("members.csv", "topic_id,client_id\nt1,1\nt3,2\n", 2, "topic_id", "there is no topic 't3'"),
    ("members.csv", "topic_id,client_id\nt1,1\nt2,1\nt1,1\n", 3, "client_id", "client 1 is in topic 't1' twice"),
    ("members.csv", "topic_id,client_id,publishes\nt1,1,1\nt2,1,yes\n", 2, "publishes", "'yes' is neither 0 nor 1"),
    ("members.csv", "topic_id,client_id,subscribes\nt1,1,1\nt2,1,2\n", 2, "subscribes", "'2' is neither 0 nor 1"),
    ("members.csv", "topic_id,client_id,publishes,subscribes\nt1,1,1,1\nt2,1,0,0\n", 2, "publishes", "neither publishes"),
    ("members.csv", "topic_id,client_id,rate_hz\nt1,1,1\nt2,1,-1\n", 2, "rate_hz", "-1 is negative"),
    ("members.csv", "topic_id,client_id,rate_hz\nt1,1,1\nt2,1,fast\n", 2, "rate_hz", "'fast' is not a number"),
    ("client_server_ms.csv", "client_id,server_id,ms\n1,s1,1\n9,s1,1\n", 2, "client_id", "there is no client 9"),
    ("client_server_ms.csv", "client_id,server_id,ms\n1,s9,1\n", 1, "server_id", "there is no server 's9'"),
    ("client_server_ms.csv", "client_id,server_id,ms\n1,s1,-1\n", 1, "ms", "-1 is negative"),
    ("client_server_ms.csv", "client_id,server_id,ms\n1,s1,inf\n", 1, "ms", "not finite"),
    ("client_server_ms.csv", "client_id,server_id,ms\n1,s1,1\n1,s2,1\n1,s1,1\n", 3, "server_id", "twice"),
    ("server_server_ms.csv", "from_id,to_id,ms\ns1,s2,1\ns2,s2,1\n", 2, "ms", "to itself must be 0"),
    ("server_server_ms.csv", "from_id,to_id\ns1,s2\n", None, "ms", "found are: from_id, to_id"),
    ("scenario.json", "{", None, None, "not valid JSON"),
    ("scenario.json", "[1]", None, None, "must hold a JSON object"),
    ("scenario.json", b"\xff", None, None, "not valid JSON"),
    ("scenario.json", "[" * 100_000, None, None, "not valid JSON"),
    ("scenario.json", '{"cloud_ms": -1}', None, None, '"cloud_ms" must be a number, 0 or more, not -1'),
    ("scenario.json", '{"cloud_ms": NaN}', None, None, "NaN is not a number"),
    ("scenario.json", '{"note": 1e999}', None, None, "1e999 is not a number"),
    ("scenario.json", '{"width_km": "wide"}', None, None, '"width_km" must be a number'),
    ("scenario.json", '{"ms_per_km": true}', None, None, '"ms_per_km" must be a number'),
    ("scenario.json", '{"height_km": 1' + "0" * 400 + "}", None, None, '"height_km" must be a number'),
    ("scenario.json", '{"name": 7}', None, None, '"name" must be a text'),
    ("scenario.json", '{"name": "\\ud800"}', None, None, "not valid JSON"),
    ("scenario.json", '{"generator": 7}', None, None, '"generator" must be a text'),
    ("scenario.json", '{"seed": 1.5}', None, None, '"seed" must be a whole number'),
    ("scenario.json", '{"seed": -1}', None, None, '"seed" must be a whole number'),
]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "row", "column", "words"), WRONG)
def test_an_error_names_file_row_and_column(
    tmp_path: Path, file: str, content: str | bytes, row: int | None, column: str | None, words: str
) -> None:
    folder = put(tmp_path / "city", {file: content})
    with pytest.raises(ScenarioError) as caught:
        read_scenario(folder)
    # What a table lacks shows in the table that needs it.
    blamed = "members.csv" if words.startswith("there is no") and "_ms" not in file else file
    assert caught.value.file == f"city/{blamed}"
    assert (caught.value.row, caught.value.column) == (row, column)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"city/{blamed}")


def test_no_clients_and_no_topics_are_errors(tmp_path: Path) -> None:
    empty = {"members.csv": "topic_id,client_id\n"}
    no_clients = put(tmp_path / "a", {**empty, "clients.csv": "client_id,x_km,y_km\n"})
    with pytest.raises(ScenarioError, match=r"a/clients\.csv: there are no clients"):
        read_scenario(no_clients)
    no_topics = put(tmp_path / "b", {**empty, "topics.csv": "topic_id\n"})
    with pytest.raises(ScenarioError, match=r"b/topics\.csv: there are no topics"):
        read_scenario(no_topics)


def test_a_topic_without_publisher_is_an_error(tmp_path: Path) -> None:
    members = "topic_id,client_id,publishes\nt1,1,1\nt2,1,0\nt2,2,0\n"
    with pytest.raises(ScenarioError, match="topic 't2' has no publisher") as caught:
        read_scenario(put(tmp_path / "s", {"members.csv": members}))
    assert (caught.value.file, caught.value.row) == ("s/topics.csv", 2)


@pytest.mark.parametrize("name", list(SMALL))
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScenarioError, match="missing") as caught:
        read_scenario(put(tmp_path / "s", {name: None}))
    assert caught.value.file == f"s/{name}"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="nowhere: there is no such scenario folder"):
        read_scenario(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match="file: is not a folder"):
        read_scenario(tmp_path / "file")


def test_the_same_table_in_two_formats_is_ambiguous(tmp_path: Path) -> None:
    folder = put(tmp_path / "s", {"topics.parquet": b""})
    with pytest.raises(ScenarioError, match=r"s/topics\.csv: there is also topics\.parquet"):
        read_scenario(folder)


def test_a_folder_in_place_of_a_table_is_an_error(tmp_path: Path) -> None:
    folder = put(tmp_path / "s", {"topics.csv": None})
    (folder / "topics.csv").mkdir()
    with pytest.raises(ScenarioError, match=r"s/topics\.csv: cannot be read"):
        read_scenario(folder)


@pytest.mark.parametrize("length", [0, 3, 100, -1])
def test_a_truncated_parquet_file_is_an_error(tmp_path: Path, length: int) -> None:
    folder = put_parquet(tmp_path / "s", "topics", {"topic_id": ["t1", "t2"]})
    raw = (folder / "topics.parquet").read_bytes()
    (folder / "topics.parquet").write_bytes(raw[:length])
    with pytest.raises(ScenarioError, match=r"s/topics\.parquet: cannot be read"):
        read_scenario(folder)


@pytest.mark.parametrize(
    ("columns", "row", "column", "words"),
    [
        ({"topic_id": ["t1", None]}, 2, "topic_id", "is empty"),
        ({"topic_id": pa.array([b"t1", b"\xff"]).view(pa.string())}, 2, "topic_id", "UTF-8"),
        ({"topic_id": [1.5, 2.5]}, None, "topic_id", "holds double, not strings or integers"),
        ({"topic_id": ["t1", "t2"], "spool": [1.0, float("nan")]}, 2, "spool", "NaN"),
        ({"topic_id": ["t1", "t2"], "spool": ["1", "x"]}, 2, "spool", "'x' is not a number"),
        ({"topic_id": ["t1", "t2"], "spool": [[1], [2]]}, None, "spool", "holds list"),
        ({"topic_id": ["t1", "t2"], "spool": [True, True]}, None, "spool", "holds bool"),
        ({"topic": ["t1", "t2"]}, None, "topic_id", "found are: topic"),
    ],
)
def test_an_error_in_parquet_names_row_and_column(
    tmp_path: Path, columns: dict[str, Any], row: int | None, column: str, words: str
) -> None:
    with pytest.raises(ScenarioError, match=words) as caught:
        read_scenario(put_parquet(tmp_path / "s", "topics", columns))
    assert caught.value.file == "s/topics.parquet"
    assert (caught.value.row, caught.value.column) == (row, column)


def test_flags_of_a_type_without_two_values_are_an_error(tmp_path: Path) -> None:
    columns = {"topic_id": ["t1", "t2"], "client_id": [1, 2], "publishes": [1.0, 1.0]}
    with pytest.raises(ScenarioError, match="holds double, not 0 and 1") as caught:
        read_scenario(put_parquet(tmp_path / "s", "members", columns))
    assert caught.value.column == "publishes"


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(list(SMALL)), st.data())
def test_whatever_bytes_are_in_a_file_nothing_but_a_scenario_error_comes(
    name: str, data: st.DataObject
) -> None:
    content = bytearray(SMALL[name].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        cut = data.draw(st.integers(0, 8))
        odd = st.sampled_from([b",", b"\n", b'"', b"\r", b"\x00", b"1e999", b"-", b"\xef\xbb\xbf"])
        content[at : at + cut] = data.draw(st.binary(max_size=6) | odd)
    with tempfile.TemporaryDirectory() as base:
        folder = put(Path(base) / "s", {name: bytes(content)})
        try:
            topics = len(read_scenario(folder).topics)
        except ScenarioError:
            topics = None
        assert topics is None or topics > 0
