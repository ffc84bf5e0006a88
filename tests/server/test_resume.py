"""Notifications at least once: crashes of brokers and homes, absences, retention, plan switches.

Each path is also run with its part switched off: then something must be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from nearcast.broker import settlement
from nearcast.errors import WireError
from nearcast.server import replays
from nearcast.server.mesh_messages import Resumed
from nearcast.server.resumption import Resumption
from nearcast.server.subscriber_messages import SubscribersWanted
from nearcast.testing.fake_disk import FakeDisk
from nearcast.testing.simulated_server import SimulatedServer
from nearcast.wire import server_session
from nearcast.wire.actions import Confirmed, Connected, Missed
from nearcast.wire.client_session import ClientSession
from nearcast.wire.codec import encode
from nearcast.wire.cursors import Cursors
from nearcast.wire.messages import Gap, Heartbeat, Resume
from nearcast.wire.publication import NO_NOTICES
from nearcast.wire.settings import WireSettings
from server.site_making import NOTED, QUICK, RandomSite
from server.test_site_faults import bad_network


def missing(made: RandomSite) -> dict[str, Counter[tuple[str, str, int]]]:
    """What clients did not hear, or more often than once."""
    heard = made.heard()
    return {
        name: wrong
        for name, wanted in made.expected().items()
        if (wrong := (wanted - heard[name]) + (heard[name] - wanted))
    }


def faults(made: RandomSite, rounds: int, *, switches: bool) -> int:
    """Let servers crash and clients be away; return how often."""
    site, rng, count = made.site, made.rng, 0
    for number in range(rounds):
        made.publish_some(6, pause_s=0.01)
        server, choice = rng.choice(list(site.servers.values())), rng.random()
        if server.node is None:
            server.restart()
        elif choice < 0.7:
            count += 1
            ways: list[Callable[[SimulatedServer], None]] = [
                SimulatedServer.kill,
                SimulatedServer.cut_power,
                lambda one: one.crash_in(rng.randrange(40)),
            ]
            rng.choice(ways)(server)
        away = rng.choice(list(made.people))
        if away in site.network.offline:
            site.network.offline.discard(away)
        elif rng.random() < 0.5:
            site.network.offline.add(away)
            count += 1
        if switches and rng.random() < 0.3:
            for topic, name in made.targets:
                made.targets[topic, name] = rng.choice(["cloud", made.homes[name]])
            site.obey(made.orders(number + 2))
            count += 1
        site.run(3.0 * rng.random())
    return count


def heal(made: RandomSite) -> None:
    """Let all go well again for a while."""
    for server in made.site.servers.values():
        server.crash_in(None)
    made.restart_all()
    made.network.heal()
    made.site.obey(made.orders(1_000))
    made.site.run(60.0)


def hunt(seed: int, *, switches: bool = False, kind: type[RandomSite] = RandomSite) -> RandomSite:
    made = kind(
        seed,
        spool=1_000,
        network=bad_network(),
        wire=QUICK,
        notify_after_sync=seed % 2 == 0,
        processor="forward" if seed % 3 else NOTED,
    )
    made.start()
    assert faults(made, 12, switches=switches) > 3
    heal(made)
    assert made.unacknowledged == 0
    return made


@pytest.mark.parametrize("seed", [*range(16), 94])
def test_whatever_crashes_and_whoever_is_away_all_is_heard_once(seed: int) -> None:
    assert missing(hunt(seed)) == {}


@pytest.mark.parametrize("seed", range(100, 108))
def test_plan_switches_meanwhile_change_nothing_about_that(seed: int) -> None:
    assert missing(hunt(seed, switches=True)) == {}


def no_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "AS_IT_IS", NO_NOTICES)
    monkeypatch.setattr(settlement, "encode_notices", lambda notices: NO_NOTICES)


def no_home_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resumption, "on_interrupted", lambda *_, **__: None)


def no_client_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(self: Resumption, client: str, question: Resume, now: float) -> None:
        gap = Gap(question.topic, question.broker, 0, question.since)
        self._sessions.tell(client, gap)

    monkeypatch.setattr(Resumption, "ask", ask)


def no_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    grant = Resumption.grant
    monkeypatch.setattr(
        Resumption, "grant", lambda self, client, request, _: grant(self, client, request, {})
    )


def arrival_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    note = Cursors.note

    def note_certain(self: Cursors, notification: object, now: float) -> bool:
        told = note(self, notification, now)  # type: ignore[arg-type]
        for cursor in self._cursors.values():
            cursor.certain = max(cursor.certain, cursor.latest)
        return told

    monkeypatch.setattr(Cursors, "note", note_certain)


@pytest.mark.parametrize(
    "mutant",
    [
        no_notices,
        no_home_asks,
        no_client_asks,
        no_starts,
        arrival_is_certain,
    ],
)
def test_each_part_is_needed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert any(missing(hunt(seed)) for seed in range(40))


class Quiet:
    """Three servers: a publishes at e0, the broker is named, b hears at e1."""

    def __init__(
        self,
        broker: str,
        *,
        spool: int = 100,
        after_sync: bool = False,
        wire: WireSettings = QUICK,
        subscribers: Iterable[str] = ("c1",),
    ) -> None:
        made = self.made = RandomSite(
            1, clients=4, topics=1, spool=spool, delegated=0.0, wire=wire, processor="forward"
        )
        made.notify_after_sync = after_sync
        made.homes.update(c0="e0", c1="e1", c2="e1")
        made.subscribers["t0"], made.publishers["t0"] = [*subscribers], ["c0"]
        made.targets = {("t0", "c0"): broker}
        made.start()
        self.publisher, self.listener = made.people["c0"], made.people["c1"]
        self.broker = made.site.servers[broker]

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            self.made.publish("t0", "c0")
        self.made.site.run(0.5)

    @property
    def heard(self) -> list[int]:
        return [one.sequence for one in self.listener.notified]


@pytest.mark.parametrize("broker", ["e0", "e2", "cloud"])
def test_a_broker_that_dies_between_its_sync_and_its_datagrams_tells_when_it_is_back(
    broker: str,
) -> None:
    quiet = Quiet(broker, after_sync=True)
    quiet.publish(3)
    site = quiet.made.site
    spool = quiet.broker.spool
    on_committed, spool._on_committed = spool._on_committed, lambda _: quiet.broker.kill()
    quiet.publish(1)
    assert quiet.broker.node is None
    spool._on_committed = on_committed
    site.run(1.0)
    quiet.broker.restart()
    site.run(10.0)
    assert quiet.heard == [1, 2, 3, 4]


def test_who_was_away_for_minutes_hears_what_it_missed_in_order() -> None:
    quiet = Quiet("e2")
    quiet.publish(3)
    quiet.made.network.offline.add("c1")
    for _ in range(20):
        quiet.publish(2)
        quiet.made.site.run(10.0)
    assert quiet.heard == [1, 2, 3]
    quiet.made.network.heal()
    quiet.made.site.run(10.0)
    assert quiet.heard == list(range(1, 44))
    assert not [event for _, event in quiet.listener.events if isinstance(event, Missed)]


def test_who_was_away_for_too_long_is_told_how_much_is_gone() -> None:
    quiet = Quiet("e2", spool=10)
    quiet.publish(3)
    quiet.made.site.run(3.0)
    quiet.made.network.offline.add("c1")
    quiet.made.site.run(3.0)
    quiet.publish(47)
    quiet.made.network.heal()
    quiet.made.site.run(10.0)
    assert quiet.heard == [1, 2, 3, *range(41, 51)]
    missed = [event for _, event in quiet.listener.events if isinstance(event, Missed)]
    assert missed == [Missed("t0", "e2", 37)]
    quiet.publish(1)
    assert quiet.heard[-1] == 51


@pytest.mark.parametrize("is_asked_later", [True, False])
def test_a_broker_that_is_new_and_away_when_a_client_is_back_is_asked_later(
    is_asked_later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_asked_later:
        monkeypatch.setattr(Resumption, "ask_later", lambda *_, **__: None)
    quiet = Quiet("e0")
    quiet.publish(3)
    quiet.made.network.offline.add("c1")
    quiet.made.site.run(5.0)
    quiet.made.targets["t0", "c0"] = "e2"
    quiet.made.site.obey(quiet.made.orders(2))
    quiet.publish(3)
    quiet.made.network.heal()
    quiet.made.network.cuts.add(frozenset(("e1", "e2")))
    quiet.made.site.run(10.0)
    assert quiet.heard == [1, 2, 3]
    quiet.made.network.heal()
    quiet.made.site.run(10.0)
    assert quiet.heard == ([1, 2, 3, 4, 5, 6] if is_asked_later else [1, 2, 3])


def test_a_broker_that_knows_only_some_of_a_homes_subscribers_tells_the_others_later() -> None:
    quiet = Quiet("e2")
    site, late = quiet.made.site, quiet.made.people["c2"]
    quiet.publish(3)
    quiet.broker.kill()
    late.subscribe("t0")  # waits at e1 and reaches the broker before all else
    site.run(0.5)
    home = site.servers["e1"].node
    assert home is not None
    peers, held = home._peers, []
    take = peers._handlers[SubscribersWanted]
    peers.on(SubscribersWanted, lambda *question: held.append(question))
    quiet.broker.restart()
    site.run(3.0)
    quiet.publish(2)
    assert [one.sequence for one in late.notified] == [4, 5]
    assert quiet.heard == [1, 2, 3]
    peers.on(SubscribersWanted, take)
    for server, question, now in held:
        take(server, question, now)
    site.run(10.0)
    assert quiet.heard == [1, 2, 3, 4, 5]
    assert [one.sequence for one in late.notified] == [4, 5]


@pytest.mark.parametrize("restarts", [True, False])
def test_a_subscription_that_a_broker_hears_of_late_misses_nothing(restarts: bool) -> None:
    quiet = Quiet("e2", subscribers=())
    quiet.publish(3)
    if restarts:
        quiet.broker.kill()
        quiet.broker.restart()
        quiet.made.site.run(2.0)
    quiet.made.network.cuts.add(frozenset(("e1", "e2")))
    quiet.listener.subscribe("t0")
    quiet.made.site.run(8.0)
    assert [one for _, one in quiet.listener.events if isinstance(one, Confirmed)]
    quiet.publish(3)
    assert not quiet.heard
    quiet.made.network.heal()
    quiet.made.site.run(10.0)
    # the broker does not know when the subscription was made: it tells all since its start
    assert quiet.heard == ([4, 5, 6] if restarts else [1, 2, 3, 4, 5, 6])
    assert not [event for _, event in quiet.listener.events if isinstance(event, Missed)]
    quiet.publish(1)
    assert quiet.heard[-1] == 7


def test_a_late_broker_goes_on_where_others_at_the_home_are() -> None:
    quiet = Quiet("e2")
    late = quiet.made.people["c2"]
    quiet.publish(3)
    quiet.made.site.run(3.0)
    quiet.made.network.cuts.add(frozenset(("e1", "e2")))
    late.subscribe("t0")
    quiet.made.site.run(8.0)
    quiet.publish(3)
    quiet.made.network.heal()
    quiet.made.site.run(10.0)
    assert [one.sequence for one in late.notified] == [4, 5, 6]


def test_who_does_not_hear_that_something_is_gone_is_told_again() -> None:
    quiet = Quiet("e2", spool=10)
    quiet.publish(3)
    quiet.made.site.run(3.0)
    quiet.made.network.cuts.add(frozenset(("e1", "e2")))
    quiet.publish(47)
    quiet.broker.kill()
    quiet.made.network.offline.add("c1")
    quiet.made.network.cuts.clear()
    quiet.broker.restart()
    quiet.made.site.run(0.5)  # its home has the answer, and it still has its session
    quiet.made.network.heal()
    quiet.made.site.run(10.0)
    assert quiet.heard == [1, 2, 3, *range(41, 51)]
    missed = [event for _, event in quiet.listener.events if isinstance(event, Missed)]
    assert missed == [Missed("t0", "e2", 37)]


def test_a_client_is_sure_of_nothing_more_in_a_session_that_lost_something() -> None:
    quiet = Quiet("e2", wire=WireSettings(report_interval_s=60.0))
    session, now = quiet.listener.session, quiet.listener.clock.read
    quiet.publish(3)
    session._on_message(Heartbeat(), now())
    quiet.made.site.run(1.0)
    session._on_message(Heartbeat(lost=True), now())
    assert [one.offset for one in session.cursors.cursors] == [0]
    quiet.made.site.run(2.0)
    assert quiet.heard == [1, 2, 3]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_server_without_orders_promises_nothing(is_new: bool) -> None:
    quiet = Quiet("e1", subscribers=() if is_new else ("c1",))
    quiet.publish(3)
    quiet.made.network.offline.add("c1")
    quiet.publish(3)
    quiet.broker.kill()
    quiet.broker.orders_file = None
    quiet.broker.restart()
    quiet.made.network.heal()
    before = len(quiet.listener.events)
    if is_new:
        quiet.listener.subscribe("t0")
    quiet.made.site.run(5.0)
    told = [event for _, event in quiet.listener.events[before:]]
    assert not [event for event in told if isinstance(event, Confirmed | Missed)]
    quiet.made.site.obey(quiet.made.orders(2))
    quiet.made.site.run(10.0)
    assert quiet.heard == ([] if is_new else [1, 2, 3, 4, 5, 6])
    quiet.publish(1)
    assert quiet.heard[-1] == 7


@pytest.mark.parametrize("broker", ["e1", "e2"])
def test_who_missed_more_than_a_session_can_hold_hears_all_of_it_in_the_next_one(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_session, "_WAITING_LIMIT", 40)
    monkeypatch.setattr(replays, "_PER_ANSWER", 30)
    wire = WireSettings(report_interval_s=0.5, notification_limit=4)
    quiet = Quiet(broker, wire=wire, spool=1_000)
    quiet.publish(3)
    quiet.made.network.offline.add("c1")
    for _ in range(10):
        quiet.publish(40)
        quiet.made.site.run(5.0)
    quiet.made.network.heal()
    healed_s = quiet.made.site.now
    quiet.made.site.run(30.0)
    assert quiet.heard == list(range(1, 404))
    again = [at_s for at_s, event in quiet.listener.events if isinstance(event, Connected)]
    assert sum(at_s > healed_s for at_s in again) <= 2  # the one in which all was lost may go on


def _asked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> tuple[Quiet, Resumption]:
    """Return a site in which c1 has missed 200 messages and has just asked for them."""
    monkeypatch.setattr(replays, "_PER_ANSWER", 30)
    quiet = Quiet("e2", wire=WireSettings(report_interval_s=0.5), spool=1_000)
    quiet.publish(3)
    network, site = quiet.made.network, quiet.made.site
    network.offline.add("c1")
    for _ in range(10):
        quiet.publish(20)
        site.run(1.0)
    network.offline.discard("c1")
    home = site.servers["e1"].node
    assert home is not None
    assert home.clients is not None
    resumption = home.clients.resumption
    for _ in range(10_000):
        if resumption._asked.get("c1"):
            return quiet, resumption
        site.run(0.001)
    raise AssertionError("it did not ask")


def test_a_piece_that_comes_twice_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its question was repeated because the answer was long on the way."""
    quiet, resumption = _asked_in_pieces(monkeypatch)

    def hear_twice(broker: str, message: Resumed, now: float) -> None:
        for _ in range(2):
            resumption._on_resumed(broker, message, now)

    resumption._peers.on(Resumed, hear_twice)
    quiet.made.site.run(30.0)
    quiet.publish(2)
    assert quiet.heard == list(range(1, 206))


def test_an_answer_to_a_session_before_says_nothing_in_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pieces before it went into the session that is gone."""
    quiet, resumption = _asked_in_pieces(monkeypatch)
    number = resumption._asked["c1"]["e2", "t0"].number
    last = Resumed("t0", "c1", (), 0, 203, is_last=True, number=number - 1)
    resumption._on_resumed("e2", last, quiet.made.site.now)
    quiet.made.site.run(30.0)
    quiet.publish(2)
    assert quiet.heard == list(range(1, 206))


def test_a_burst_that_a_session_cannot_take_at_once_waits_for_room() -> None:
    quiet = Quiet("e2", wire=WireSettings(report_interval_s=0.5, notification_limit=2))
    before = len(quiet.listener.events)
    quiet.publish(200)
    quiet.made.site.run(20.0)
    assert quiet.heard == list(range(1, 201))
    assert not [1 for _, one in quiet.listener.events[before:] if isinstance(one, Connected)]


def test_what_a_session_gave_up_is_asked_for_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_session, "_WAITING_LIMIT", 2)
    quiet = Quiet("e2", wire=WireSettings(report_interval_s=0.5, notification_limit=2))
    quiet.publish(3)
    quiet.made.site.run(3.0)
    quiet.made.network.offline.add("c1")
    for _ in range(8):
        quiet.made.publish("t0", "c0")
        quiet.made.site.run(0.1)
    quiet.made.network.heal()
    home = quiet.made.site.servers["e1"].node
    assert home is not None
    assert home.sessions is not None
    assert home.sessions.notifications_dropped > 0
    quiet.made.site.run(5.0)
    assert sorted(quiet.heard) == list(range(1, 12))


def test_a_new_subscriber_hears_nothing_old() -> None:
    quiet = Quiet("e2")
    quiet.publish(5)
    quiet.publisher.subscribe("t0")
    quiet.made.site.run(2.0)
    for name in ("e0", "e2"):
        quiet.made.site.servers[name].kill()
        quiet.made.site.run(3.0)
        quiet.made.site.servers[name].restart()
        quiet.made.site.run(10.0)
    assert quiet.publisher.notified == []


def test_a_program_that_starts_again_goes_on_where_it_was() -> None:
    quiet = Quiet("e2")
    made, site = quiet.made, quiet.made.site
    quiet.publish(3)
    site.run(5.0)
    saved = quiet.listener.session.cursors
    quiet.listener.session.close()
    quiet.publish(4)
    listener, before = quiet.listener, len(quiet.heard)
    listener.session = ClientSession(
        listener.key,
        site.servers["e1"].home,
        site.random.randbytes,
        QUICK,
        listener.credential,
        "c1",
        cursors=saved,
    )
    listener.connect()
    listener.subscribe("t0")
    site.run(5.0)
    assert quiet.heard[before:] == [4, 5, 6, 7]
    assert made.unacknowledged == 0


def test_a_broker_that_lost_its_log_tells_all_that_it_has() -> None:
    quiet = Quiet("e2")
    quiet.publish(5)
    quiet.made.site.run(5.0)
    quiet.made.network.offline.add("c1")
    quiet.broker.kill()
    quiet.broker.spool.disk = FakeDisk(99)
    quiet.made.site.run(5.0)
    quiet.broker.restart()
    quiet.made.site.run(5.0)
    quiet.publish(2)
    quiet.made.network.heal()
    quiet.made.site.run(10.0)
    assert quiet.heard[:5] == [1, 2, 3, 4, 5]
    assert set(quiet.heard[5:]) == {6, 7}


def test_a_client_that_does_not_subscribe_is_not_answered() -> None:
    quiet = Quiet("e2")
    quiet.publish(3)
    thief = quiet.made.people["c3"]
    home = quiet.made.site.servers[quiet.made.homes["c3"]].node
    assert home is not None
    thief.session._home.frames.append(encode(Resume("t0", "e2", 0)))
    thief.session.moved(thief.clock.read())
    thief.go_on()
    quiet.made.site.run(5.0)
    assert thief.notified == []
    assert home.counts["resumes_refused"] == 1


def test_settings_of_a_topic_are_kept_with_its_offsets() -> None:
    """New orders that change a topic's spool begin its broker anew, not its offsets."""
    quiet = Quiet("e2")
    quiet.publish(3)
    quiet.made.spool = 50
    quiet.made.site.obey(quiet.made.orders(2))
    quiet.publish(1)
    assert [one.offset for one in quiet.listener.notified] == [1, 2, 3, 4]


def test_wildcards_hear_all_topics_that_match_once_and_go_on_after_an_absence() -> None:
    quiet = Quiet("e2")
    site, listener = quiet.made.site, quiet.listener
    for wanted in ("city/#", "city/+/north", "city/a/north"):
        listener.subscribe(wanted)
    listener.subscribe("+")  # t0 as well, which it has
    site.run(3.0)

    def publish(*topics: str) -> None:
        for topic in topics:
            quiet.publisher.publish(topic, topic.encode())
            site.run(0.5)

    def heard() -> list[str]:
        return [one.text for one in listener.notified]

    publish("city/a/north", "city", "town/a", "city/b")
    assert heard() == ["city/a/north", "city", "city/b"]
    quiet.made.network.offline.add("c1")
    site.run(5.0)
    publish("city/a/north", "city/new", "town/a", "city/b")
    home = site.servers["e1"]
    home.kill()
    site.run(1.0)
    home.restart()
    quiet.made.network.heal()
    site.run(15.0)
    assert Counter(heard()[3:]) == Counter(["city/a/north", "city/new", "city/b"])
    listener.unsubscribe("city/#")
    site.run(2.0)
    publish("city/b", "city/a/north")
    assert heard()[6:] == ["city/a/north"]


def test_wildcards_have_limits_and_nobody_publishes_to_them() -> None:
    quiet = Quiet("e2")
    listener = quiet.listener
    for wrong in ("a/#/b", "a+", "#b"):
        with pytest.raises(WireError, match="stand"):
            listener.subscribe(wrong)
    with pytest.raises(WireError, match="pattern"):
        listener.publish("city/#", b"")
    for number in range(65):
        listener.subscribe(f"p{number}/+")
    quiet.made.site.run(5.0)
    refused = [
        event.reason
        for _, event in listener.events
        if isinstance(event, Confirmed) and not event.accepted
    ]
    assert refused == ["more than 64 patterns"]


@pytest.mark.parametrize("topic", ["city/known", "city/new"])
def test_a_broker_that_died_before_it_told_is_asked_for_topics_of_patterns_too(topic: str) -> None:
    quiet = Quiet("e2")
    site, listener = quiet.made.site, quiet.listener
    listener.subscribe("city/#")
    site.run(3.0)
    home = quiet.made.site.servers["e0"]  # of the publisher, who brings topics that no plan names
    quiet.publisher.publish("city/known", b"first")
    site.run(2.0)
    before = len(listener.notified)
    quiet.made.network.one_way_cuts.add(("e0", "e1"))
    quiet.publisher.publish(topic, b"second")
    site.run(6.0)  # e1 might own the stream: it is given up
    assert quiet.publisher.session.unacknowledged == 0
    home.kill()
    quiet.made.network.heal()
    site.run(1.0)
    home.restart()
    site.run(10.0)
    assert [one.text for one in listener.notified[before:]] == ["second"]
    node = home.node
    assert node is not None
    assert node.counts["notifications_replayed"] == 1
