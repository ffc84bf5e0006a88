"""RELOC against a plain transcription of Algorithm 1 of both papers, with sets and dicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from nearcast.delay.ratio import evaluate_ratio, ratio_problem
from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Model
from nearcast.domain.scenario import Members, Scenario
from nearcast.errors import PlanningError
from nearcast.planning.methods.assignment import Cooperation, assign_reloc
from nearcast.planning.methods.relation import RelationOnly
from nearcast.planning.methods.reloc import Reloc, reloc_steps
from nearcast.planning.regions import Regions, divide_into_regions
from nearcast.planning.relations import RelationKind, Relations, relate_clients
from nearcast.planning.request import PlanRequest

MakeScenario = Callable[..., Scenario]


class Servers2021:
    """T_l and C^P_{n,l} of the paper as sets; every use is summed anew when it is asked for."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.topics: list[set[int]] = [set() for _ in range(len(scenario.servers))]
        self.publishers: dict[tuple[int, int], set[int]] = {}

    def shares(self, server: int) -> tuple[float, float]:
        spool = self.scenario.topics.spool
        stored = sum(spool[n] for n in self.topics[server])
        load = sum(spool[n] * len(self.publishers[n, server]) for n in self.topics[server])
        servers = self.scenario.servers
        return stored / servers.storage[server], load / servers.compute[server]

    def has_room(self, server: int) -> bool:
        """theta_l = 1."""
        return max(self.shares(server)) <= 1

    def add(self, client: int, topic: int, server: int) -> None:
        self.topics[server].add(topic)
        self.publishers.setdefault((topic, server), set()).add(client)

    def remove(self, client: int, topic: int, server: int) -> None:
        self.publishers[topic, server].remove(client)
        if not self.publishers[topic, server]:
            self.topics[server].remove(topic)


def reference_2021(
    scenario: Scenario, regions: Regions, relations: Relations, cooperate: Cooperation
) -> list[int]:
    state = Servers2021(scenario)
    home: dict[int, int] = {}
    published: dict[int, set[int]] = {}
    members = scenario.members
    for topic, client, publishes in zip(
        members.topic.tolist(), members.client.tolist(), members.publishes.tolist(), strict=True
    ):
        own = [
            server
            for server in range(len(scenario.servers))
            if regions.server_region[server] == regions.client_region[client]
        ]
        free = [server for server in own if state.has_room(server)]  # line 23
        chosen = min(free or own, key=lambda server: (max(state.shares(server)), server))
        begin, end = relations.start[client : client + 2]
        for other in relations.others[begin:end].tolist():  # lines 24-31
            if home.get(other) in own and state.has_room(home[other]):
                chosen = home[other]
                break
        already = published.setdefault(client, set())
        for n in already:  # line 32 for a client met again
            state.remove(client, n, home[client])
            state.add(client, n, chosen)
        home[client] = chosen
        if not publishes:  # line 33
            continue
        already.add(topic)
        state.add(client, topic, chosen)  # line 34
        if cooperate and not state.has_room(chosen):  # lines 35-42
            new = min(own, key=lambda server: (max(state.shares(server)), server))
            moved = [client] if new != chosen else []
            if moved and cooperate is Cooperation.TOGETHER:
                moved += sorted(state.publishers[topic, chosen] - {client})
            for one in moved:
                for n in published[one]:
                    state.remove(one, n, chosen)
                    state.add(one, n, new)
                home[one] = new
    return [home.get(client, -1) for client in range(len(scenario.clients))]


def reference_2020(
    scenario: Scenario, regions: Regions, relations: Relations, test_resources: bool
) -> list[int]:
    servers, members = scenario.servers, scenario.members
    home: dict[int, int] = {}

    def stored(server: int) -> float:
        managed = {
            n
            for n, client, publishes in zip(
                members.topic.tolist(), members.client.tolist(), members.publishes, strict=True
            )
            if publishes and home.get(client) == server
        }
        return float(sum(scenario.topics.spool[n] for n in managed))

    def crowd(server: int) -> int:
        return sum(1 for at in home.values() if at == server)

    def delegated(server: int) -> float:
        used = stored(server)
        return max(0.0, 1 - servers.storage[server] / used) if used else 0.0

    def usage(server: int) -> float:
        return max(
            stored(server) / float(servers.storage[server]),
            crowd(server) / float(servers.client_limit[server]),
        )

    for client in sorted(set(members.client.tolist())):
        region = regions.client_region[client]
        own = [s for s in range(len(servers)) if regions.server_region[s] == region]
        chosen = min(own, key=lambda s: (delegated(s), usage(s), s))
        begin, end = relations.start[client : client + 2]
        for other in relations.others[begin:end].tolist():
            at = home.get(other)
            if at is None or at not in own:
                continue
            if not test_resources or (delegated(at) == 0 and crowd(at) <= servers.client_limit[at]):
                chosen = at
                break
        home[client] = chosen
    return [home.get(client, -1) for client in range(len(scenario.clients))]


@pytest.mark.parametrize("cooperate", list(Cooperation))
@pytest.mark.parametrize("kind", [RelationKind.COUNTS, RelationKind.FACTORISED])
@pytest.mark.parametrize("tightness", [0.3, 1.0, 3.0])
def test_homes_equal_the_transcription_of_algorithm_1_of_2021(
    make_scenario: MakeScenario, tightness: float, kind: RelationKind, cooperate: Cooperation
) -> None:
    for seed in range(12):
        scenario = make_scenario(seed, storage=round(30 * tightness), compute=round(90 * tightness))
        regions = divide_into_regions(scenario, 1 + seed % 4, seed)
        relations = relate_clients(scenario, 3 + seed, kind)
        homes = assign_reloc(scenario, Model.RATIO, regions, relations, cooperate=cooperate)
        expected = np.array(reference_2021(scenario, regions, relations, cooperate))
        members = expected >= 0
        np.testing.assert_array_equal(homes[members], expected[members])


@pytest.mark.parametrize("test_resources", [True, False])
def test_homes_equal_the_transcription_of_algorithm_1_of_2020(
    make_scenario: MakeScenario, test_resources: bool
) -> None:
    for seed in range(12):
        scenario = make_scenario(seed, storage=20.0 + 5 * seed, client_limit=2.0 + seed % 5)
        regions = divide_into_regions(scenario, 1 + seed % 4, seed)
        relations = relate_clients(scenario, 4 + seed, RelationKind.COUNTS)
        homes = assign_reloc(
            scenario, Model.CONNECTIONS, regions, relations, cooperate=Cooperation(test_resources)
        )
        expected = np.array(reference_2020(scenario, regions, relations, test_resources))
        members = expected >= 0
        np.testing.assert_array_equal(homes[members], expected[members])


def test_short_lists_of_servers_give_the_same_homes_as_one_slot_each(
    make_scenario: MakeScenario,
) -> None:
    for seed in range(4):
        scenario = make_scenario(seed, servers=60, clients=30, storage=6.0, compute=20.0)
        regions = divide_into_regions(scenario, 2, seed)
        relations = relate_clients(scenario, 20)
        homes = assign_reloc(scenario, Model.RATIO, regions, relations, cooperate=Cooperation.ALONE)
        expected = np.array(reference_2021(scenario, regions, relations, Cooperation.ALONE))
        members = expected >= 0
        np.testing.assert_array_equal(homes[members], expected[members])


def test_the_random_scenarios_make_cooperation_matter(make_scenario: MakeScenario) -> None:
    changed = 0
    for seed in range(12):
        steps = reloc_steps(make_scenario(seed), PlanRequest(Model.RATIO, regions=2))
        changed += int((steps["relation"] != steps["cooperation"]).any())
    assert changed >= 6


@pytest.mark.parametrize("model", list(Model))
def test_running_region_by_region_gives_the_same_homes(
    make_scenario: MakeScenario, model: Model
) -> None:
    for seed in range(6):
        whole = make_scenario(seed, clients=60, topics=20, servers=10)
        regions = divide_into_regions(whole, 3, seed)
        everything = relate_clients(whole, 60, RelationKind.COUNTS)
        homes = assign_reloc(whole, model, regions, everything, cooperate=Cooperation.ALONE)
        for region in range(regions.count):
            rows = np.flatnonzero(regions.client_region[whole.members.client] == region)
            fields = dataclasses.fields(Members)
            members = Members(*(getattr(whole.members, field.name)[rows] for field in fields))
            part = dataclasses.replace(whole, members=members)
            related = relate_clients(part, 60, RelationKind.COUNTS)
            alone = assign_reloc(part, model, regions, related, cooperate=Cooperation.ALONE)
            present = np.unique(members.client)
            np.testing.assert_array_equal(alone[present], homes[present])


@pytest.mark.parametrize("model", list(Model))
@pytest.mark.parametrize("method", [Reloc(), RelationOnly()])
def test_every_client_is_at_home_in_its_region_and_the_seed_decides_all(
    make_scenario: MakeScenario, method: Reloc | RelationOnly, model: Model
) -> None:
    scenario = make_scenario(3, clients=90)
    request = PlanRequest(model, regions=3, seed=5)
    decision = method.plan(scenario, request)
    regions = divide_into_regions(scenario, 3, 5)
    member = np.unique(scenario.members.client)
    at = regions.server_region[decision.homes[member]]
    np.testing.assert_array_equal(at, regions.client_region[member])
    np.testing.assert_array_equal(decision.homes, method.plan(scenario, request).homes)
    assert decision.homes.dtype == np.int32
    assert decision.search["regions"] == 3
    assert decision.search["relations"] == "factorised"


def test_the_last_step_is_reloc_and_the_middle_one_is_relo(make_scenario: MakeScenario) -> None:
    for seed in range(5):
        scenario = make_scenario(seed)
        request = PlanRequest(Model.RATIO, regions=2, related_clients=10)
        steps = reloc_steps(scenario, request)
        assert list(steps) == ["locality", "relation", "cooperation"]
        np.testing.assert_array_equal(steps["cooperation"], Reloc().plan(scenario, request).homes)
        relo = RelationOnly().plan(scenario, request).homes
        np.testing.assert_array_equal(steps["relation"], relo)


def test_steps_need_a_number_of_regions(make_scenario: MakeScenario) -> None:
    with pytest.raises(PlanningError, match="regions"):
        reloc_steps(make_scenario(0), PlanRequest(Model.RATIO, regions=None))


def test_in_the_papers_preliminary_case_cooperation_relieves_what_relations_overload() -> None:
    case = Reloc2021(topics=1, sigma_km=10.0, spool_per_member=1.0, storage=20.0, compute=50.0)
    scenario = generate_reloc2021(case, 0)
    problem = ratio_problem(scenario)
    steps = reloc_steps(scenario, PlanRequest(Model.RATIO, regions=4))
    share = {
        name: evaluate_ratio(problem, homes).local_share.min() for name, homes in steps.items()
    }
    assert share["relation"] < 1
    assert share["cooperation"] == 1
    used = {name: len(set(homes.tolist())) for name, homes in steps.items()}
    assert used["relation"] < used["cooperation"] < used["locality"]


def test_automatic_regions_are_as_good_as_the_best_fixed_number() -> None:
    for sigma_km in (1.0, 5.0, 20.0):
        scenario = generate_reloc2021(Reloc2021(sigma_km=sigma_km), 7)
        problem = ratio_problem(scenario)
        fixed = {
            count: Reloc().plan(scenario, PlanRequest(Model.RATIO, regions=count)).homes
            for count in (1, 2, 4, 8, 16)
        }
        best = min(evaluate_ratio(problem, homes).y_ms for homes in fixed.values())
        chosen = Reloc().plan(scenario, PlanRequest(Model.RATIO, regions=None))
        assert evaluate_ratio(problem, chosen.homes).y_ms <= best * 1.03
        assert 1 <= chosen.search["regions"] <= 16


def test_clients_without_a_topic_go_to_their_nearest_server(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(2, clients=200)
    idle = np.setdiff1d(np.arange(200), scenario.members.client)
    homes = Reloc().plan(scenario, PlanRequest(Model.RATIO)).homes
    for client in idle.tolist():
        km = np.hypot(
            scenario.servers.x_km - scenario.clients.x_km[client],
            scenario.servers.y_km - scenario.clients.y_km[client],
        )
        assert homes[client] == km.argmin()


def test_a_server_without_capacity_is_left_alone_while_others_have_some(
    make_scenario: MakeScenario,
) -> None:
    scenario = make_scenario(4, storage=1e6, compute=1e6)
    scenario.servers.storage[0] = 0.0
    homes = Reloc().plan(scenario, PlanRequest(Model.RATIO, regions=1)).homes
    assert 0 not in homes[scenario.members.client]
