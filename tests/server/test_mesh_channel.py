"""Channels between servers over a pipe that loses, doubles and reorders, with restarts."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from nearcast.server.mesh_channel import MeshChannels
from nearcast.server.peer_channel import Frame, MeshSettings, encode_frame

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
        settings: MeshSettings | None = None,
    ) -> None:
        self.rng = Random(seed)
        self.loss, self.duplication, self.jitter_s = loss, duplication, jitter_s
        self.settings = settings
        self.now = 0.0
        self.life = dict.fromkeys(SIDES, 1)
        self.ends = {side: MeshChannels(1, settings) for side in SIDES}
        self.under_way: list[tuple[float, int, str, bytes]] = []
        self.frames = 0
        self.sent: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        """By sender and its life, what it sent."""
        self.got: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        """By receiver and its life, what it took."""
        self.alive = dict.fromkeys(SIDES, True)

    def send(self, side: str) -> None:
        life = self.life[side]
        message = b"%s %d %d" % (side.encode(), life, len(self.sent[side, life]))
        self.sent[side, life].append(message)
        self.ends[side].send(other(side), message)
        self.poll(side)

    def poll(self, side: str) -> None:
        for receiver, frame in self.ends[side].poll(self.now):
            self.frames += 1
            for _ in range(1 + (self.rng.random() < self.duplication)):
                if self.rng.random() >= self.loss:
                    at = self.now + 0.01 + self.jitter_s * self.rng.random()
                    self.under_way.append((at, len(self.under_way), receiver, frame))

    def restart(self, side: str) -> None:
        self.life[side] += 1
        self.ends[side] = MeshChannels(self.life[side], self.settings)

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
                self.got[receiver, self.life[receiver]] += got
                self.poll(receiver)
            else:
                self.now = max(self.now, timer)
                self.poll(side)
        self.now = end


def other(side: str) -> str:
    return "b" if side == "a" else "a"


def in_order_and_once(pipe: Pipe) -> None:
    """Whatever one life got of another life is in order and without repetition."""
    for (receiver, _), got in pipe.got.items():
        for sender_life in range(1, pipe.life[other(receiver)] + 1):
            sent = pipe.sent[other(receiver), sender_life]
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
    channels = MeshChannels(1)
    for number in range(10):
        channels.send("b", b"%d" % number)
    [(server, frame)] = channels.poll(0.0)
    assert server == "b"
    assert MeshChannels(1).receive("a", frame, 0.0) == [b"%d" % number for number in range(10)]


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


def test_a_server_that_is_away_costs_a_frame_each_five_seconds() -> None:
    pipe = Pipe(0, loss=1.0)
    for _ in range(5_000):
        pipe.ends["a"].send("b", b"x" * 100)
    pipe.poll("a")
    at_first = pipe.frames
    pipe.run(100.0)
    assert at_first <= 2
    assert pipe.frames - at_first <= 100 / 5 + 4


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
    marks = {side: len(pipe.got[side, pipe.life[side]]) for side in SIDES}
    before = {side: len(pipe.sent[side, pipe.life[side]]) for side in SIDES}
    for _ in range(40):
        pipe.send(pipe.rng.choice(SIDES))
        pipe.run(0.02)
    pipe.run(60.0)
    in_order_and_once(pipe)
    for side in SIDES:
        got = pipe.got[side, pipe.life[side]][marks[side] :]
        sender = other(side)
        assert got == pipe.sent[sender, pipe.life[sender]][before[sender] :]
        assert pipe.ends[sender].waiting(side) == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_receiver_that_restarts_gets_all_that_its_last_life_did_not(seed: int) -> None:
    pipe = Pipe(seed, loss=0.15, jitter_s=0.02)
    for number in range(80):
        pipe.send("a")
        pipe.run(0.01)
        if number == 40:
            pipe.restart("b")
    pipe.run(60.0)
    assert set(pipe.got["b", 1]) | set(pipe.got["b", 2]) == set(pipe.sent["a", 1])
    assert pipe.ends["b"].take_new_lives() == ["a"]
    assert pipe.ends["a"].take_new_lives() == ["b"]
    assert pipe.ends["a"].take_new_lives() == []


def test_a_server_that_is_back_gets_what_waits_as_soon_as_it_is_heard() -> None:
    channels = MeshChannels(1)
    channels.receive("b", encode_frame(Frame(1, 1, 1, (), 0, 0)), 0.0)
    channels.send("b", b"one")
    channels.poll(0.0)
    channels.receive("b", encode_frame(Frame(2, 1, 1, (), 0, 0)), 0.1)
    [(_, frame)] = channels.poll(0.1)
    assert MeshChannels(2).receive("a", frame, 0.1) == [b"one"]


def test_too_many_that_wait_drop_the_oldest_and_the_rest_arrives_in_order() -> None:
    pipe = Pipe(0, loss=1.0, settings=MeshSettings(queue_limit=100, window=20))
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
    channels = MeshChannels(1, MeshSettings(queue_bytes=1_000))
    for _ in range(30):
        channels.send("b", bytes(100))
    assert (channels.waiting("b"), channels.dropped) == (10, 20)
    channels.send("b", bytes(5_000))
    assert channels.waiting("b") == 1


def test_frames_that_came_early_are_kept_up_to_a_limit() -> None:
    channels = MeshChannels(1, MeshSettings(early_frames=2))
    for number in (4, 3, 2):
        frame = encode_frame(Frame(1, 1, number, (b"%d" % number,), 0, 0))
        assert channels.receive("a", frame, 0.0) == []
    first = encode_frame(Frame(1, 1, 1, (b"1",), 0, 0))
    assert channels.receive("a", first, 0.0) == [b"1"]  # 2 had no room: its sender repeats it
    second = encode_frame(Frame(1, 1, 2, (b"2",), 0, 0))
    assert channels.receive("a", second, 0.0) == [b"2", b"3", b"4"]


@pytest.mark.parametrize("seed", range(10))
def test_garbage_is_counted_and_leaves_a_channel_as_it_was(seed: int) -> None:
    rng, channels = Random(seed), MeshChannels(1)
    channels.send("b", b"hello")
    good = channels.poll(0.0)[0][1]
    garbage = [rng.randbytes(rng.randrange(60)) for _ in range(200)]
    garbage += [good[: rng.randrange(len(good))] for _ in range(20)]
    receiver = MeshChannels(1)
    taken = [one for data in garbage for one in receiver.receive("a", data, 0.0)]
    assert taken == []
    assert receiver.refused == len(garbage)
    assert receiver.receive("a", good, 0.0) == [b"hello"]


def test_acknowledgements_of_what_was_never_sent_change_nothing() -> None:
    channels = MeshChannels(7)
    channels.send("b", b"one")
    channels.poll(0.0)
    for ack_life, acked in ((7, 5), (6, 1), (7, -3), (7, 1 << 60)):
        channels.receive("b", encode_frame(Frame(1, 1, 1, (), ack_life, acked)), 0.0)
        assert channels.waiting("b") == 1
    channels.receive("b", encode_frame(Frame(1, 1, 1, (), 7, 1)), 0.0)
    assert channels.waiting("b") == 0


def test_a_server_that_left_the_site_is_forgotten() -> None:
    channels = MeshChannels(1)
    channels.send("b", b"one")
    channels.forget("b")
    assert channels.poll(100.0) == []
    assert channels.servers == ()
    assert channels.next_wakeup() == float("inf")
