"""Topics whose processor runs elsewhere do what inline ones do, only later."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from broker.hosting import DEADLY, FakeHost, Summing
from broker.making import advance, broker_with, handle, handle_copies, handle_once, message
from nearcast.broker.actions import Ack, Actions
from nearcast.broker.broker import Broker
from nearcast.broker.guard import GuardEvent, GuardSettings
from nearcast.broker.notices import decode_entry
from nearcast.broker.requests import Ending, ProcessRequest, ProcessResult
from nearcast.broker.topic_settings import TopicSettings
from nearcast.errors import ConfigError
from nearcast.spool.changes import LiveState
from nearcast.wire.messages import Notify
from nearcast.wire.publication import Origin, Publication

PATIENT = GuardSettings(failures=10_000, kills=10_000)


class Site:
    """A broker with a log that is always synced, and all that it ever said."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.log = LiveState()
        self.told: list[Notify] = []
        self.copied: list[Publication] = []
        self.acked: dict[str, tuple[int, int]] = {}
        self.requests: list[ProcessRequest] = []
        self.busy: list[Publication] = []
        self.events: list[tuple[GuardEvent, Publication | None]] = []

    def do(self, actions: Actions) -> Actions:
        self.told += [told.notify for told in actions.notifications]
        self.requests += actions.to_process
        self.busy += [one for one, _ in actions.busy]
        self.copied += [one for copy in actions.copies for one in copy.publications]
        self.events += [(one.event, one.message) for one in actions.reports]
        for ack in actions.acks:
            reached = (ack.epoch, ack.through)
            self.acked[ack.publisher] = max(self.acked.get(ack.publisher, (0, 0)), reached)
        if actions.to_store is not None:
            for change in actions.to_store.changes:
                self.log.apply(change)
            self.do(self.broker.on_committed([actions.to_store.ticket]))
        return actions

    def answer(self, host: FakeHost, now_s: float = 0.0) -> Actions:
        return self.do(self.broker.on_processed(host.run(self.requests.pop(0)), now_s))

    def spooled(self, topic: str = "t") -> list[tuple[str, int, int]]:
        view = self.broker.topics[topic].spool.view()
        return [(one.publisher, one.epoch, one.sequence) for one in view]


def settings(**more: object) -> TopicSettings:
    return TopicSettings("t", 40, processor="p", guard=PATIENT, **more)  # type: ignore[arg-type]


def hosted(**more: object) -> Site:
    return Site(broker_with(settings(inline=False, **more)))


def traffic(rng: Random, rounds: int) -> Iterator[tuple[str, list[Publication]]]:
    """Batches that are lost in part, doubled and out of order, and copies between them."""
    sent = dict.fromkeys("abc", 0)
    epochs = dict.fromkeys("abc", 1)
    for _ in range(rounds):
        batch = []
        for publisher in "abc":
            if rng.random() < 0.02:
                epochs[publisher] += 1
                sent[publisher] = 0
            sent[publisher] += rng.randint(0, 3)
            for number in range(max(1, sent[publisher] - 5), sent[publisher] + 1):
                # the same message has the same value each time
                value = Random(f"{publisher}{epochs[publisher]}{number}").choice(
                    [1, 2, 3, 4, 5, -7, 100, DEADLY]
                )
                if rng.random() < 0.8:
                    batch.append(message(publisher, number, epoch=epochs[publisher], value=value))
        rng.shuffle(batch)
        yield rng.choice(("direct", "direct", "copies", "once", "advance")), batch
    yield "direct", [message("z", 1, value=1)]


def feed(site: Site, kind: str, batch: list[Publication], now_s: float) -> None:
    if kind == "direct":
        site.do(handle(site.broker, batch, now_s))
    elif kind == "once":
        site.do(handle_once(site.broker, batch, now_s))
    elif kind == "copies":
        site.do(handle_copies(site.broker, batch, "there", now_s))
    else:
        for one in batch[:1]:
            site.do(advance(site.broker, "t", one.publisher, one.epoch, one.sequence, now_s))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("notify_after_sync", [False, True])
def test_a_hosted_topic_says_and_stores_what_an_inline_one_does(
    seed: int, notify_after_sync: bool
) -> None:
    rng, host = Random(seed), FakeHost()
    both = settings(notify_after_sync=notify_after_sync, other_brokers=("there",))
    inline = Site(broker_with(both, p=Summing()))
    other = hosted(
        notify_after_sync=notify_after_sync,
        other_brokers=("there",),
        batch_limit=rng.choice((1, 3, 256)),
    )
    for turn, (kind, batch) in enumerate(traffic(rng, 60)):
        feed(inline, kind, batch, float(turn))
        feed(other, kind, batch, float(turn))
        while other.requests and rng.random() < 0.5:
            other.answer(host, turn + 0.5)
        if rng.random() < 0.05:
            host.restart()
    while other.requests:
        other.answer(host)
    for durable in (True, False):  # the others need not wait for a sync
        assert [one for one in other.told if one.durable is durable] == [
            one for one in inline.told if one.durable is durable
        ]
    assert other.spooled() == inline.spooled()
    assert other.log == inline.log
    assert other.copied == inline.copied
    assert other.broker.export_topic("t") == other.log.topics["t"]
    assert inline.broker.export_topic("t") == inline.log.topics["t"]
    assert other.acked.keys() == inline.acked.keys()
    for publisher, reached in other.acked.items():  # later, so perhaps for more at once
        position = other.log.topics["t"].positions[publisher]
        assert inline.acked[publisher] <= reached <= (position.epoch, position.sequence)
    assert len(inline.told) > 50
    assert host.kills > 0
    assert other.broker.topics["t"].waiting == 0


def test_some_batches_are_on_their_way_and_what_comes_meanwhile_goes_together() -> None:
    site, host = hosted(batch_limit=3), FakeHost()
    for number in range(1, 11):
        one = message("a", number, at_s=float(number), value=1)
        site.do(handle(site.broker, [one], float(number)))
    assert [len(one.batch) for one in site.requests] == [1, 1, 1, 1]
    assert [one.first for one in site.requests] == [True, False, False, False]
    assert (site.told, site.spooled(), site.acked) == ([], [], {})
    site.answer(host)
    assert [one.sequence for one in site.requests[-1].batch] == [5, 6, 7]
    assert site.acked == {"a": (1, 1)}
    while site.requests:
        site.answer(host)
    assert [one.sequence for one in site.told] == list(range(1, 11))
    assert site.acked == {"a": (1, 10)}


def test_a_duplicate_of_a_waiting_message_is_one_and_is_acknowledged_when_that_is_durable() -> None:
    site, host = hosted(), FakeHost()
    site.do(handle_copies(site.broker, [message("a", 1, value=1)], "there", 0.0))
    site.do(handle(site.broker, [message("b", 1, value=1)], 0.0))
    site.do(handle_copies(site.broker, [message("b", 2, value=1)], "there", 0.0))
    again = site.do(handle(site.broker, [message("b", 1, value=1), message("b", 2, value=1)], 0.0))
    assert again.duplicates == 2
    assert again.acks == []
    assert site.acked == {}
    site.answer(host)
    assert [one.sequence for one in site.told] == [1]  # the other was processed there
    assert site.acked == {"b": (1, 2)}


def test_what_is_too_much_is_refused_as_busy_and_comes_through_later() -> None:
    site, host = hosted(pending_limit=2), FakeHost()
    batch = [message("a", number, value=1) for number in range(1, 9)]
    for one in batch:
        site.do(handle(site.broker, [one], 0.0))
    assert site.busy == batch[6:]  # four are on their way, two wait
    duplicates = site.do(handle(site.broker, batch[:3], 0.0)).duplicates
    assert (duplicates, site.busy) == (3, batch[6:])
    once = message("a", 1, value=1, origin=Origin.ONCE)
    assert site.do(handle_once(site.broker, [once], 0.0)).busy == [(once, None)]
    copies = [message("b", number, value=1) for number in range(1, 8)]
    refused = site.do(handle_copies(site.broker, copies, "there", 0.0)).busy
    assert [one.sequence for one, _ in refused] == [7]
    while site.requests:
        site.answer(host)
    site.do(handle(site.broker, batch[6:], 0.0))
    site.answer(host)
    assert [one.sequence for one in site.told] == list(range(1, 9))


def test_a_batch_that_ends_its_process_is_tried_one_by_one() -> None:
    site, host = hosted(), FakeHost()
    values = [1, 2, DEADLY, 3]
    batch = [message("a", number, value=value) for number, value in enumerate(values, start=1)]
    site.do(handle(site.broker, batch, 0.0))
    while site.requests:
        site.answer(host)
    assert [(one.sequence, one.payload[:2]) for one in site.told] == [
        (1, b"[1"),
        (2, b"[3"),
        (4, b"[6"),
    ]
    assert site.events == [(GuardEvent.KILLED, None), (GuardEvent.KILLED, batch[2])]
    assert site.acked == {"a": (1, 4)}
    assert site.log.topics["t"].state == b"6"
    assert len(site.log.topics["t"].records) == 4


def test_a_processor_that_ends_its_process_again_and_again_rests_and_loses_nothing() -> None:
    guard = GuardSettings(kills=3, quarantine_s=10.0)
    site = Site(broker_with(TopicSettings("t", 9, processor="p", guard=guard, inline=False)))
    host, now_s = FakeHost(), 0.0
    rests = []
    for number in range(1, 100):
        site.do(handle(site.broker, [message("a", number, value=DEADLY)], now_s))
        while site.requests:
            actions = site.answer(host, now_s)
            if any(one.event is GuardEvent.QUARANTINED for one in actions.reports):
                rests.append(now_s)
        now_s += 1.0
    assert rests == [2.0, 12.0, 32.0, 72.0]  # then for 10, 20, 40, 80 s
    assert host.kills == 3 + 3
    assert site.acked == {"a": (1, 99)}
    topic = site.broker.topics["t"]
    guard_of = topic.processing.guard
    assert (len(topic.spool), topic.waiting) == (9, 0)
    assert guard_of.unprocessed == 99 - 6
    assert guard_of.rests_until_s is not None


def test_results_that_nobody_waits_for_change_nothing() -> None:
    site, host = hosted(), FakeHost()
    site.do(handle(site.broker, [message("a", 1, value=1)], 0.0))
    late = host.run(site.requests[0])
    live = site.broker.export_topic("t")
    (forget,) = site.broker.remove_topic("t").to_process
    assert forget.ended
    assert site.broker.on_processed(late, 0.0) == Actions()
    site.broker.add_topic(settings(inline=False), live)
    site.requests.clear()
    site.do(handle(site.broker, [message("a", 1, value=5)], 0.0))
    assert site.broker.on_processed(late, 0.0) == Actions()
    assert site.requests[0].first
    site.answer(host)
    assert [one.payload for one in site.told] == [b'[5, [["a", 1]]]']
    assert site.broker.on_processed(ProcessResult("nowhere", 1), 0.0) == Actions()


def test_what_waits_is_neither_exported_nor_called_gone() -> None:
    site, host = hosted(), FakeHost()
    site.do(handle(site.broker, [message("a", 1, value=1)], 0.0))
    site.answer(host)
    site.do(handle(site.broker, [message("a", 2, value=1), message("a", 3, value=1)], 0.0))
    assert site.broker.export_topic("t").positions["a"].sequence == 1
    assert site.broker.recall("t", "a", 1, ((1, 3),)) == ([message("a", 1, value=1)], 0)
    site.answer(host)
    assert site.broker.export_topic("t").positions["a"].sequence == 3


@pytest.mark.parametrize("inline", [True, False])
def test_a_message_without_acknowledgement_is_processed_and_forgotten(inline: bool) -> None:
    broker = broker_with(settings(inline=inline, notify_after_sync=True), p=Summing())
    site, host = Site(broker), FakeHost()
    batch = [message("a", number, value=number) for number in (2, 5, 5, 4, 6)]
    actions = site.do(handle_once(broker, batch, 3.0))
    while site.requests:
        site.answer(host)
    assert actions.duplicates == 2
    assert [(one.sequence, one.durable) for one in site.told] == [
        (2, False),
        (5, False),
        (6, False),
    ]
    assert (site.acked, site.log, site.copied) == ({}, LiveState(), [])
    assert [sequence for _, _, sequence in site.spooled()] == [2, 5, 6]
    assert not broker.export_topic("t").records
    (refusal,) = handle_once(broker, [message("a", 0, value=1)], 3.0).refusals
    assert refusal.publication.origin is Origin.ONCE
    # numbers of the two kinds have nothing to do with each other
    site.do(handle(broker, [message("a", 1, value=1)], 4.0))
    while site.requests:
        site.answer(host)
    assert site.acked == {"a": (1, 1)}
    (record,) = site.log.topics["t"].records
    assert decode_entry("t", record).sequence == 1
    assert site.log.topics["t"].state == b"14"
    assert site.told[-1].durable


def test_a_hosted_processor_is_not_made_here() -> None:
    broker = broker_with()
    broker.add_topic(TopicSettings("t", 1, processor="no_such_module:Thing", inline=False))
    (request,) = handle(broker, [message("a", 1)], 0.0).to_process
    assert request.settings.processor == "no_such_module:Thing"
    assert handle(broker, [message("a", 1)], 0.0).acks == []
    result = ProcessResult("t", request.request, ending=Ending.TIMED_OUT, detail="too slow")
    actions = broker.on_processed(result, 0.0)
    assert actions.reports[0].detail == "too slow at 1 messages"
    assert actions.to_store is not None
    assert broker.on_committed([actions.to_store.ticket]).acks == [Ack("t", "a", 1, 1)]


def test_other_brokers_may_be_told_of_later() -> None:
    site, host = hosted(), FakeHost()
    site.broker.topics["t"].settings = settings(inline=False, other_brokers=("there",))
    site.do(handle(site.broker, [message("a", 1, value=1)], 0.0))
    site.answer(host)
    assert site.copied == [message("a", 1, value=1)]


def test_limits_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="limits of topic 't'"):
        TopicSettings("t", 1, batch_limit=0)
    with pytest.raises(ConfigError, match="limits of topic 't'"):
        TopicSettings("t", 1, pending_limit=0)
