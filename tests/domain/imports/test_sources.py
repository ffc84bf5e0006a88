import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from nearcast.domain.imports.sources import codes_of, plain_ids, read_bytes, read_source
from nearcast.errors import ScenarioError

ROWS = [{"name": "a", "value": 1.5}, {"name": "b, c", "value": -2.0}]


def write_csv(path: Path) -> None:
    path.write_text('name,value\na,1.5\n"b, c",-2\n')


def write_semicolons_with_mark_and_windows_ends(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbfname;value\r\na;1.5\r\nb, c;-2\r\n")


def write_tabs_packed(path: Path) -> None:
    path.write_bytes(gzip.compress(b"name\tvalue\na\t 1.5 \nb, c\t-2e0\n", mtime=0))


def write_json_lines(path: Path) -> None:
    path.write_text("\n".join(json.dumps(row) for row in ROWS))


def write_parquet(path: Path) -> None:
    pa_parquet.write_table(pa.Table.from_pylist(ROWS), path)


def write_parquet_of_other_types(path: Path) -> None:
    columns = {
        "name": pa.array(["a", "b, c"]).dictionary_encode(),
        "value": pa.array([1.5, -2], pa.float32()),
    }
    pa_parquet.write_table(pa.table(columns), path)


@pytest.mark.parametrize(
    "write",
    [
        write_csv,
        write_semicolons_with_mark_and_windows_ends,
        write_tabs_packed,
        write_json_lines,
        write_parquet,
        write_parquet_of_other_types,
    ],
)
def test_a_table_is_recognised_by_its_content(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "any-name"
    write(path)
    source = read_source(path)
    assert len(source) == 2
    assert source.texts(source.need(["NAME"])).to_pylist() == ["a", "b, c"]
    assert source.numbers(source.need(["no", "Value"])).tolist() == [1.5, -2]


def test_columns_that_nobody_asks_for_may_hold_anything(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes(b"value,place\n1,Z\xfcrich\n2,\n")
    source = read_source(path)
    assert source.numbers("value").tolist() == [1, 2]
    with pytest.raises(ScenarioError, match="'place': holds bytes that are not UTF-8, not text"):
        source.texts("place")


def test_a_header_may_be_in_any_encoding_but_not_name_a_column_twice(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\n\nL\xe4nge, Lat ,x,X\n1,2,3,4\n")
    source = read_source(path)
    assert source.numbers(source.need(["lat"])).tolist() == [2]
    with pytest.raises(ScenarioError, match="the columns found are: L\ufffdnge, Lat, x, X"):
        source.need(["lon"])
    with pytest.raises(ScenarioError, match="appears twice in the header"):
        source.need(["x"])


def test_the_first_of_the_names_wins_and_a_named_column_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("ID,Site_Id\n1,2\n")
    source = read_source(path)
    assert source.find(["site_id", "id"]) == "Site_Id"
    assert source.find(["site_id", "id"], option="id") == "ID"
    assert source.find(["other"]) is None
    with pytest.raises(ScenarioError, match="no column key; the columns found are: ID, Site_Id"):
        source.find(["id"], option="key")
    with pytest.raises(ScenarioError, match="no column a or b; the columns found are: ID, Site_Id"):
        source.need(["a", "b"])


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("", "row 3, column 'value': is empty"),
        ("  ", "row 3, column 'value': is empty"),
        ("x1", "row 3, column 'value': 'x1' is not a number"),
        ("1..2", "row 3, column 'value': '1..2' is not a number"),
        ("nan", "row 3, column 'value': nan is not a number between 0 and 9"),
        ("inf", "row 3, column 'value': inf is not a number between 0 and 9"),
        ("-1", "row 3, column 'value': -1 is not a number between 0 and 9"),
        ("9.5", "row 3, column 'value': 9.5 is not a number between 0 and 9"),
    ],
)
def test_a_cell_that_is_no_such_number_is_named(cell: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"value,more\n1,x\n2,x\n{cell},x\n4,x\n")
    with pytest.raises(ScenarioError) as error:
        read_source(path).numbers("value", 0, 9)
    assert str(error.value) == f"{path}, {message}"
    assert (error.value.row, error.value.column) == (3, "value")


def test_parquet_cells_are_checked_in_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = {
        "value": [1.0, None],
        "flag": [True, False],
        "name": ["a", None],
        "list": [[1], [2]],
        "exact": pa.array(["1.5", "2"]).cast(pa.decimal128(5, 2)),
    }
    pa_parquet.write_table(pa.table(columns), path)
    source = read_source(path)
    with pytest.raises(ScenarioError, match="row 2, column 'value': is empty"):
        source.numbers("value")
    with pytest.raises(ScenarioError, match="column 'flag': holds bool, not numbers"):
        source.numbers("flag")
    assert source.numbers("exact").tolist() == [1.5, 2]
    with pytest.raises(ScenarioError, match="column 'list': holds list"):
        source.texts("list")
    with pytest.raises(ScenarioError, match="row 2, column 'name': is empty"):
        source.texts("name")
    with pytest.raises(
        ScenarioError, match="column 'value': holds numbers with fractions, not names"
    ):
        source.texts("value")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"a,b\n", "has no rows of data"),
        (b"a,b\n1,2\n3\n", "row 2: has 1 cells, not 2"),
        (b"a,b\n1,2,3\n", "row 1: has 3 cells, not 2"),
        (b"a,b\n1,\0\n", "is not text"),
        (b'{"a": 1}\n{"a": 2}\n{"a": "x"}\n', "row 3: cannot be read"),
        (b'{"a": 1}\n{"a": \n', "cannot be read"),
        (b"PAR1 and nothing else", "cannot be read"),
        (gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-12], "cannot be read"),
    ],
)
def test_a_file_that_is_no_table_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=message) as error:
        read_source(path)
    assert error.value.file == str(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.csv: no such file"):
        read_bytes(tmp_path / "none.csv")
    with pytest.raises(ScenarioError, match="cannot be read"):
        read_bytes(tmp_path)


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (["1", "-20", "0"], [1, -20, 0]),
        (["1", "007"], ["1", "007"]),
        (["1", "x"], ["1", "x"]),
        (["1", "12345678901234567890"], ["1", "12345678901234567890"]),
    ],
)
def test_ids_are_integers_only_if_nothing_changes(texts: list[str], ids: list[object]) -> None:
    assert plain_ids(pa.array(texts)).to_pylist() == ids


def test_texts_are_numbered_in_order_of_appearance() -> None:
    code, names = codes_of(pa.array(["b", "a", "b", "c"]))
    assert code.tolist() == [0, 1, 0, 2]
    assert names.to_pylist() == ["b", "a", "c"]
