"""The broker as a state machine: what it stores, tells, copies and acknowledges, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any

import pytest
from msgspec import structs

from broker.hosting import FakeHost
from broker.making import advance, broker_with, handle, handle_copies, message
from nearcast.broker.actions import Ack, Actions, Ask, Deny, Nack, TakenOver, Yield
from nearcast.broker.audiences import SubscriberTable, resolve
from nearcast.broker.broker import Broker
from nearcast.broker.guard import GuardEvent, GuardSettings, ProcessorGuard
from nearcast.broker.notices import decode_entry
from nearcast.broker.notifications import (
    AllSubscribers,
    InCircle,
    NamedClients,
    NearestClients,
    Notification,
)
from nearcast.broker.ownership import Token
from nearcast.broker.requests import ProcessRequest
from nearcast.broker.sequence_gate import SequenceGate, Verdict
from nearcast.broker.topic_settings import TopicSettings
from nearcast.broker.topic_spool import SpoolView
from nearcast.errors import ConfigError
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.testing.counting_processor import COUNTING
from nearcast.testing.fake_disk import FakeDisk, PowerCutError
from nearcast.wire.publication import Origin, Publication


def ticket(actions: Actions) -> int:
    assert actions.to_store is not None
    return actions.to_store.ticket


def stored(actions: Actions) -> list[tuple[str, int]]:
    """Publisher and sequence of the messages to be stored."""
    if actions.to_store is None:
        return []
    found = [
        decode_entry(change.topic, record)
        for change in actions.to_store.changes
        for record in change.records
    ]
    return [(one.publisher, one.sequence) for one in found]


def test_a_message_is_stored_and_notified_at_once_and_acknowledged_after_the_sync() -> None:
    broker = broker_with(TopicSettings("t", 10), subscribers=("sub", "car"))
    actions = handle(broker, [message("car", 1, value=3)], 0.0)
    assert stored(actions) == [("car", 1)]
    (told,) = actions.notifications
    one = told.notify
    assert (one.publisher, one.epoch, one.sequence, one.part) == ("car", 1, 1, 0)
    assert (told.recipients.clients, told.left_out) == (("sub", "car"), "car")
    assert not told.after_sync
    assert actions.acks == []
    assert broker.waiting == 1
    after = broker.on_committed([ticket(actions)])
    assert after.acks == [Ack("t", "car", 1, 1)]
    assert after.notifications == []
    assert broker.waiting == 0


def test_a_topic_may_notify_after_the_sync_only() -> None:
    broker = broker_with(TopicSettings("t", 10, notify_after_sync=True))
    actions = handle(broker, [message("car", 1)], 0.0)
    assert actions.notifications == []
    (told,) = broker.on_committed([ticket(actions)]).notifications
    assert told.after_sync


def test_acknowledgements_are_cumulative_per_publisher() -> None:
    broker = broker_with(TopicSettings("t", 10))
    tickets = [
        ticket(handle(broker, [message("a", 2 * n - 1), message("a", 2 * n), message("b", n)], 0.0))
        for n in (1, 2, 3)
    ]
    assert broker.on_committed(tickets).acks == [Ack("t", "a", 1, 6), Ack("t", "b", 1, 3)]


def test_a_gap_is_asked_for_and_what_came_early_waits() -> None:
    broker = broker_with(TopicSettings("t", 10))
    first = handle(broker, [message("a", 1), message("a", 4), message("a", 3)], 0.0)
    assert stored(first) == [("a", 1)]
    assert first.held == 2
    assert first.nacks == [Nack("t", "a", 1, ((2, 2),))]
    soon = handle(broker, [message("a", 4)], 0.05)
    assert (soon.duplicates, soon.nacks, soon.to_store) == (1, [], None)  # it is on its way
    again = handle(broker, [message("a", 4)], 0.1)
    assert (again.duplicates, again.nacks, again.to_store) == (1, first.nacks, None)
    second = handle(broker, [message("a", 2)], 0.0)
    assert stored(second) == [("a", 2), ("a", 3), ("a", 4)]
    assert [one.notify.sequence for one in second.notifications] == [2, 3, 4]
    assert broker.on_committed([1, 2]).acks == [Ack("t", "a", 1, 4)]


def test_a_message_far_too_early_is_asked_for_again() -> None:
    broker = broker_with(TopicSettings("t", 10))
    actions = handle(broker, [message("a", 1000)], 0.0)
    assert actions.nacks == [Nack("t", "a", 1, ((1, 1000),))]
    assert actions.to_store is None


def test_a_duplicate_is_acknowledged_again_only_when_it_is_durable() -> None:
    broker = broker_with(TopicSettings("t", 10))
    first = handle(broker, [message("a", 1)], 0.0)
    again = handle(broker, [message("a", 1)], 0.0)
    assert again.duplicates == 1
    assert again.acks == []
    assert again.notifications == []
    assert again.to_store is None
    assert broker.on_committed([ticket(first)]).acks == [Ack("t", "a", 1, 1)]
    late = handle(broker, [message("a", 1), message("a", 1)], 0.0)
    assert late.duplicates == 2
    assert late.acks == [Ack("t", "a", 1, 1)]
    assert late.to_store is None


def test_a_newer_epoch_begins_anew_and_an_older_one_is_refused() -> None:
    broker = broker_with(TopicSettings("t", 10))
    handle(broker, [message("a", 1), message("a", 2)], 0.0)
    assert stored(handle(broker, [message("a", 1, epoch=5)], 0.0)) == [("a", 1)]
    (refusal,) = handle(broker, [message("a", 3, epoch=1)], 0.0).refusals
    assert (refusal.reason, refusal.epoch) == (Verdict.STALE_EPOCH, 5)


def test_a_topic_that_is_not_managed_here_is_refused() -> None:
    broker = broker_with(TopicSettings("t", 10))
    actions = handle(broker, [message("a", 1, topic="other"), message("a", 0)], 0.0)
    assert [one.reason for one in actions.refusals] == [None, Verdict.MALFORMED]
    assert actions.to_store is None


def test_a_copy_is_spooled_and_not_processed() -> None:
    here = broker_with(TopicSettings("t", 10, other_brokers=("there", "yonder")))
    there = broker_with(TopicSettings("t", 10, other_brokers=("here",)))
    actions = handle(here, [message("a", 1), message("a", 2)], 0.0)
    assert actions.copies == []  # a copy must mean that it took effect here for good
    copies = here.on_committed([ticket(actions)]).copies
    assert [copy.to_server for copy in copies] == ["there", "yonder"]
    taken = handle_copies(there, copies[0].publications, "here", 0.0)
    assert stored(taken) == [("a", 1), ("a", 2)]
    assert taken.notifications == []
    assert [one.origin for one in there.topics["t"].spool.view()] == [Origin.COPY] * 2
    after = there.on_committed([ticket(taken)])
    assert after.copies == []
    assert after.acks == []  # nobody waits for it
    # the publisher moves over: what was processed there is not processed again here
    moved = handle(there, [message("a", 2), message("a", 3)], 0.0)
    assert moved.duplicates == 1
    assert [one.notify.sequence for one in moved.notifications] == [3]


def test_a_lost_copy_is_asked_for_and_recalled_from_the_spool() -> None:
    here = broker_with(TopicSettings("t", 3, other_brokers=("there",)))
    there = broker_with(TopicSettings("t", 9))
    sent = [message("a", sequence) for sequence in range(1, 7)]
    actions = handle(here, sent, 0.0)
    (nack,) = handle_copies(there, [sent[5]], "here", 0.0).nacks
    assert nack == Nack("t", "a", 1, ((1, 5),), copied_by="here")
    assert here.recall("t", "a", 1, nack.missing) == ([], 0)  # a crash may still undo them
    here.on_committed([ticket(actions)])
    found, gone = here.recall("t", "a", 1, nack.missing)
    assert [one.sequence for one in found] == [4, 5]
    assert gone == 3
    assert stored(handle_copies(there, found, "here", 0.0)) == []
    assert stored(advance(there, "t", "a", 1, gone, 0.0)) == [("a", 4), ("a", 5), ("a", 6)]
    assert here.recall("t", "a", 1, ((7, 2**62),)) == ([], 0)
    assert here.recall("t", "b", 1, ((1, 2),)) == ([], 0)
    assert here.recall("x", "a", 1, ((1, 2),)) == ([], 0)


def test_a_long_history_is_asked_for_once_while_newer_copies_wait() -> None:
    there = broker_with(TopicSettings("t", 10_000))
    sent = [message("a", sequence) for sequence in range(1, 4_001)]
    history, now = iter(sent[:3_000]), 0.0
    nacks, taken = [], 0
    for newer in sent[3_000:]:  # 1,000 a second, of which each comes before three old ones
        now += 0.001
        actions = handle_copies(there, [newer, *islice(history, 3)], "here", now)
        nacks += actions.nacks
        taken += len(stored(actions))
    assert nacks == [Nack("t", "a", 1, ((4, 3_000),), copied_by="here")]
    assert taken == len(sent)


def test_what_is_asked_for_and_stops_coming_is_asked_for_again() -> None:
    there = broker_with(TopicSettings("t", 100))
    sent = [message("a", sequence) for sequence in range(1, 11)]
    asked = [
        one.missing
        for now, come in ((0, [9]), (1, [1, 9]), (2, [9]), (3, [3, 2, 4, 9]), (4, [9]))
        for one in handle_copies(there, [sent[at - 1] for at in come], "here", now).nacks
    ]
    assert asked == [((1, 8),), ((2, 8),), ((5, 8),)]


def test_copies_leave_room_for_what_publishers_send_too_early() -> None:
    gate = SequenceGate(window=4, held_limit=8)
    copies = [structs.replace(message("a", at), origin=Origin.COPY) for at in range(2, 12)]
    verdicts = [gate.admit(one)[0] for one in copies]
    assert verdicts == [Verdict.HELD] * 4 + [Verdict.TOO_EARLY] * 6
    own = [gate.admit(message("b", at))[0] for at in range(2, 8)]
    assert own == [Verdict.HELD] * 3 + [Verdict.TOO_EARLY] * 3  # its window is 4
    assert gate.held == 7


def test_a_broker_that_is_new_gets_what_is_durable_and_the_rest_when_it_is() -> None:
    broker = broker_with(TopicSettings("t", 10))
    broker.on_committed([ticket(handle(broker, [message("a", 1)], 0.0))])
    broker.share("t", "new")
    (copy,) = broker.run(0.0).copies
    assert (copy.to_server, [one.sequence for one in copy.publications]) == ("new", [1])
    first = handle(broker, [message("a", 2)], 0.0)
    second = handle(broker, [message("a", 3)], 0.0)
    broker.share("t", "newer")
    assert not broker.has_work
    assert [one.sequence for one in broker.topics["t"].durable_messages()] == [1]
    assert broker.on_committed([ticket(first)]).copies == []
    (copy,) = broker.on_committed([ticket(second)]).copies
    assert (copy.to_server, [one.sequence for one in copy.publications]) == ("newer", [1, 2, 3])
    assert [one.sequence for one in broker.topics["t"].durable_messages()] == [1, 2, 3]


def test_a_direct_message_that_copies_release_is_processed_and_acknowledged() -> None:
    broker = broker_with(TopicSettings("t", 10))
    handle(broker, [message("a", 3)], 0.0)
    actions = handle_copies(broker, [message("a", 1), message("a", 2), message("a", 4)], "b", 0.0)
    assert stored(actions) == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]
    assert [one.notify.sequence for one in actions.notifications] == [3]
    after = broker.on_committed([ticket(actions)])
    assert after.acks == [Ack("t", "a", 1, 4)]


def test_what_waited_for_a_server_that_is_given_up_is_sent_again_by_who_still_waits() -> None:
    broker = broker_with(TopicSettings("t", 10, other_brokers=("b",)))
    for sequence in (1, 2):
        broker.admit(message("car", sequence), "home", 0.0)
    broker.run(0.0)
    broker.claims.repeat(lambda topic, server: True, lambda server: True, lambda _: True)
    actions = broker.run(5.0)
    assert actions.taken_over == [TakenOver("t", "car", ("b",))]
    assert stored(actions) == []
    assert actions.busy == [(message("car", 2), "home")]
    again = message("car", 2)
    again.oldest = 2  # its publisher has heard of the first: the other server has it
    broker.admit(again, "home", 6.0)
    assert stored(broker.run(6.0)) == [("car", 2)]


def test_a_topic_moves_to_another_server_with_all_it_knows() -> None:
    here = broker_with(TopicSettings("t", 3))
    handle(here, [message("a", sequence) for sequence in range(1, 6)], 0.0)
    there = broker_with()
    moving = there.add_topic(TopicSettings("t", 3), here.export_topic("t"))
    early = handle(there, [message("a", 5)], 0.0)
    assert early.acks == []  # not durable there yet
    there.on_committed([ticket(moving)])
    assert handle(there, [message("a", 5)], 0.0).acks == [Ack("t", "a", 1, 5)]
    assert [one.sequence for one in there.topics["t"].spool.view()] == [3, 4, 5]
    assert stored(handle(there, [message("a", 6)], 0.0)) == [("a", 6)]
    ended = here.remove_topic("t")
    assert ended.to_store is not None
    assert ended.to_store.changes[0].ended
    assert handle(here, [message("a", 6)], 0.0).refusals[0].reason is None
    with pytest.raises(ConfigError, match="already"):
        there.add_topic(TopicSettings("t", 3))


class Poisonous:
    """Sums values, and raises at a negative one, after having counted it."""

    def __init__(self) -> None:
        self.total = 0
        self.calls = 0

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        self.calls += 1
        assert spool.recent(len(batch)) == list(batch)
        for one in batch:
            value = json.loads(one.payload)["value"]
            self.total += value
            if value < 0:
                raise ValueError(f"poison {value}")
            yield Notification(str(self.total).encode(), cause=one)

    def state(self) -> bytes:
        return str(self.total).encode()

    def restore(self, state: bytes) -> None:
        self.total = int(state)


def test_a_poisonous_message_does_not_take_the_others_along() -> None:
    broker = broker_with(TopicSettings("t", 9, processor="p"), p=Poisonous())
    values = [1, 2, -5, 10, -7, 100]
    batch = [message("a", number, value=value) for number, value in enumerate(values, start=1)]
    actions = handle(broker, batch, 0.0)
    assert [one.notify.payload for one in actions.notifications] == [b"1", b"3", b"13", b"113"]
    assert stored(actions) == [("a", number) for number in range(1, 7)]
    assert actions.to_store is not None
    assert actions.to_store.changes[0].state == b"113"
    reports = [(one.event, one.message) for one in actions.reports]
    assert reports == [(GuardEvent.FAILED, batch[2]), (GuardEvent.FAILED, batch[4])]
    assert "poison -5" in actions.reports[0].detail


def test_a_processor_that_always_fails_rests_and_tries_again() -> None:
    processor = Poisonous()
    guard = GuardSettings(failures=3, quarantine_s=10.0)
    broker = broker_with(TopicSettings("t", 9, processor="p", guard=guard), p=processor)
    events = []
    for number in range(1, 31):
        actions = handle(broker, [message("a", number, value=-1)], float(number))
        assert stored(actions) == [("a", number)]
        events += [(number, one.event) for one in actions.reports if one.event != "failed"]
    assert events == [
        (3, GuardEvent.QUARANTINED),
        (13, GuardEvent.RESUMED),
        (15, GuardEvent.QUARANTINED),  # for 20 s now
    ]
    assert broker.topics["t"].processing.guard.unprocessed == 30 - 6
    well = handle(broker, [message("a", 31, value=5)], 40.0)
    assert [one.notify.payload for one in well.notifications] == [b"5"]


def test_a_processor_that_takes_too_long_rests() -> None:
    ticks = iter(range(1000))
    table = SubscriberTable()
    guard = GuardSettings(budget_s=0.5, overruns=2)
    broker = Broker(table, lambda: float(next(ticks)))
    broker.add_topic(TopicSettings("t", 9, guard=guard))
    events = [
        one.event
        for number in (1, 2, 3)
        for one in handle(broker, [message("a", number)], 0.0).reports
    ]
    assert events == [GuardEvent.OVERRUN, GuardEvent.OVERRUN, GuardEvent.QUARANTINED]


def test_good_batches_between_keep_a_processor_working() -> None:
    guard = ProcessorGuard(GuardSettings(failures=2, overruns=2, budget_s=1.0))
    for _ in range(10):
        guard.failed()
        guard.succeeded()
        assert guard.ended(0.1, 0.0) == []
    assert guard.ended(2.0, 0.0) == [GuardEvent.OVERRUN]
    assert guard.ended(0.1, 0.0) == []
    assert guard.ended(2.0, 0.0) == [GuardEvent.OVERRUN]
    with pytest.raises(ConfigError):
        GuardSettings(budget_s=0)


class Broken:
    """Does wrong whatever can be done wrong."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> list[Notification]:
        return ["not a notification"]  # type: ignore[list-item]

    def state(self) -> bytes:
        raise RuntimeError("no state")

    def restore(self, state: bytes) -> None:
        raise RuntimeError("no restore")


def test_whatever_a_processor_does_the_broker_goes_on() -> None:
    broker = broker_with(TopicSettings("t", 9, processor="p"), p=Broken())
    actions = handle(broker, [message("a", 1), message("a", 2)], 0.0)
    assert stored(actions) == [("a", 1), ("a", 2)]
    assert actions.notifications == []
    assert {one.event for one in actions.reports} == {GuardEvent.FAILED}


class WrongAudience:
    """Tells nobody in particular, and somebody."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> list[Notification]:
        return [
            Notification(b"1", "all"),  # type: ignore[arg-type]
            Notification(b"2", InCircle("x", 0, 1)),  # type: ignore[arg-type]
            Notification(b"3"),
        ]


def test_an_audience_that_is_none_is_reported_and_the_others_are_told() -> None:
    broker = broker_with(TopicSettings("t", 9, processor="p"), p=WrongAudience())
    broker._lookup.move("sub", 0.0, 0.0)  # type: ignore[attr-defined]
    actions = handle(broker, [message("a", 1)], 0.0)
    assert [one.notify.payload for one in actions.notifications] == [b"3"]
    assert len(actions.reports) == 2


def test_a_topic_without_a_name_is_refused() -> None:
    for name in ("", "x" * 1025):
        with pytest.raises(ConfigError, match="name"):
            TopicSettings(name, 1)


def test_audiences_become_clients() -> None:
    table = SubscriberTable()
    rng = Random(1)
    places = {f"c{number}": (rng.random(), rng.random()) for number in range(30)}
    for client, place in places.items():
        table.subscribe("t", client)
        table.move(client, *place)
    table.subscribe("t", "nowhere")
    table.unsubscribe("t", "c29")
    del places["c29"]

    def squared(client: str) -> float:
        return (places[client][0] - 0.5) ** 2 + (places[client][1] - 0.5) ** 2

    by_distance = sorted(places, key=squared)
    everyone, left_out = resolve(table, "t", AllSubscribers(), "c1")
    assert (set(everyone.clients), left_out) == ({*places, "nowhere"}, "c1")
    assert resolve(table, "t", AllSubscribers(), "c9 is no subscriber") == (everyone, "")
    assert (
        resolve(table, "t", NearestClients(0.5, 0.5, 5), "c1")[0].clients[:5]
        == tuple(client for client in by_distance if client != "c1")[:5]
    )
    near = resolve(table, "t", NearestClients(0.5, 0.5, 5), by_distance[0])[0].clients
    assert near == tuple(by_distance[1:6])
    assert set(resolve(table, "t", InCircle(0.5, 0.5, 0.3), by_distance[0])[0].clients) == {
        client for client in by_distance[1:] if squared(client) <= 0.09
    }
    named, _ = resolve(table, "t", NamedClients(("c1", "unknown", "c1", "c2")), "c1")
    assert named.clients == ("c1", "c2")
    assert resolve(table, "unknown", AllSubscribers(), "c1")[0].clients == ()


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_broker_and_log_together_lose_and_double_nothing_over_power_cuts(
    seed: int, inline: bool
) -> None:
    """Publishers resend until acknowledged; the network loses, doubles and reorders."""
    rng, disk = Random(seed), FakeDisk(seed)
    settings, topics = SpoolSettings(segment_bytes=3000), ("t", "u")
    publishers = [(topic, f"p{number}") for topic in topics for number in range(3)]
    sent = dict.fromkeys(publishers, 0)
    acked = dict.fromkeys(publishers, 0)
    for _ in range(12):
        disk.cut_power_in(rng.randint(5, 60))
        try:
            log = SpoolLog.open(disk, settings)
            broker = broker_with(t=Poisonous(), u=Poisonous())
            host, requests = FakeHost(Poisonous), list[ProcessRequest]()
            for topic in topics:
                live = log.recovered.state.topics.get(topic)
                one = TopicSettings(topic, 100_000, processor=topic, inline=inline)
                broker.add_topic(one, live, stored=True)
                view = [*broker.topics[topic].spool.view()]
                for publisher in {one.publisher for one in view}:
                    own = [one.sequence for one in view if one.publisher == publisher]
                    assert own == list(range(1, len(own) + 1))
                    assert len(own) >= acked[topic, publisher]
                # output and input are one: the state is the sum over what is spooled
                effect = sum(json.loads(one.payload)["value"] for one in view)
                assert int(broker.topics[topic].processing.state or b"0") == effect
            while True:
                batch = []
                for topic, publisher in publishers:
                    key = (topic, publisher)
                    sent[key] = min(sent[key] + rng.randint(0, 2), acked[key] + 20)
                    batch += [
                        message(publisher, number, topic=topic, value=20 * number)
                        for number in range(acked[key] + 1, sent[key] + 1)
                        if rng.random() < 0.8
                        for _ in range(rng.choice((1, 1, 2)))
                    ]
                rng.shuffle(batch)
                done = [host.run(one) for one in requests[: rng.randint(0, len(requests))]]
                events = [handle(broker, batch, 0.0)]
                events += [broker.on_processed(result, 0.0) for result in done]
                del requests[: len(done)]
                acks = []
                for actions in events:
                    requests += actions.to_process
                    if actions.to_store is not None:
                        log.append(actions.to_store)
                    acks += actions.acks
                if rng.random() < 0.7:
                    acks = acks + broker.on_committed(log.commit()).acks
                for ack in acks:
                    key = (ack.topic, ack.publisher)
                    assert ack.through <= sent[key]
                    acked[key] = max(acked[key], ack.through)
        except PowerCutError:
            disk.restart()
    assert sum(acked.values()) > (60 if inline else 40)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stream_that_was_yielded_is_not_taken_by_older_orders_though_the_server_restarts(
    restarts: bool,
) -> None:
    settings = TopicSettings("t", 10, version=1)
    broker = broker_with(settings)
    broker.on_committed([ticket(handle(broker, [message("car", 1)], 0.0))])
    broker.claims.on_claim("t", ["car"], Token(2, 1, "new", 7), whole=False)
    fenced = broker.run(1.0)
    assert fenced.claims == []  # a crash now may forget it
    yielded = broker.on_committed([ticket(fenced)]).claims
    assert [type(one) for one in yielded] == [Yield]
    if restarts:
        live, broker = broker.export_topic("t"), broker_with()
        broker.add_topic(settings, live, stored=True)
    broker.admit(message("car", 2), "home with old orders", 2.0, 1)
    actions = broker.run(2.0)
    assert actions.to_store is None
    asked = [one.to_server for one in actions.claims if isinstance(one, Ask)]
    assert (len(actions.busy), asked) == ((0, ["new"]) if restarts else (1, []))
    # a server that the site no longer has is not waited for
    broker.claims.repeat(lambda *_: False, lambda _: True, lambda _: False)
    assert stored(broker.run(3.0)) == ([("car", 2)] if restarts else [])


def test_a_server_that_lost_its_claim_does_not_hold_the_state_back_from_the_winner() -> None:
    settings = TopicSettings("t", 10, processor=COUNTING, version=1)
    broker = broker_with(settings)
    broker.on_committed([ticket(handle(broker, [message("car", 1)], 0.0))])
    winner, loser = Token(2, 2, "winner", 7), Token(2, 1, "loser", 7)
    broker.claims.on_claim("t", ["car"], winner, whole=False)
    broker.claims.on_claim("t", ["car"], loser, whole=True)
    broker.claims.on_claim("t", ["car"], winner, whole=True)
    said = list[Any]()
    for now_s in (1.0, 2.0, 3.0):
        actions = broker.run(now_s)
        tickets = [actions.to_store.ticket] if actions.to_store is not None else []
        said += actions.claims + broker.on_committed(tickets).claims
    assert [one.to_server for one in said if isinstance(one, Deny)] == ["loser"]
    (yielded,) = (one for one in said if isinstance(one, Yield))
    assert yielded.to_server == "winner"
    assert yielded.offer.number == 1
    assert yielded.offer.state
