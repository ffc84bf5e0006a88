"""What the log keeps of the notifications that records caused."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import pytest

from broker.making import broker_with, handle, handle_copies, handle_once, message
from nearcast.broker.actions import Actions
from nearcast.broker.broker import Broker
from nearcast.broker.notices import (
    Notice,
    decode_entry,
    encode_entry,
    encode_notices,
    notices_of,
)
from nearcast.broker.notifications import InCircle, NamedClients, Notification
from nearcast.broker.topic_settings import TopicSettings
from nearcast.broker.topic_spool import SpoolView
from nearcast.spool.changes import GENERATION, LiveState
from nearcast.wire.publication import AS_IT_IS, NO_NOTICES, Publication


class Several:
    """Says several things about each message, to different clients."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> list[Notification]:
        """Return three notifications per message."""
        return [
            Notification(payload, audience, one)
            for one in batch
            for payload, audience in (
                (one.payload, Notification(b"").audience),
                (b"named", NamedClients(("sub", "away"))),
                (b"near", InCircle(0.0, 0.0, 1.0)),
            )
        ]


def entries(actions: Actions) -> list[Publication]:
    assert actions.to_store is not None
    (change,) = actions.to_store.changes
    found = [decode_entry("t", entry) for entry in change.records]
    assert change.end == max(one.offset for one in found)
    return found


def test_what_says_the_same_as_its_record_is_one_byte() -> None:
    broker = broker_with(TopicSettings("t", 10))
    actions = handle(broker, [message("car", 1, value=3), message("car", 2)], 0.0)
    first, second = entries(actions)
    assert (first.notices, first.offset, second.offset) == (AS_IT_IS, 1, 2)
    assert notices_of(first) == [Notice(0, first.payload)]
    assert len(encode_entry(first)) == len(first.record()) + 9
    assert [(one.notify.broker, one.notify.offset) for one in actions.notifications] == [
        ("", 1),
        ("", 2),
    ]


def test_a_notice_is_kept_though_nobody_hears_it_now() -> None:
    broker = broker_with(TopicSettings("t", 10), subscribers=())
    actions = handle(broker, [message("car", 1)], 0.0)
    assert not actions.notifications
    assert entries(actions)[0].notices == AS_IT_IS


def test_other_notices_keep_payload_part_and_clients() -> None:
    broker = broker_with(TopicSettings("t", 10, processor="several"), several=Several())
    (one,) = entries(handle(broker, [message("car", 1, value=3)], 0.0))
    assert notices_of(one) == [
        Notice(0, one.payload, None),
        Notice(1, b"named", ("sub", "away")),
        Notice(2, b"near", ()),
    ]


def test_copies_and_what_is_sent_once_have_no_offset() -> None:
    broker = broker_with(TopicSettings("t", 10))
    handle_once(broker, [message("car", 1)], 0.0)
    actions = handle_copies(broker, [message("bus", 1)], "e2", 0.0)
    assert actions.to_store is not None
    (change,) = actions.to_store.changes
    copy = decode_entry("t", change.records[0])
    assert (copy.offset, copy.notices, change.end) == (0, NO_NOTICES, 0)
    assert entries(handle(broker, [message("car", 1)], 0.0))[0].offset == 1


def restarted(log: LiveState) -> Broker:
    log.begin_generation()
    broker = broker_with()
    broker.add_topic(TopicSettings("t", 2), log.topics["t"], stored=True)
    return broker


def test_a_restart_gives_no_offset_again_and_goes_on_counting() -> None:
    broker = broker_with(TopicSettings("t", 2))
    log = LiveState()
    stored = handle(broker, [message("car", number) for number in range(1, 6)], 0.0).to_store
    assert stored is not None
    log.apply(stored.changes[0])
    handle(broker, [message("car", 6)], 0.0)  # told, and lost with the server
    broker = restarted(log)
    assert [one.offset for one in broker.topics["t"].spool.view()] == [4, 5]
    assert entries(handle(broker, [message("bus", 1)], 0.0))[0].offset == GENERATION + 6
    handle_once(broker, [message("car", n) for n in range(1, 4)], 0.0)
    emptied = handle(broker, [message("bus", 2)], 0.0).to_store
    assert emptied is not None
    log.apply(emptied.changes[0])
    broker = restarted(log)
    assert entries(handle(broker, [message("bus", 3)], 0.0))[0].offset == 2 * GENERATION + 8


def test_bytes_that_are_not_an_entry_are_refused() -> None:
    rng = Random(1)
    one = message("car", 1, value=3)
    one.notices = encode_notices([Notice(0, b"payload", ("a", "b"))])
    whole = encode_entry(one)
    assert notices_of(decode_entry("t", whole)) == [Notice(0, b"payload", ("a", "b"))]
    for length in range(len(whole) - len(one.payload)):
        with pytest.raises(ValueError, match=r"entry|record"):
            decode_entry("t", whole[:length])
    for _ in range(2_000):
        data = bytearray(whole)
        data[rng.randrange(len(data))] = rng.randrange(256)
        with suppress(ValueError):
            notices_of(decode_entry("t", bytes(data)))
