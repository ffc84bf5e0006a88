"""Seeded schedules of faults over a simulated site: what was acknowledged stays true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from nearcast.experiments.survive.checker import Findings, check
from nearcast.experiments.survive.faults import FAULTS, HOSTILE
from nearcast.experiments.survive.schedule import (
    LOSSLESS,
    run_hostile,
    run_long_outages,
    run_schedule,
)
from nearcast.experiments.survive.stand_ins import (
    publisher_crosses_a_cut,
    stand_in_for_a_restarted_owner,
    stand_in_for_an_owner_behind_a_cut,
)
from nearcast.experiments.survive.trial_site import TrialSite
from nearcast.server.broker_messages import Rumours
from nearcast.server.mesh_messages import encode_mesh
from nearcast.server.subscriber_messages import SyncDone

GROUPS, PER_GROUP, FAULTS_EACH = 8, 250, 5


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_2000_schedules_with_10000_faults_lose_double_and_miss_nothing(group: int) -> None:
    kinds = list(FAULTS)
    faults: Counter[str] = Counter()
    acknowledged = 0
    for seed in range(group * PER_GROUP, (group + 1) * PER_GROUP):
        schedule = run_schedule(seed, kinds, faults=FAULTS_EACH)
        assert not schedule.findings.violations, f"seed {seed}"
        faults += schedule.faults
        acknowledged += schedule.findings.acknowledged
    print(f"group {group}: {PER_GROUP} schedules, {faults.total()} faults, {acknowledged} acked")
    assert faults.total() * GROUPS >= 10_000
    assert set(faults) == set(kinds)
    assert acknowledged > 40 * PER_GROUP


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_each_fault_by_itself_loses_and_doubles_nothing(kind: str) -> None:
    for seed in range(5):
        assert not run_schedule(seed, [kind]).findings.violations, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 160, 40))
def test_hostile_schedules_lose_nothing_but_what_a_spoiled_spool_says(first: int) -> None:
    """Forged senders, wrong clocks, and spools that are truncated, zeroed and flipped besides."""
    faults: Counter[str] = Counter()
    damaged = 0
    for seed in range(first, first + 40):
        schedule = run_hostile(seed)
        assert not schedule.findings.violations, f"seed {seed}"
        faults += schedule.faults
        damaged += schedule.findings.damaged
    assert set(HOSTILE) < set(faults)
    assert damaged, "no spool lost anything: the fault does nothing"


def test_what_damages_do_to_offsets_and_to_the_next_start_loses_nothing_silently() -> None:
    """Offsets began too low after a damage, and a start that found one died before it said so."""
    for seed in (20_126, 21_427):
        assert not run_hostile(seed).findings.violations, f"seed {seed}"


@pytest.mark.parametrize("kind", sorted(LOSSLESS))
def test_without_losses_subscribers_hear_everything_once_and_in_order(kind: str) -> None:
    for seed in range(20):
        assert not run_schedule(seed, [kind]).findings.violations


def test_without_takeovers_nothing_is_processed_twice_and_nothing_waits_for_ever() -> None:
    kinds = ["switch_plan", "switch_plan", "kill", "kill_manager", "cut", "cut_one_way", "pause"]
    for seed in range(100, 140):
        found = run_schedule(seed, [*kinds, "cut_power"], takeover_s=1e6).findings.violations
        assert not [one for one in found if one.kind != "missed"], f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_hasty_takeovers_lose_and_double_nothing_but_messages_in_doubt(first: int) -> None:
    kinds = ["switch_plan", "switch_plan", "cut", "cut", "cut_one_way", "flap", "pause", "kill"]
    for seed in range(first, first + 50):
        assert not run_schedule(seed, kinds, takeover_s=0.3).findings.violations, f"seed {seed}"


@pytest.mark.parametrize("seed", [2000, 2001, 2153])
def test_outages_that_send_clients_elsewhere_lose_and_double_nothing(seed: int) -> None:
    """In 2153 a server stands in for a topic while two others are away that may have streams of it."""
    assert not run_long_outages(seed).findings.violations


def test_a_server_that_stood_in_hears_that_its_state_stays_with_it() -> None:
    """In 20048 it had set the state aside, until the owner says whether it has it."""
    assert not run_long_outages(20048, takeover_s=0.3).findings.violations


def test_an_owner_that_restarts_asks_whoever_does_not_answer_whether_it_stood_in() -> None:
    """In 1000020 it is paused meanwhile, and all that heard its claim are gone."""
    assert not run_long_outages(1_000_020).findings.violations


def test_a_seed_gives_the_same_schedule_again() -> None:
    first, again = (run_schedule(7) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("seed", [75, 287])
def test_a_server_that_stood_in_asks_the_others_when_orders_no_longer_name_them(seed: int) -> None:
    kinds = [*FAULTS, *(["switch_plan"] * 3 if seed == 287 else [])]
    assert not run_schedule(seed, kinds, takeover_s=0.3).findings.violations


def test_an_answer_that_was_overtaken_says_nothing_of_what_overtook_it() -> None:
    """A home that was paused answers old reports first; its answers come after what it sends then."""
    assert not run_schedule(5339).findings.violations


def test_the_owner_asks_whoever_stood_in_for_it_though_that_one_is_away_by_now() -> None:
    assert not run_long_outages(1090).findings.violations


def test_a_server_that_stood_in_and_was_paused_takes_nothing_that_waited_before_it_has_asked() -> (
    None
):
    trial = TrialSite(0, edges=3, publishers=1, subscribers=1, homes=("e0",), targets=("e0",))
    site, owner, client = trial.site, trial.site.servers["e0"], trial.site.clients["p0"]
    trial.start()
    trial.publish_some(4, 0.1)
    owner.kill()
    trial.publish_some(20, 10.0)
    other = next(one for one in site.servers.values() if one.home == client.session.home)
    assert other is not owner
    other.pause()
    for _ in range(3):
        trial.publish()
    site.run(0.2)
    owner.restart()
    site.run(40.0)
    assert not trial.waiting
    assert not [one for one in trial.takeovers if "e0" in one.owners]
    other.resume()
    site.run(10.0)
    trial.publish_some(4, 0.1)
    site.run(10.0)
    found = check(trial)
    assert not found.violations
    assert not found.taken_over
    assert [one.event for one in other.incidents].count("was_paused") == 1
    assert not trial.takeovers[-1].owners, "both own the stream"


@pytest.mark.parametrize(
    "run",
    [
        stand_in_for_a_restarted_owner,
        stand_in_for_an_owner_behind_a_cut,
        partial(stand_in_for_an_owner_behind_a_cut, named_later=True),
    ],
    ids=["owner restarts", "owner was cut off", "named later"],
)
def test_an_only_broker_asks_a_server_that_stood_in_and_is_cut_off(
    run: Callable[[], Findings],
) -> None:
    found = run()
    assert not found.violations
    assert found.taken_over >= 3


def test_a_publisher_that_crosses_a_cut_has_twice_processed_what_was_unacknowledged_alone() -> None:
    """The known gap of docs/acknowledgements.md, and no more than it says."""
    found = publisher_crosses_a_cut()
    assert {one.kind for one in found.violations} == {"processed_twice"}
    assert len(found.violations) == 6, "those that the stand-in could not acknowledge"
    assert found.acknowledged == found.attempted == found.heard == 26


@pytest.mark.parametrize("seed", [2_040_223, 3_000_127])
def test_a_server_that_was_away_goes_by_what_others_did_meanwhile(seed: int) -> None:
    """In 2040223 it shows old orders before it has the new ones, in 3000127 it was paused."""
    assert not run_long_outages(seed).findings.violations


def test_who_is_asked_to_tell_another_server_tells_it_of_the_sender_only_and_not_too_much() -> None:
    trial = TrialSite(0, edges=3, publishers=1, subscribers=1, homes=("e1",), targets=("e0",))
    trial.start()
    nodes = {name: one.node for name, one in trial.site.servers.items()}
    owner, other = nodes["e0"], nodes["e2"]
    assert owner is not None
    assert other is not None
    lie = Rumours({"t0": ("cloud", "e2")}, to="e0")
    other._peers.dispatch("e1", [encode_mesh(lie)], trial.site.now)
    trial.site.servers["e2"].do(other.on_timer(trial.site.now))
    trial.site.run(1.0)
    assert owner.broker.topics["t0"].settings.stand_ins == ("e1",)
    trial.site.servers["e0"].kill()
    other._peers.dispatch("e1", [encode_mesh(lie)] * 3_000, trial.site.now)
    assert other._peers.unacknowledged("e0") <= 1_000
    assert other.counts["rumours_dropped"] >= 2_000
    endless = Rumours({f"t{number}": ("e1",) for number in range(1_001)}, to="e0")
    other._peers.dispatch("e1", [encode_mesh(endless)], trial.site.now)
    assert other.counts["mesh_refused"] == 1


def test_a_late_answer_to_an_earlier_question_says_nothing_of_what_was_done_since() -> None:
    trial = TrialSite(0, edges=2, publishers=1, subscribers=1, homes=("e0",), targets=("e0",))
    trial.start()
    owner = trial.site.servers["e0"].node
    assert owner is not None
    asks = owner._introductions
    trial.site.network.cuts.add(frozenset(("e0", "e1")))
    numbers = []
    for _ in range(2):
        asks.ask(("t0",))
        numbers.append(asks._number)
        trial.site.run(4.0)
    for number, left in zip(numbers, [("e1",), ()], strict=True):
        owner._peers.dispatch("e1", [encode_mesh(SyncDone(number))], trial.site.now)
        assert owner.broker.topics["t0"].settings.strangers == left
