"""A scenario on all workers: its arrays mapped into memory, without the users' ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.domain.part import take_part
from nearcast.domain.scenario import (
    Clients,
    Members,
    Scenario,
    ScenarioSettings,
    Servers,
    Topics,
)
from nearcast.pipeline.shared_arrays import SharedArrays, share_arrays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SharedScenario", "share_scenario"]

_TABLES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "servers": (Servers, ("x_km", "y_km", "storage", "compute", "client_limit")),
    "clients": (Clients, ("x_km", "y_km")),
    "topics": (Topics, ("spool", "permissible_ms", "process_ms")),
    "members": (Members, ("topic", "client", "publishes", "subscribes", "rate_hz")),
}
_NAMES = {"servers": ("ids", "net_id"), "clients": ("ids",), "topics": ("ids",), "members": ()}
"""Columns that workers do without."""
_MATRICES = ("client_server_ms", "server_server_ms")


@dataclass(frozen=True, slots=True)
class SharedScenario:
    """What a task needs to find the scenario; small, so it travels with the task."""

    settings: ScenarioSettings
    arrays: SharedArrays

    def load(self) -> Scenario:
        """Return the scenario; its arrays cannot be written to, and its ids are all missing."""
        arrays = {name: np.asarray(array) for name, array in self.arrays.load().items()}
        tables: dict[str, Any] = {}
        for table, (kind, columns) in _TABLES.items():
            values = {column: arrays[f"{table}-{column}"] for column in columns}
            names = {name: pa.nulls(len(values[columns[0]])) for name in _NAMES[table]}
            tables[table] = kind(**values, **names)
        tables |= {name: arrays.get(name) for name in _MATRICES}
        return Scenario(settings=self.settings, **tables)

    def copy(self) -> Scenario:
        """Return the scenario in memory: compiled kernels are kept for arrays to write to."""
        mapped = self.load()
        everything = {
            "clients": np.arange(len(mapped.clients), dtype=np.int32),
            "topics": np.arange(len(mapped.topics), dtype=np.int32),
        }
        return take_part(mapped, np.arange(len(mapped.members)), **everything).scenario


@contextmanager
def share_scenario(spark: SparkSession, scenario: Scenario) -> Iterator[SharedScenario]:
    """Make a scenario readable on all workers until the end of the block."""
    arrays: dict[str, npt.NDArray[Any]] = {
        f"{table}-{column}": getattr(getattr(scenario, table), column)
        for table, (_, columns) in _TABLES.items()
        for column in columns
    }
    for name in _MATRICES:
        matrix = getattr(scenario, name)
        if matrix is not None:
            arrays[name] = matrix
    with share_arrays(spark, arrays) as shared:
        yield SharedScenario(scenario.settings, shared)
