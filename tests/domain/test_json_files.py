"""Values on their way to JSON and back."""

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearcast.domain.columns import Place
from nearcast.domain.json_files import plain_json, read_json_object, write_json


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(0.5), 0.5),
        (np.int8(-3), -3),
        (np.bool_(True), True),
        (math.nan, None),
        (np.array([[1.0, -np.inf]]), [[1.0, None]]),
        (Colour.RED, "red"),
        ({Colour.RED: (1, None), 2: "é"}, {"red": [1, None], "2": "é"}),
        (Path("a") / "b", "a/b"),
    ],
)
def test_values_become_plain(value: Any, plain: Any) -> None:
    result = plain_json(value)
    assert result == plain
    assert json.loads(json.dumps(result, allow_nan=False)) == plain


def test_what_has_no_form_in_json_is_a_bug() -> None:
    with pytest.raises(TypeError, match="object has no form in JSON"):
        plain_json({"x": object()})


def test_an_object_comes_back_in_the_same_order(tmp_path: Path) -> None:
    content = {"z": 1, "a": {"é": [True, None, 0.1]}}
    write_json(tmp_path / "x.json", content)
    again = read_json_object(tmp_path / "x.json", Place("x.json"))
    assert again == content
    assert list(again) == ["z", "a"]
    assert (tmp_path / "x.json").read_bytes().endswith(b"}\n")
