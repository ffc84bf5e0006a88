"""A server whose spool lost something: it says so, and gets back what other brokers have."""

from __future__ import annotations

import pytest

from nearcast.spool.segments import SegmentName
from server.site_making import QUICK, RandomSite


@pytest.mark.parametrize("seed", range(6))
def test_what_a_spool_lost_comes_back_from_the_topics_other_brokers(seed: int) -> None:
    made = RandomSite(seed, spool=1_000, delegated=0.5, wire=QUICK)
    made.start()
    made.publish_some(60, pause_s=0.01)
    made.site.run(5.0)  # quiet: the spool notes where it ends
    shared = [one for one in made.orders().topics if len(one.brokers) > 1]
    assert shared
    for order in shared:
        victim = made.site.servers[order.brokers[seed % 2]]
        before = made.spool_of(victim.name, order.topic)
        assert victim.node is not None
        topics = victim.node.broker.topics.values()
        given = max(topic.durable_end for topic in topics)
        victim.kill()
        made.site.run(0.5)
        disk = victim.spool.disk
        names = list(filter(None, map(SegmentName.parse, disk.names())))
        for name in names:  # all of it, or only the newest segment
            if seed % 3 or name == max(names):
                disk.truncate(str(name), 10)
        victim.restart()
        made.site.run(10.0)
        assert victim.damages
        assert victim.node is not None
        assert victim.node.counts["spool_damages"] > 0
        assert set(made.spool_of(victim.name, order.topic)) == set(before)
        # or subscribers that were away would take what is new for what they have heard; a server
        # that loses all of its log a second time begins where it did after the first
        assert victim.node._broker_part.start > given or order is not shared[0]
