from __future__ import annotations

import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.domain.plan import Model, Objective
from nearcast.errors import ConfigError, NearcastError
from nearcast.pipeline.sweep import spec as spec_module
from nearcast.pipeline.sweep.cell import SweepCell
from nearcast.pipeline.sweep.spec import expand, read_spec

LEAST: dict[str, Any] = {"methods": "nearest", "scenario": {"source": "reloc2021"}}


def test_the_least_specification_is_one_cell() -> None:
    assert expand(LEAST) == [SweepCell("reloc2021", method="nearest")]


def test_the_example_in_the_documentation_works(tmp_path: Path) -> None:
    text = (spec_module.__doc__ or "").partition("::\n")[2]
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    cells = read_spec(file)
    assert len(cells) == 3 * 2 * 10 * 5
    assert {cell.iterations for cell in cells} == {20000}
    assert {cell.time_limit_s for cell in cells} == {10.0}
    assert {cell.regions for cell in cells} == {4, None}


@given(
    sigma=st.lists(st.sampled_from([1, 2.5, 5, 10]), min_size=1, unique=True),
    spool=st.lists(st.integers(1, 8), min_size=1, max_size=3, unique=True),
    methods=st.lists(st.sampled_from(["nearest", "reloc", "otos"]), min_size=1, unique=True),
    seeds=st.integers(1, 4),
)
def test_cells_are_the_full_product(
    sigma: list[float], spool: list[int], methods: list[str], seeds: int
) -> None:
    parameters = {"sigma_km": sigma, "spool_per_member": spool}
    scenario = {"source": "reloc2021", "parameters": parameters}
    cells = expand({"methods": methods, "seeds": seeds, "scenario": scenario})
    reference = [
        SweepCell.of("reloc2021", {"sigma_km": a, "spool_per_member": b}, seed=s, method=m)
        for a, b, s, m in product(sigma, spool, range(seeds), methods)
    ]
    assert cells == reference
    assert len({cell.cell_id for cell in cells}) == len(cells)


def test_objectives_multiply_the_placement_model_only() -> None:
    cells = expand(
        {
            **LEAST,
            "models": ["ratio", "placement"],
            "objectives": ["d1", "d3"],
            "seeds": [7, 3],
        }
    )
    assert [(cell.seed, cell.model, cell.objective) for cell in cells] == [
        (seed, model, objective)
        for seed in (7, 3)
        for model, objective in (
            (Model.RATIO, Objective.D1),
            (Model.PLACEMENT, Objective.D1),
            (Model.PLACEMENT, Objective.D3),
        )
    ]


def test_a_path_begins_at_the_files_folder(tmp_path: Path) -> None:
    (tmp_path / "city").mkdir()
    file = tmp_path / "sweep.toml"
    file.write_text(
        'methods = "nearest"\n[scenario]\nsource = "folder"\nparameters = {path = "city"}\n'
    )
    assert read_spec(file)[0].parameters == f'{{"path": "{tmp_path / "city"}"}}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('colour = "red"', "colour: no such key"),
        ('[scenario]\nsource = "reloc2021"\nsize = 1', "scenario.size: no such key"),
        ("[scenario]\nparameters = {topics = 4}", "scenario.source: is missing"),
        ('[scenario]\nsource = "mars"', "no scenario source 'mars'"),
        (
            '[scenario]\nsource = "reloc2021"\nparameters = {sigma = 1}',
            "source 'reloc2021' has no parameter 'sigma'",
        ),
        ('[scenario]\nsource = "reloc2021"\nparameters = {topics = 0}', "topics and servers must"),
        ('[scenario]\nsource = "reloc2021"\nparameters = {topics = "x"}', "'topics|with"),
        ('[scenario]\nsource = "reloc2021"\nparameters = {topics = [[1]]}', "parameters.topics"),
        ('[scenario]\nsource = "reloc2021"\nparameters = {topics = []}', "parameters.topics"),
        ('[scenario]\nsource = "reloc2021"\nparameters = 3', "parameters: must be a table"),
        ('[scenario]\nsource = "folder"', "source 'folder' needs the parameter 'path'"),
        ('[scenario]\nsource = "folder"\nparameters = {path = "no"}', "there is no .*no"),
        ("scenario = 3", "scenario: must be a table"),
        ("methods = 3", "methods: must be text"),
        ('methods = ["magic"]', "there is no method 'magic'"),
        ('models = ["magic"]', "models: no 'magic'; there are: connections"),
        ('objectives = ["d1"]', "objectives: only the placement model"),
        ('models = "placement"\nobjectives = "d9"', "objectives: no 'd9'"),
        ("regions = 1.5", "regions: must be whole numbers"),
        ("regions = 0", "regions must be 1 or more"),
        ("seeds = 0", "seeds: must be"),
        ("seeds = [1, true]", "seeds: must be"),
        ("seeds = [-1]", "seed must not be negative"),
        ("[limits]\niterations = 1.5", "limits.iterations: must be one number"),
        ("[limits]\ntime_limit_s = [1, 2]", "limits.time_limit_s: must be one number"),
        ("[limits]\ntime_limit_s = 0", "time limit must be positive"),
        ("[limits]\npatience = 1", "limits.patience: no such key"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    given_keys = tomllib.loads(text)
    with pytest.raises(NearcastError, match=said):
        expand({**LEAST, **given_keys})


@pytest.mark.parametrize("missing", ["methods", "scenario"])
def test_what_is_missing_is_named(missing: str) -> None:
    rest = {key: value for key, value in LEAST.items() if key != missing}
    with pytest.raises(ConfigError, match=f"^{missing}: is missing"):
        expand(rest)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    with pytest.raises(ConfigError, match=r"sweep.toml: No such file"):
        read_spec(file)
    file.write_text("methods = [")
    with pytest.raises(ConfigError, match=r"sweep.toml: is not TOML"):
        read_spec(file)
    file.write_text('methods = "magic"\n[scenario]\nsource = "reloc2021"')
    with pytest.raises(ConfigError, match=r"sweep.toml: there is no method 'magic'"):
        read_spec(file)
