"""Channels between servers over a pipe that loses, doubles and reorders, with restarts."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import msgspec
import pytest

from nearcast.server.peer_channel import PeerFrame, PeerSettings, decode_frame, encode_frame
from nearcast.server.peer_channels import PeerChannels, draw_incarnation

SIDES = ("a", "b")


class Pipe:
    """Two servers, the frames between them, and a clock that moves on by events."""

    def __init__(
        self,
        seed: int,
        *,
        loss: float = 0.0,
        duplication: float = 0.0,
        jitter_s: float = 0.0,
        way_s: float = 0.01,
        settings: PeerSettings | None = None,
    ) -> None:
        self.rng, self.way_s = Random(seed), way_s
        self.loss, self.duplication, self.jitter_s = loss, duplication, jitter_s
        self.settings = settings
        self.now = 0.0
        self.incarnation = dict.fromkeys(SIDES, 1)
        self.ends = {side: PeerChannels(1, settings) for side in SIDES}
        self.under_way: list[tuple[float, int, str, bytes]] = []
        self.frames = 0
        self.sent: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        """By sender and its incarnation, what it sent."""
        self.got: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        """By receiver and its incarnation, what it took."""
        self.alive = dict.fromkeys(SIDES, True)

    def send(self, side: str) -> None:
        incarnation = self.incarnation[side]
        message = b"%s %d %d" % (side.encode(), incarnation, len(self.sent[side, incarnation]))
        self.sent[side, incarnation].append(message)
        self.ends[side].send(other(side), message)
        self.poll(side)

    def poll(self, side: str) -> None:
        for receiver, frame in self.ends[side].poll(self.now):
            self.frames += 1
            for _ in range(1 + (self.rng.random() < self.duplication)):
                if self.rng.random() >= self.loss:
                    at = self.now + self.way_s + self.jitter_s * self.rng.random()
                    self.under_way.append((at, len(self.under_way), receiver, frame))

    def restart(self, side: str) -> None:
        self.incarnation[side] += 1
        drawn = draw_incarnation(self.rng.randbytes)  # may be below the last one
        self.ends[side] = PeerChannels(drawn, self.settings)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            arrival = min(self.under_way, default=(float("inf"), 0, "", b""))
            timer, side = min((self.ends[one].next_wakeup(), one) for one in SIDES)
            if min(arrival[0], timer) > end:
                break
            if arrival[0] <= timer:
                self.under_way.remove(arrival)
                self.now = max(self.now, arrival[0])
                receiver = arrival[2]
                got = self.ends[receiver].receive(other(receiver), arrival[3], self.now)
                self.got[receiver, self.incarnation[receiver]] += got
                self.poll(receiver)
            else:
                self.now = max(self.now, timer)
                self.poll(side)
        self.now = end


def other(side: str) -> str:
    return "b" if side == "a" else "a"


def in_order_and_once(pipe: Pipe) -> None:
    """Whatever one incarnation got of another is in order and without repetition."""
    for (receiver, _), got in pipe.got.items():
        for sender_incarnation in range(1, pipe.incarnation[other(receiver)] + 1):
            sent = pipe.sent[other(receiver), sender_incarnation]
            places = [sent.index(one) for one in got if one in set(sent)]
            assert places == sorted(set(places))
        assert len(got) == len(set(got))


def test_on_a_good_pipe_everything_arrives_with_one_frame_each_and_few_acknowledgements() -> None:
    pipe = Pipe(0)
    for _ in range(200):
        pipe.send("a")
        pipe.run(0.001)
    pipe.run(1.0)
    assert pipe.got["b", 1] == pipe.sent["a", 1]
    assert pipe.ends["a"].resent == 0
    # 200 frames, and an acknowledgement each 20 ms at the most
    assert pipe.frames <= 200 + (0.2 + 0.02) / 0.02 + 1
    assert pipe.ends["a"].waiting("b") == 0


def test_what_one_pass_has_for_a_server_travels_in_one_frame() -> None:
    channels = PeerChannels(1)
    for number in range(10):
        channels.send("b", b"%d" % number)
    [(server, frame)] = channels.poll(0.0)
    assert server == "b"
    assert PeerChannels(1).receive("a", frame, 0.0) == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("seed", range(30))
def test_loss_duplication_and_reordering_change_nothing(seed: int) -> None:
    pipe = Pipe(seed, loss=0.2, duplication=0.1, jitter_s=0.03)
    for _ in range(150):
        pipe.send(pipe.rng.choice(SIDES))
        pipe.run(0.02 * pipe.rng.random())
    pipe.run(60.0)
    assert pipe.got["b", 1] == pipe.sent["a", 1]
    assert pipe.got["a", 1] == pipe.sent["b", 1]


@pytest.mark.parametrize("seed", range(20))
def test_repetitions_stay_modest(seed: int) -> None:
    pipe = Pipe(seed, loss=0.1, duplication=0.05, jitter_s=0.005)
    for _ in range(300):
        pipe.send("a")
        pipe.run(0.01)
    pipe.run(30.0)
    assert pipe.got["b", 1] == pipe.sent["a", 1]
    # 300 frames with messages; for each that was lost (one of ten), about one repetition and its
    # acknowledgement; acknowledgements each 20 ms of the 3 s in which something is sent
    assert pipe.frames <= 300 + 2 * 60 + 3.0 / 0.02 + 10


@pytest.mark.parametrize("way_s", [0.5, 0.6, 1.0])
def test_on_a_way_longer_than_every_timer_messages_soon_stop_waiting_for_answers(
    way_s: float,
) -> None:
    """What is repeated too early must not hold up what comes after it, again and again."""
    pipe = Pipe(0, way_s=way_s)
    for _ in range(round(10 * 20 * way_s)):  # ten round trips, to learn how long they are
        pipe.send("a")
        pipe.run(0.1)
    pipe.run(4 * way_s)
    learned, resent = len(pipe.got["b", 1]), pipe.ends["a"].resent
    for index in range(round(10 * 5 * way_s)):
        pipe.send("a")
        pipe.run(0.1)
        due = learned + max(0, index - round(10 * way_s) - 1)
        assert len(pipe.got["b", 1]) >= due, f"message {index} is held up"
    pipe.run(4 * way_s)
    assert pipe.got["b", 1] == pipe.sent["a", 1]
    assert pipe.ends["a"].resent == resent


@pytest.mark.parametrize("way_s", [0.5, 1.0, 1.4])
def test_on_such_a_way_repetitions_end_though_messages_never_do(way_s: float) -> None:
    pipe = Pipe(0, way_s=way_s)
    resent: list[int] = []
    for _ in range(400):
        pipe.send("a")
        pipe.run(0.05)
        resent.append(pipe.ends["a"].resent)
    # the first answer takes longer than the first wait, and teaches how long to wait
    assert 0 < resent[-1] == resent[round(6 * way_s / 0.05)]
    pipe.run(4 * way_s)
    assert pipe.got["b", 1] == pipe.sent["a", 1]


def test_a_server_that_is_away_costs_a_frame_each_second() -> None:
    pipe = Pipe(0, loss=1.0)
    for _ in range(5_000):
        pipe.ends["a"].send("b", b"x" * 100)
    pipe.poll("a")
    at_first = pipe.frames
    pipe.run(100.0)
    assert at_first <= 2
    assert pipe.frames - at_first <= 100 + 4


@pytest.mark.parametrize("seed", range(60))
def test_restarts_of_either_side_keep_order_and_once_and_heal(seed: int) -> None:
    pipe = Pipe(seed, loss=0.15, duplication=0.1, jitter_s=0.03)
    for _ in range(120):
        pipe.send(pipe.rng.choice(SIDES))
        pipe.run(0.05 * pipe.rng.random())
        if pipe.rng.random() < 0.06:
            pipe.restart(pipe.rng.choice(SIDES))
    pipe.run(60.0)
    in_order_and_once(pipe)
    # from now on both live: all arrives
    marks = {side: len(pipe.got[side, pipe.incarnation[side]]) for side in SIDES}
    before = {side: len(pipe.sent[side, pipe.incarnation[side]]) for side in SIDES}
    for _ in range(40):
        pipe.send(pipe.rng.choice(SIDES))
        pipe.run(0.02)
    pipe.run(60.0)
    in_order_and_once(pipe)
    for side in SIDES:
        got = pipe.got[side, pipe.incarnation[side]][marks[side] :]
        sender = other(side)
        assert got == pipe.sent[sender, pipe.incarnation[sender]][before[sender] :]
        assert pipe.ends[sender].waiting(side) == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_receiver_that_restarts_gets_all_that_its_last_incarnation_did_not(seed: int) -> None:
    pipe = Pipe(seed, loss=0.15, jitter_s=0.02)
    for number in range(80):
        pipe.send("a")
        pipe.run(0.01)
        if number == 40:
            pipe.restart("b")
    pipe.run(60.0)
    assert set(pipe.got["b", 1]) | set(pipe.got["b", 2]) == set(pipe.sent["a", 1])
    assert pipe.ends["b"].take_restarted() == ["a"]
    assert pipe.ends["a"].take_restarted() == ["b"]
    assert pipe.ends["a"].take_restarted() == []


def test_a_server_that_is_back_gets_what_waits_as_soon_as_it_is_heard() -> None:
    channels = PeerChannels(1)
    channels.receive("b", encode_frame(PeerFrame(1, False, 1, 1, [], 0, 0)), 0.0)
    channels.send("b", b"one")
    channels.poll(0.0)
    channels.receive("b", encode_frame(PeerFrame(2, False, 1, 1, [], 0, 0)), 0.1)
    [(_, frame)] = channels.poll(0.1)
    assert PeerChannels(2).receive("a", frame, 0.1) == [b"one"]


def test_too_many_that_wait_drop_the_oldest_and_the_rest_arrives_in_order() -> None:
    pipe = Pipe(0, loss=1.0, settings=PeerSettings(queue_limit=100, window=20))
    for _ in range(250):
        pipe.send("a")
        pipe.run(0.01)
        assert pipe.ends["a"].waiting("b") <= 100
    assert pipe.ends["a"].dropped == 150
    pipe.loss = 0.0
    pipe.run(30.0)
    assert pipe.got["b", 1] == pipe.sent["a", 1][150:]
    assert pipe.ends["a"].take_gaps() == ["b"]
    assert pipe.ends["a"].take_gaps() == []


def test_bytes_that_wait_are_limited_too() -> None:
    channels = PeerChannels(1, PeerSettings(queue_bytes=1_000))
    for _ in range(30):
        channels.send("b", bytes(100))
    assert (channels.waiting("b"), channels.dropped) == (10, 20)
    channels.send("b", bytes(5_000))
    assert channels.waiting("b") == 1


def test_a_frame_that_comes_before_its_turn_is_dropped_and_waited_for() -> None:
    channels = PeerChannels(1)
    second = encode_frame(PeerFrame(1, False, 1, 2, [b"2"], 0, 0))
    assert channels.receive("a", second, 0.0) == []
    first = encode_frame(PeerFrame(1, False, 1, 1, [b"1", b"2", b"3"], 0, 0))
    assert channels.receive("a", first, 0.0) == [b"1", b"2", b"3"]
    assert channels.receive("a", second, 0.0) == []


def test_numbers_that_would_break_the_own_frames_are_refused() -> None:
    channels = PeerChannels(1)
    for numbers in ((1 << 63, 1), (1, 1 << 63), ((1 << 64) - 1, (1 << 64) - 1), (-1, 1)):
        data = msgspec.msgpack.encode([1, False, *numbers, [b"x"], 0, 0])
        assert channels.receive("a", data, 0.0) == []
    assert channels.refused == 4
    largest = encode_frame(PeerFrame(1, False, 1 << 62, 1 << 62, [b"x", b"y"], 0, 0))
    assert channels.receive("a", largest, 0.0) == [b"x", b"y"]
    assert len(channels.poll(1.0)) == 1


def frames_of(polled: list[tuple[str, bytes]]) -> list[PeerFrame]:
    return [frame for _, data in polled if (frame := decode_frame(data)) is not None]


def test_a_large_transfer_is_bounded_in_flight_and_never_before_ordinary_messages() -> None:
    settings = PeerSettings(bulk_frame_bytes=2_000, bulk_window_bytes=5_000)
    sender, receiver = PeerChannels(1, settings), PeerChannels(1, settings)
    pieces = [bytes([number]) * 1_000 for number in range(20)]
    for piece in pieces:
        sender.send("b", piece, bulk=True)
    assert sender.waiting("b") == 20
    got: list[bytes] = []
    now, rounds = 0.0, 0
    while sender.waiting("b"):
        rounds += 1
        sender.send("b", b"ordinary %d" % rounds)
        frames = sender.poll(now)
        found = frames_of(frames)
        assert [one.is_bulk for one in found] == sorted(one.is_bulk for one in found)
        assert not found[0].is_bulk
        assert sum(len(data) for one in found if one.is_bulk for data in one.messages) <= 5_000
        assert all(len(one.messages) <= 2 for one in found if one.is_bulk)
        for _, frame in frames:
            got += receiver.receive("a", frame, now)
        now += 0.03
        for _, frame in receiver.poll(now):
            sender.receive("b", frame, now)
    assert [one for one in got if len(one) == 1_000] == pieces
    assert rounds == 4
    assert sender.resent == 0


def test_a_piece_larger_than_the_window_still_goes() -> None:
    settings = PeerSettings(bulk_frame_bytes=100, bulk_window_bytes=500)
    sender, receiver = PeerChannels(1, settings), PeerChannels(1, settings)
    for _ in range(2):
        sender.send("b", bytes(2_000), bulk=True)
    [(_, frame)] = sender.poll(0.0)
    assert receiver.receive("a", frame, 0.0) == [bytes(2_000)]
    for _, ack in receiver.poll(0.0):
        sender.receive("b", ack, 0.01)
    [(_, frame)] = sender.poll(0.01)
    assert receiver.receive("a", frame, 0.01) == [bytes(2_000)]


@pytest.mark.parametrize("seed", range(20))
def test_bulk_and_ordinary_messages_survive_loss_and_a_restart(seed: int) -> None:
    settings = PeerSettings(bulk_frame_bytes=3_000, bulk_window_bytes=6_000)
    pipe = Pipe(seed, loss=0.2, duplication=0.1, jitter_s=0.02, settings=settings)
    pieces = [b"%d" % number + bytes(1_000) for number in range(40)]
    for piece in pieces:
        pipe.ends["a"].send("b", piece, bulk=True)
    for number in range(60):
        pipe.send("a")
        pipe.run(0.02)
        if number == 30:
            pipe.restart("b")
    pipe.run(120.0)
    got = [*pipe.got["b", 1], *pipe.got["b", 2]]
    assert set(got) == {*pieces, *pipe.sent["a", 1]}
    last = pipe.got["b", 2]
    large = [one for one in last if len(one) > 1_000]
    assert large == pieces[len(pieces) - len(large) :]
    assert len(last) == len(set(last))
    assert pipe.ends["a"].waiting("b") == 0


@pytest.mark.parametrize("seed", range(10))
def test_garbage_is_counted_and_leaves_a_channel_as_it_was(seed: int) -> None:
    rng, channels = Random(seed), PeerChannels(1)
    channels.send("b", b"hello")
    good = channels.poll(0.0)[0][1]
    garbage = [rng.randbytes(rng.randrange(60)) for _ in range(200)]
    garbage += [good[: rng.randrange(len(good))] for _ in range(20)]
    receiver = PeerChannels(1)
    taken = [one for data in garbage for one in receiver.receive("a", data, 0.0)]
    assert taken == []
    assert receiver.refused == len(garbage)
    assert receiver.receive("a", good, 0.0) == [b"hello"]


def test_acknowledgements_of_what_was_never_sent_change_nothing() -> None:
    channels = PeerChannels(7)
    channels.send("b", b"one")
    channels.poll(0.0)
    for ack_incarnation, acked in ((7, 5), (6, 1), (7, 0), (7, 1 << 60)):
        channels.receive(
            "b", encode_frame(PeerFrame(1, False, 1, 1, [], ack_incarnation, acked)), 0.0
        )
        assert channels.waiting("b") == 1
    channels.receive("b", encode_frame(PeerFrame(1, False, 1, 1, [], 7, 1)), 0.0)
    assert channels.waiting("b") == 0


def test_a_server_that_left_the_site_is_forgotten() -> None:
    channels = PeerChannels(1)
    channels.send("b", b"one")
    channels.forget("b")
    assert channels.poll(100.0) == []
    assert channels.servers == ()
    assert channels.next_wakeup() == float("inf")


def test_a_message_that_no_link_carries_is_dropped_and_holds_up_nothing() -> None:
    channels = PeerChannels(1, PeerSettings(message_bytes=1_000))
    channels.send("b", bytes(1_001))
    channels.send("b", b"small")
    assert channels.dropped == 1
    assert [one.messages for one in frames_of(channels.poll(0.0))] == [[b"small"]]


def test_a_server_that_restarts_with_any_incarnation_is_heard() -> None:
    """Below the last one too: it may be a clock's on a machine that forgot the time."""
    receiver = PeerChannels(7)
    for incarnation in (9, 5, 1 << 60, 3):
        sender = PeerChannels(incarnation)
        sender.send("b", b"%d" % incarnation)
        [(_, frame)] = sender.poll(0.0)
        assert receiver.receive("a", frame, 0.0) == [b"%d" % incarnation]
        assert receiver.take_restarted() == ["a"]


def test_late_frames_of_the_last_incarnation_are_ignored_but_not_for_ever() -> None:
    old, new, receiver = PeerChannels(9), PeerChannels(5), PeerChannels(7)
    old.send("b", b"old")
    [(_, late)] = old.poll(0.0)
    new.send("b", b"new")
    [(_, frame)] = new.poll(0.0)
    receiver.receive("a", late, 0.0)
    assert receiver.receive("a", frame, 1.0) == [b"new"]
    receiver.take_restarted()
    assert receiver.receive("a", late, 2.0) == []
    assert receiver.take_restarted() == []
    # a frame that came so late that it seemed to be a restart: the true one is heard again
    assert receiver.receive("a", late, 40.0) == [b"old"]
    assert receiver.receive("a", frame, 41.0) == []
    assert receiver.receive("a", frame, 71.0) == [b"new"]


def test_few_incarnations_are_remembered() -> None:
    receiver = PeerChannels(7)
    for incarnation in range(1, 100):
        sender = PeerChannels(incarnation)
        sender.send("b", b"x")
        receiver.receive("a", sender.poll(0.0)[0][1], 0.0)
    assert len(receiver._peers["a"].past) <= 16
    assert receiver.flips_refused == 99 - 17  # what it costs to tell it everything is bounded
    assert receiver.receive("a", sender.poll(60.0)[0][1], 60.0) == [b"x"]


def test_an_incarnation_fits_into_a_frame() -> None:
    assert draw_incarnation(lambda count: bytes(count)) == 1
    most = draw_incarnation(lambda count: b"\xff" * count)
    sender = PeerChannels(most)
    sender.send("b", b"x")
    assert PeerChannels(1).receive("a", sender.poll(0.0)[0][1], 0.0) == [b"x"]
