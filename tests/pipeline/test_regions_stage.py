"""Regions on executors: the same as in memory, whatever the blocks."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.pipeline.manifest import StageRecord
from nearcast.pipeline.stages import regions as stage
from nearcast.pipeline.stages.regions import (
    CLIENT_REGIONS_TABLE,
    SERVER_REGIONS_TABLE,
    divide,
)
from nearcast.pipeline.workspace import Workspace
from nearcast.planning.regions import divide_into_regions


@pytest.mark.parametrize(("count", "seed"), [(1, 0), (5, 1), (100, 2)])
def test_regions_equal_those_in_memory(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, count: int, seed: int
) -> None:
    monkeypatch.setattr(stage, "_FEWEST_CLIENTS", 100)
    scenario = generate_reloc2021(Reloc2021(servers_per_side=7, topics=40), seed)
    record = StageRecord("regions")
    found = divide(workspace, scenario, count, seed, record)
    expected = divide_into_regions(scenario, count, seed)
    for field in fields(found):
        own, other = getattr(found, field.name), getattr(expected, field.name)
        np.testing.assert_array_equal(own, other)
        assert own.dtype == other.dtype

    servers = dict(map(tuple, workspace.load(SERVER_REGIONS_TABLE).collect()))
    assert servers == dict(enumerate(expected.server_region.tolist()))
    clients = dict(map(tuple, workspace.load(CLIENT_REGIONS_TABLE).collect()))
    assert clients == dict(enumerate(expected.client_region.tolist()))
    assert record.tables == {
        SERVER_REGIONS_TABLE: len(scenario.servers),
        CLIENT_REGIONS_TABLE: len(scenario.clients),
    }
    assert record.rows_in == record.rows_out == len(servers) + len(clients)
    assert record.notes["regions"] == found.count == min(count, 49)
