"""The thread that sends for the loop."""

from __future__ import annotations

import threading

from nearcast.links.send_lane import SendLane


def test_messages_are_sent_in_order_and_all_of_them_before_the_end() -> None:
    sent: list[tuple[str, bytes]] = []
    lane = SendLane("lane", lambda *message: sent.append(message))
    wanted = [(f"e{number % 3}", str(number).encode()) for number in range(1_000)]
    for server, data in wanted:
        lane.send(server, data)
    assert lane.close(60)
    assert sent == wanted
    assert lane.stuck_s() == 0


def test_a_library_that_does_not_return_is_seen_and_nobody_waits_for_it() -> None:
    begun, free = threading.Event(), threading.Event()
    sent: list[bytes] = []

    def put(_server: str, data: bytes) -> None:
        begun.set()
        free.wait()
        sent.append(data)

    lane = SendLane("lane", put, most_waiting=3)
    lane.send("e1", b"stuck")
    assert begun.wait(60)
    first_s = lane.stuck_s()
    for number in range(5):
        lane.send("e1", str(number).encode())
    assert lane.dropped == 2
    assert 0 <= first_s <= lane.stuck_s()
    assert lane.stuck_s() > 0
    assert not lane.close(0.0)
    free.set()
    assert lane.close(60)
    assert sent == [b"stuck", b"0", b"1", b"2"]
