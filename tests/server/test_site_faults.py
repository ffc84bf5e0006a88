"""A whole site with a bad network and servers that die: nothing acknowledged is lost or doubled."""

from __future__ import annotations

from collections import Counter

import pytest

from nearcast.server.broker_messages import Advance, Copies, CopyNack
from nearcast.server.mesh_messages import (
    Hello,
    HomeNotice,
    Manages,
    MeshMessage,
    Notices,
    Undelivered,
    encode_mesh,
)
from nearcast.server.peer_channel import PeerFrame, encode_frame
from nearcast.server.publisher_messages import Forward, ForwardAck, ForwardBusy, ForwardNack
from nearcast.server.subscriber_messages import (
    Subscribers,
    SubscribersKnown,
)
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite
from nearcast.wire.hot_frames import encode_notify
from nearcast.wire.messages import Notify
from server.site_making import QUICK, Identity, RandomSite


def bad_network() -> Network:
    return Network(loss=0.1, duplication=0.05, jitter_s=0.01)


def check_spools(made: RandomSite, *, everywhere: bool = True) -> None:
    """All that was published is in the spools, once and in its publisher's order.

    Everything that was published is acknowledged when this is called, and fits into the spools.
    """
    assert made.unacknowledged == 0
    for order in made.orders().topics:
        published = {one for one in made.published if one[0] == order.topic}
        found: set[Identity] = set()
        for broker in order.brokers:
            spool = made.spool_of(broker, order.topic)
            assert not [one for one, count in Counter(spool).items() if count > 1]
            for publisher in made.publishers[order.topic]:
                own = [sequence for _, who, sequence in spool if who == publisher]
                assert own == sorted(own)
            if everywhere:
                assert set(spool) == published
            found.update(spool)
        assert found == published


def check_last_round(made: RandomSite) -> None:
    """Everybody hears everything again, once."""
    before = len(made.published)
    for topic, publishers in made.publishers.items():
        for publisher in publishers:
            made.publish(topic, publisher)
            made.site.run(0.05)
    made.site.run(10.0)
    last = made.published[before:]
    heard = made.heard()
    for name, wanted in made.expected(last).items():
        assert {one: heard[name][one] for one in wanted} == dict(wanted)


@pytest.mark.parametrize("seed", range(8))
def test_on_a_bad_network_all_is_acknowledged_spooled_and_heard_once(seed: int) -> None:
    made = RandomSite(seed, spool=1_000, network=bad_network())
    made.start()
    made.publish_some(80, pause_s=0.01)
    made.site.run(30.0)
    check_spools(made)
    assert made.heard() == made.expected()
    processed = [(topic, who, number) for _, topic, who, _, number in made.site.processed]
    assert Counter(processed) == Counter(made.published)


@pytest.mark.parametrize("seed", range(14))
def test_servers_that_die_and_come_back_lose_and_double_nothing(seed: int) -> None:
    made = RandomSite(
        seed, spool=1_000, network=bad_network(), wire=QUICK, notify_after_sync=seed % 2 == 0
    )
    made.start()
    deaths = 0
    for _ in range(12):
        made.publish_some(8, pause_s=0.01)
        deaths += made.kill_or_restart_some(0.7)
        made.site.run(made.rng.random())
    assert deaths
    made.restart_all()
    made.site.run(40.0)
    check_spools(made)
    for counts in made.heard().values():
        assert set(counts.values()) <= {1}
    check_last_round(made)


@pytest.mark.parametrize("seed", range(4))
def test_a_broker_that_restarts_learns_the_subscribers_of_all_homes_again(seed: int) -> None:
    # all is processed by the cloud server, at once
    made = RandomSite(seed, delegated=1.0, wire=QUICK, processor="forward")
    made.start()
    made.publish_some(10)
    cloud = made.site.servers["cloud"]
    cloud.kill()
    made.publish_some(20)  # waits for it
    cloud.restart()
    made.site.run(8.0)
    check_last_round(made)
    assert made.heard() == made.expected()


@pytest.mark.parametrize("seed", range(4))
def test_a_home_that_restarts_is_no_longer_told_of_clients_that_went_away(seed: int) -> None:
    made = RandomSite(seed, delegated=1.0, wire=QUICK)
    made.start()
    name, home = next(iter(made.homes.items()))
    made.people[name].session.close()
    made.site.servers[home].kill()
    made.site.run(1.0)
    made.site.servers[home].restart()
    made.site.run(8.0)
    cloud = made.site.servers["cloud"].node
    assert cloud is not None
    for topic, subscribers in made.subscribers.items():
        assert set(cloud.subscribers.table.subscribers(topic)) == set(subscribers) - {name}


@pytest.mark.parametrize("seed", range(4))
def test_a_partition_heals_without_loss(seed: int) -> None:
    made = RandomSite(seed, spool=1_000)
    made.start()
    names = list(made.site.servers)
    pairs = {frozenset((one, other)) for one in names for other in names if one < other}
    made.network.cuts.update(made.rng.sample(sorted(pairs, key=sorted), 3))
    made.publish_some(60)
    made.site.run(10.0)
    made.network.cuts.clear()
    made.site.run(30.0)
    check_spools(made)
    assert made.heard() == made.expected()


def test_a_dead_cloud_server_does_not_stop_what_edge_servers_process() -> None:
    made = RandomSite(3, delegated=0.5, wire=QUICK, processor="forward")
    made.start()
    made.site.servers["cloud"].kill()
    made.publish_some(40)
    made.site.run(3.0)
    local = [one for one in made.published if made.targets[one[:2]] != "cloud"]
    assert local
    assert made.heard() == made.expected(local)
    made.site.servers["cloud"].restart()
    made.site.run(30.0)
    assert made.unacknowledged == 0
    assert made.heard() == made.expected()


def test_frames_between_servers_stay_in_proportion_on_a_bad_network() -> None:
    good, bad = (RandomSite(5, network=network) for network in (Network(), bad_network()))
    for made in (good, bad):
        made.start()
        made.publish_some(100)
        made.site.run(20.0)
        assert made.unacknowledged == 0
    # each lost frame costs a repetition and maybe an acknowledgement of its own
    assert bad.site.frames <= 2 * good.site.frames


def notice(payload: bytes, *clients: str, topic: str = "t0") -> HomeNotice:
    return HomeNotice(encode_notify(Notify(topic, "p", 1, 1, True, 0, payload, 1, 1, 1)), clients)


WRONG: list[MeshMessage] = [
    Copies("t0", (b"", b"\xff" * 10)),
    Copies("t0", (b"\x00" * 200,)),
    Copies("", ()),
    Forward("t0", (b"no record",), (1,)),
    Forward("t0", (), (1, 2)),
    Forward("x" * 5_000, (), ()),
    ForwardAck("t0", "c0", -5, -1),
    ForwardAck("nowhere", "nobody", 1, 1 << 63),
    ForwardNack("t0", "c0", -1, -1),
    ForwardNack("t0", "nobody", 1, 1),
    ForwardBusy("t0", "c0", float("inf")),
    ForwardBusy("t0", "c0", float("nan")),
    ForwardBusy("t0", "nobody", 0.1),
    CopyNack("t0", "c0", 1, ((5, 1), (-9, 1 << 60))),
    CopyNack("nowhere", "nobody", 1, ()),
    Advance("t0", "c0", -1, -1),
    Advance("nowhere", "c0", 1 << 63, 1 << 63),
    Undelivered("c0", (b"", b"\x00", b"rubbish")),
    Undelivered("nobody", (b"\x00",)),
    Notices((notice(b"x", "c0"), notice(b"", "c0", "nobody", topic=""))),
    Notices((HomeNotice(b"rubbish", ("c0",)),)),
    Notices((notice(bytes(5_000), "c0"),)),
    SubscribersKnown(-1),
    Subscribers("t0", (("nobody", float("nan"), float("inf")),), complete=False),
    Manages("y" * 5_000),
    Manages(""),
    Hello(-1),
]


@pytest.mark.parametrize("victim", ["e0", "cloud"])
def test_whatever_comes_over_the_mesh_a_server_goes_on(victim: str) -> None:
    made = RandomSite(2, edges=2)
    made.start()
    server = made.site.servers[victim]
    node = server.node
    assert node is not None
    garbage = [made.rng.randbytes(made.rng.randrange(80)) for _ in range(300)]
    contents = (*(encode_mesh(one) for one in WRONG), *garbage)
    for data in garbage:
        server.on_mesh("e1", data)
    # as if the other edge server had restarted and sent all that
    server.on_mesh("e1", encode_frame(PeerFrame(2, False, 1, 1, list(contents), 0, 0)))
    made.site.run(1.0)
    assert node.counts["mesh_refused"] >= len(garbage)
    refused = [one for one in server.incidents if one.event == "mesh_refused"]
    assert len(refused) == node.counts["mesh_refused"]
    assert {one.fields["server"] for one in refused} == {"e1"}
    server.on_mesh("nobody", encode_frame(PeerFrame(1, False, 1, 1, [encode_mesh(WRONG[0])], 0, 0)))
    assert node.counts["mesh_rejected_unknown_server"] == 1
    made.site.servers["e1"].kill()
    made.site.servers["e1"].restart()
    made.site.servers["e1"].kill()  # its incarnation must be above the one made up here
    made.site.servers["e1"].restart()
    made.site.run(40.0)
    made.publish_some(20)
    made.site.run(20.0)
    assert made.unacknowledged == 0
    check_last_round(made)


def test_a_power_cut_takes_no_orders_away_that_anybody_saw_obeyed() -> None:
    made = RandomSite(1, delegated=1.0)
    made.start()
    cloud = made.site.servers["cloud"]
    sent = cloud.steps
    cloud.crash_in(0)
    cloud.obey(made.orders(7))
    assert cloud.node is None
    assert cloud.steps == sent
    assert cloud.saved_orders is not None
    assert cloud.saved_orders.revision < 7
    cloud.restart()
    cloud.obey(made.orders(8))
    cloud.cut_power()
    cloud.restart()
    assert cloud.node is not None
    assert cloud.node.orders is not None
    assert cloud.node.orders.revision == 8


def test_a_server_without_orders_processes_nothing() -> None:
    # it does not know the processors: a state kept by one would be lost with another in its place
    made = RandomSite(1, delegated=1.0, processor="forward")
    made.start()
    cloud = made.site.servers["cloud"]
    cloud.kill()
    orders, cloud.orders_file = cloud.orders_file, None
    cloud.restart()
    before = cloud.stored
    made.publish_some(5)
    made.site.run(2.0)
    assert cloud.stored == before
    assert made.unacknowledged == 5
    cloud.kill()
    cloud.orders_file = orders
    cloud.restart()
    made.site.run(10.0)
    assert made.unacknowledged == 0
    assert made.heard() == made.expected()


@pytest.mark.parametrize("in_order", [True, False])
def test_links_between_simulated_servers_keep_order_where_they_are_said_to(in_order: bool) -> None:
    site = SimulatedSite(1, Network(jitter_s=0.01, keeps_frame_order=in_order))
    heard: list[bytes] = []
    site.on_frame["b"] = lambda _sender, frame: heard.append(frame)
    sent = [bytes([number]) for number in range(50)]
    for frame in sent:
        site.send_frame("a", "b", frame)
    site.run(1.0)
    assert sorted(heard) == sent
    assert (heard == sent) == in_order
