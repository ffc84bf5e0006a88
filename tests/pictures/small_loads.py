"""A small scenario with limits, and what a plan takes of them."""

from __future__ import annotations

import dataclasses

import numpy as np

from nearcast.delay.ratio import RatioCost
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.scenario import FloatArray, Scenario


def small_scenario(side: int = 3, topics: int = 5) -> Scenario:
    return generate_reloc2021(Reloc2021(topics=topics, servers_per_side=side), seed=1)


def ratio_cost(servers: int, storage_used: FloatArray, compute_used: FloatArray) -> RatioCost:
    zeros = np.zeros(servers)
    return RatioCost(1.5, 1.0, 0.5, storage_used, compute_used, zeros, zeros, zeros)


def with_limits(scenario: Scenario, **limits: FloatArray) -> Scenario:
    return dataclasses.replace(scenario, servers=dataclasses.replace(scenario.servers, **limits))
