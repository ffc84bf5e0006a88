"""What waits for Kafka is on the disk, once, in order, within its limit."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path

from nearcast.links.kafka_backlog import Backlog, Entry


def test_it_is_a_queue_whatever_is_appended_taken_done_rewound_and_reopened(tmp_path: Path) -> None:
    rng = random.Random(5)
    backlog = Backlog(tmp_path, 1 << 30, file_bytes=500)
    model: deque[bytes] = deque()  # all that is not done
    taken: deque[Entry] = deque()
    number = 0
    for _ in range(3_000):
        match rng.choice("aaatttddddro" if rng.random() < 0.9 else "ro"):
            case "a":
                some = [b"%d" % (number + one) * 9 for one in range(rng.randrange(5))]
                number += len(some)
                assert backlog.append(some) == len(some)
                model += some
            case "t":
                taken += backlog.take(rng.randrange(6))
            case "d" if taken:
                one = taken.popleft()
                backlog.done(one)
                assert one.data == model.popleft()
            case "r":
                taken.clear()
                backlog.rewind()
            case "o" if not taken and rng.random() < 0.2:
                backlog.close()
                before = list(model)
                backlog = Backlog(tmp_path, 1 << 30, file_bytes=500)
                # a file is kept until all of it is done: some may come once more, none is missing
                again = [entry.data for entry in _all(backlog)]
                assert again[len(again) - len(before) :] == before
                backlog.rewind()
                model = deque(again)
        assert backlog.waiting == len(model)
    assert backlog.size_bytes <= sum(map(len, model)) + 8 * len(model) + 2 * 500 + 300


def _all(backlog: Backlog) -> list[Entry]:
    found: list[Entry] = []
    while some := backlog.take(100):
        found += some
    return found


def test_what_does_not_fit_is_refused_until_there_is_room_again(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path, 100)
    assert backlog.append([b"x" * 40, b"y" * 40, b"z" * 40]) == 2
    assert backlog.append([b"z" * 40]) == 0
    for entry in backlog.take(9):
        backlog.done(entry)
    assert backlog.append([b"z" * 40]) == 1


def test_an_entry_that_a_crash_cut_off_does_not_count(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path, 1 << 20)
    backlog.append([b"one", b"two"])
    backlog.close()
    file = next(tmp_path.glob("*.backlog"))
    file.write_bytes(file.read_bytes() + b"\x09\x00\x00\x00\x01\x02")
    again = Backlog(tmp_path, 1 << 20)
    again.append([b"three"])
    assert [entry.data for entry in again.take(9)] == [b"one", b"two", b"three"]


def test_all_that_is_done_takes_no_room(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path, 1 << 20, file_bytes=50)
    backlog.append([b"x" * 60])
    backlog.append([b"y" * 60])
    for entry in [*backlog.take(1), *backlog.take(1)]:
        backlog.done(entry)
    assert backlog.size_bytes == 0
    assert [path.stat().st_size for path in tmp_path.glob("*.backlog")] == [0]
