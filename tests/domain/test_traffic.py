"""A scenario is brought up to date by a window of a log, and nobody is lost from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from domain.small_scenario import put
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import read_scenario
from nearcast.domain.traffic import Traffic, bring_up_to_date

QUIET = Traffic(100.0, 160.0, {}, {}, {}, ())


def roles(scenario: Scenario) -> dict[tuple[str, str], tuple[bool, bool, float]]:
    members = scenario.members
    topics = [str(one) for one in scenario.topics.ids.to_pylist()]
    clients = [str(one) for one in scenario.clients.ids.to_pylist()]
    return {
        (topics[members.topic[row]], clients[members.client[row]]): (
            bool(members.publishes[row]),
            bool(members.subscribes[row]),
            float(members.rate_hz[row]),
        )
        for row in range(len(members))
    }


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return read_scenario(put(tmp_path / "small"))


def test_who_is_silent_keeps_place_and_topics(scenario: Scenario) -> None:
    present = bring_up_to_date(scenario, QUIET)
    assert {key: role[:2] for key, role in roles(present.known).items()} == {
        key: role[:2] for key, role in roles(scenario).items()
    }
    assert np.array_equal(present.known.clients.x_km, scenario.clients.x_km)
    assert not present.planned.members.publishes.any()
    assert (present.moved_clients, present.changed_members) == (0, 0)


def test_who_publishes_or_listens_anew_is_a_member_until_an_unsubscribe(
    scenario: Scenario,
) -> None:
    topics = [str(one) for one in scenario.topics.ids.to_pylist()]
    clients = [str(one) for one in scenario.clients.ids.to_pylist()]
    before = roles(scenario)
    publisher = next(key for key, role in before.items() if role[0])
    listener = next(key for key, role in before.items() if role[1] and key != publisher)
    new = next((t, c) for t in topics for c in clients if (t, c) not in before)
    traffic = replace(
        QUIET,
        places_km={clients[0]: (1.25, 2.5), "stranger": (0.0, 0.0)},
        published={publisher: 120, new: 6, ("nowhere", clients[0]): 3},
        subscriptions={listener: False},
        notified=[new],
    )
    present = bring_up_to_date(scenario, traffic)
    known, planned = roles(present.known), roles(present.planned)
    assert known[new] == (True, True, 0.1)
    assert known[publisher][0]
    assert known[publisher][2] == 2.0
    assert not known.get(listener, (False, False))[1]
    # all publishers are served, but only those of the window count
    assert {key for key, role in known.items() if role[0]} == {
        *(key for key, role in before.items() if role[0]),
        new,
    }
    assert {key for key, role in planned.items() if role[0]} == {publisher, new}
    assert (present.known.clients.x_km[0], present.known.clients.y_km[0]) == (1.25, 2.5)
    assert (present.moved_clients, present.changed_members) == (1, 2)
    assert (present.unknown_clients, present.unknown_topics) == (1, 1)
    assert np.all(np.diff(present.known.members.topic) >= 0)
