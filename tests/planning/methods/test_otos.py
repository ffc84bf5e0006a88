"""OTOS and OTOS-centre against plain loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from nearcast.domain.plan import Model
from nearcast.domain.scenario import Scenario
from nearcast.planning.methods.otos import Otos
from nearcast.planning.methods.otos_centre import OtosCentre
from nearcast.planning.request import PlanRequest

MakeScenario = Callable[..., Scenario]


def uses(scenario: Scenario, model: Model, placed: dict[int, dict[int, int]]) -> np.ndarray:
    """Return [storage, second use] per server; `placed` has client -> {topic: publishes}, home."""
    stored: list[set[int]] = [set() for _ in range(len(scenario.servers))]
    second = np.zeros(len(scenario.servers))
    for client, topics in placed.items():
        home = topics[-1]
        if model is Model.CONNECTIONS:
            second[home] += 1
        for topic, publishes in topics.items():
            if topic >= 0 and publishes:
                stored[home].add(topic)
                if model is not Model.CONNECTIONS:
                    second[home] += scenario.topics.spool[topic]
        assert client >= 0
    storage = [sum(scenario.topics.spool[n] for n in held) for held in stored]
    return np.array([storage, second])


def reference(scenario: Scenario, model: Model, near_centre: bool) -> dict[int, int]:
    servers, members = scenario.servers, scenario.members
    second = servers.client_limit if model is Model.CONNECTIONS else servers.compute
    limit = np.array([servers.storage, second])
    placed: dict[int, dict[int, int]] = {}

    def least_used() -> int:
        return int((uses(scenario, model, placed) / limit).max(axis=0).argmin())

    for topic in range(len(scenario.topics)):
        rows = np.flatnonzero(members.topic == topic)
        chosen = least_used()
        if near_centre:
            who = members.client[rows]
            need = float(members.publishes[rows].sum() * scenario.topics.spool[topic])
            if model is Model.CONNECTIONS:
                need = float(sum(1 for client in who.tolist() if client not in placed))
            used = uses(scenario, model, placed)
            room = (used[0] + scenario.topics.spool[topic] <= limit[0]) & (
                used[1] + need <= limit[1]
            )
            km = np.hypot(
                servers.x_km - scenario.clients.x_km[who].mean(),
                servers.y_km - scenario.clients.y_km[who].mean(),
            )
            if room.any():
                chosen = int(np.where(room, km, np.inf).argmin())
        for row in rows.tolist():
            client, publishes = int(members.client[row]), int(members.publishes[row])
            again = client in placed
            placed.setdefault(client, {})[-1] = chosen
            placed[client][topic] = publishes
            full = (uses(scenario, model, placed) / limit).max(axis=0)[chosen] > 1
            if again and publishes and full:
                placed[client][-1] = least_used()
    return {client: topics[-1] for client, topics in placed.items()}


@pytest.mark.parametrize("near_centre", [False, True])
@pytest.mark.parametrize("model", list(Model))
def test_homes_equal_plain_loops(
    make_scenario: MakeScenario, model: Model, near_centre: bool
) -> None:
    method = OtosCentre() if near_centre else Otos()
    for seed in range(8):
        scenario = make_scenario(seed, clients=60, storage=25.0 + 10 * (seed % 3))
        homes = method.plan(scenario, PlanRequest(model)).homes
        expected = reference(scenario, model, near_centre)
        assert {client: int(homes[client]) for client in expected} == expected


@pytest.mark.parametrize("method", [Otos(), OtosCentre()])
def test_one_topic_uses_one_server_even_if_it_does_not_fit(
    make_scenario: MakeScenario, method: Otos | OtosCentre
) -> None:
    for storage in (0.5, 1e6):
        scenario = make_scenario(1, topics=1, clients=20, members=20, storage=storage)
        homes = method.plan(scenario, PlanRequest(Model.RATIO)).homes
        assert len(set(homes.tolist())) == 1


def test_measured_delays_decide_what_is_near(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(1, topics=1, clients=9, members=9, storage=1e6, compute=1e6)
    measured = np.random.default_rng(0).uniform(1, 2, (9, 8))
    measured[:, 5] = 0.5
    scenario = dataclasses.replace(scenario, client_server_ms=measured)
    assert set(OtosCentre().plan(scenario, PlanRequest(Model.RATIO)).homes.tolist()) == {5}
