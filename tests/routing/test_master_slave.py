"""The baseline: the master's word decides, and a question without answer is asked again."""

from __future__ import annotations

from random import Random

import pytest

from nearcast.errors import ConfigError
from nearcast.routing.index_mapping import ContentMapping, IndexMapping, ShuffleMapping
from nearcast.routing.keys import CLOUD, INDEX_END
from nearcast.routing.lasr import LasrRouter
from nearcast.routing.master_slave import Master, MasterSlaveRouter
from nearcast.routing.route_actions import Deliver, Reject, SendPeer
from nearcast.routing.route_messages import Ask, Assign, Cancel, Data, Destination, Took
from nearcast.routing.router import Router, RoutingSettings

HALF = INDEX_END // 2


def _owner(master: Master, index: int) -> str:
    (answer,) = master.on_message("b", Ask(1, "t", index))
    assert isinstance(answer, SendPeer)
    assert isinstance(answer.message, Destination)
    return answer.message.peer


def test_the_last_word_about_an_index_counts() -> None:
    master = Master()
    assert _owner(master, 0) == ""
    for low, high, peer in ((0, INDEX_END, "d1"), (0, HALF, "d2"), (5, 7, "d3")):
        assert master.on_message("d1", Assign("t", low, high, peer)) == []
    assert [_owner(master, index) for index in (0, 4, 5, 6, 7, HALF - 1, HALF)] == [
        *("d2", "d2", "d3", "d3", "d2", "d2", "d1")
    ]
    master.on_message("d1", Assign("t", 9, 9, "nobody"))
    assert master.refused == 1


def test_the_masters_table_has_an_end() -> None:
    master = Master(max_ranges=2)
    for low in (0, 2, 4):
        master.on_message("d", Assign("t", low, low + 1, f"d{low}"))
    assert (_owner(master, 2), _owner(master, 4), master.refused) == ("d2", "", 1)


def test_a_message_waits_for_its_destination() -> None:
    router = MasterSlaveRouter("b", CLOUD, "m", Random(1), RoutingSettings(reply_s=1.0))
    (asked,) = router.publish("t", b"body", 0.0)
    assert isinstance(asked, SendPeer)
    assert isinstance(asked.message, Ask)
    assert router.on_timer(0.5) == []
    assert router.on_timer(1.0) == [asked]
    answer = Destination(asked.message.request, "d1")
    assert router.on_message("liar", answer, 1.1) == []
    (sent,) = router.on_message("m", answer, 1.2)
    assert isinstance(sent, SendPeer)
    assert isinstance(sent.message, Data)
    assert (sent.peer, sent.message.body) == ("d1", b"body")
    assert router.on_message("m", answer, 1.3) == []
    assert router.on_message("b2", sent.message, 1.4) == [Deliver(sent.message)]
    assert router.counts.refused == router.counts.duplicates == router.counts.delivered == 1


def test_nobody_to_send_to_and_no_room_to_wait_are_told() -> None:
    router = MasterSlaveRouter("b", CLOUD, "m", Random(1), RoutingSettings(max_backlog=1))
    (asked,) = router.publish("t", b"", 0.0)
    assert router.publish("t", b"", 0.0) == [Reject("t", "too many messages wait for the master")]
    assert isinstance(asked, SendPeer)
    assert isinstance(asked.message, Ask)
    told = router.on_message("m", Destination(asked.message.request, ""), 0.1)
    assert told == [Reject("t", "no component has the topic")]
    assert (router.counts.backlog_full, router.counts.undeliverable) == (1, 1)


def test_components_tell_the_master() -> None:
    router = MasterSlaveRouter("d1", CLOUD, "m", Random(1))
    assert router.subscribe("t", 0, 5, 0.0) == [SendPeer("m", Assign("t", 0, 5, "d1"))]
    assert router.hand_over("t", 0, 2, "d2") == [SendPeer("m", Assign("t", 0, 2, "d2"))]
    with pytest.raises(ConfigError, match="name"):
        router.hand_over("t", 0, 2, "")


@pytest.mark.parametrize("mapping", [ShuffleMapping(5, 6), ContentMapping(lambda _: [])])
def test_both_routers_are_used_alike(mapping: IndexMapping) -> None:
    lasr = LasrRouter("b", CLOUD, Random(1), mappings={"t": mapping})
    slave = MasterSlaveRouter("b", CLOUD, "m", Random(1), mappings={"t": mapping})
    routers: list[Router] = [lasr, slave]
    for router in routers:
        assert router.subscribe("t", 0, INDEX_END, 0.0)
        assert router.publish("t", b"body", 0.0)
        assert router.on_timer(0.1) == []
        assert router.on_message("stranger", Took(7), 0.2) in (
            [],
            [SendPeer("stranger", Cancel(7))],
        )
    for counts in (lasr.counts, slave.counts):
        assert (counts.published, counts.refused) == (1, 1)
        assert counts.mapping_errors == isinstance(mapping, ContentMapping)
