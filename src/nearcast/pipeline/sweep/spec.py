"""A sweep as a TOML file: every list is an axis, the cells are their full product.

::

    methods = ["nearest", "reloc", "optimised"]
    models = "ratio"             # default; objectives = "d1" counts for "placement" only
    regions = [4, "auto"]        # default 4
    seeds = 10                   # 0 to 9, or a list of them; default 1

    [scenario]
    source = "reloc2021"         # or reloc2020, placement2022, city, follows, folder

    [scenario.parameters]
    sigma_km = [1, 5, 10, 15, 20]
    spool_per_member = 2
    # path = "..."               # of follows and folder: counted from this file's folder

    [limits]                     # all optional
    iterations = 20000
    time_limit_s = 10
    bound_limit_s = 10
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from nearcast.domain.plan import Model, Objective
from nearcast.errors import ConfigError, NearcastError
from nearcast.pipeline.sweep.cell import SweepCell, check_cell

__all__ = ["expand", "read_spec"]

_KEYS = {"scenario", "methods", "models", "objectives", "regions", "seeds", "limits"}
_LIMITS = {"iterations": int, "time_limit_s": float, "bound_limit_s": float}

_Choice = TypeVar("_Choice", Model, Objective)


def read_spec(path: Path) -> list[SweepCell]:
    """Return the cells of a sweep file.

    Raises
    ------
    ConfigError
        When the file cannot be read or says something that cannot be run; the key is named.
    """
    try:
        with path.open("rb") as file:
            spec = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from error
    try:
        return expand(spec, path.absolute().parent)
    except NearcastError as error:
        raise ConfigError(f"{path}: {error}") from error


def expand(spec: Mapping[str, Any], folder: Path = Path()) -> list[SweepCell]:
    """Return every combination that a specification asks for, scenario by scenario.

    Parameters
    ----------
    spec : what the TOML file holds.
    folder : where a relative `path` of a scenario begins.

    Raises
    ------
    ConfigError, PlanningError
        When a key is unknown or missing, or a value cannot be used.
    """
    _check_keys("", spec, _KEYS)
    source, scenarios = _scenarios(_table(spec, "scenario"), folder)
    models = [_choice(Model, "models", name) for name in _axis(spec, "models", ["ratio"])]
    objectives = [
        _choice(Objective, "objectives", name) for name in _axis(spec, "objectives", ["d1"])
    ]
    if "objectives" in spec and Model.PLACEMENT not in models:
        raise ConfigError("objectives: only the placement model has them")
    methods = [_text("methods", name) for name in _axis(spec, "methods")]
    regions = [_regions(value) for value in _axis(spec, "regions", [4])]
    limits = _limits(_table(spec, "limits", required=False))
    cells = [
        SweepCell.of(
            source,
            parameters,
            seed=seed,
            model=model,
            method=method,
            objective=objective,
            regions=region,
            **limits,
        )
        for parameters, seed, model, method, region in product(
            scenarios, _seeds(spec.get("seeds", 1)), models, methods, regions
        )
        for objective in (objectives if model is Model.PLACEMENT else [Objective.D1])
    ]
    cells = list(dict.fromkeys(cells))
    for cell in cells:
        check_cell(cell)
    return cells


def _scenarios(table: Mapping[str, Any], folder: Path) -> tuple[str, list[dict[str, Any]]]:
    _check_keys("scenario.", table, {"source", "parameters"})
    if "source" not in table:
        raise ConfigError("scenario.source: is missing")
    axes = {
        name: _axis({name: value}, name, where="scenario.parameters.")
        for name, value in _table(table, "parameters", required=False).items()
    }
    if "path" in axes:
        axes["path"] = [str(folder / _text("path", path)) for path in axes["path"]]
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return _text("scenario.source", table["source"]), points


def _seeds(value: Any) -> list[int]:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return list(range(value))
    if isinstance(value, list) and value and all(type(seed) is int for seed in value):
        return value
    raise ConfigError(f"seeds: must be a number of seeds or a list of them, not {value!r}")


def _regions(value: Any) -> int | None:
    if value == "auto":
        return None
    if type(value) is not int:
        raise ConfigError(f"regions: must be whole numbers or 'auto', not {value!r}")
    return value


def _limits(table: Mapping[str, Any]) -> dict[str, Any]:
    _check_keys("limits.", table, set(_LIMITS))
    limits = {}
    for name, value in table.items():
        allowed = (int,) if _LIMITS[name] is int else (int, float)
        if type(value) not in allowed:
            raise ConfigError(f"limits.{name}: must be one number, not {value!r}")
        limits[name] = _LIMITS[name](value)
    return limits


def _table(spec: Mapping[str, Any], key: str, *, required: bool = True) -> Mapping[str, Any]:
    table = spec.get(key, None if required else {})
    if not isinstance(table, dict):
        raise ConfigError(f"{key}: " + ("is missing" if table is None else "must be a table"))
    return table


def _axis(
    spec: Mapping[str, Any], key: str, default: list[Any] | None = None, where: str = ""
) -> list[Any]:
    if key not in spec and default is None:
        raise ConfigError(f"{where}{key}: is missing")
    value = spec.get(key, default)
    values = value if isinstance(value, list) else [value]
    if not values or any(isinstance(one, list | dict) for one in values):
        raise ConfigError(f"{where}{key}: must be a value or a list of values, not {value!r}")
    return values


def _choice(kind: type[_Choice], key: str, name: Any) -> _Choice:
    try:
        return kind(name)
    except ValueError as error:
        raise ConfigError(f"{key}: no {name!r}; there are: {', '.join(kind)}") from error


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{key}: must be text, not {value!r}")
    return value


def _check_keys(where: str, table: Mapping[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{where}{key}: no such key; there are: {', '.join(sorted(known))}")
