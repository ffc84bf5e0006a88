"""Durable publications at the client: what is sent when, and what it says."""

from __future__ import annotations

import pytest

from nearcast.errors import WireError
from nearcast.wire.codec import decode
from nearcast.wire.epochs import Epochs
from nearcast.wire.messages import Publish
from nearcast.wire.outbox import Outbox
from nearcast.wire.settings import WireSettings

SETTINGS = WireSettings(publish_window=4, publish_limit=10)


def _outbox() -> Outbox:
    epochs = Epochs()
    epochs.issued = 5
    return Outbox(SETTINGS, epochs)


def _filled(count: int, topic: str = "t") -> Outbox:
    outbox = _outbox()
    for number in range(count):
        outbox.add(topic, b"%d" % number, None, 7)
    return outbox


def _sent(outbox: Outbox, now: float) -> list[Publish]:
    messages = [message for message, _ in decode(b"".join(outbox.frames(now)))]
    assert all(isinstance(message, Publish) for message in messages)
    return messages  # type: ignore[return-value]


def _sequences(outbox: Outbox, now: float) -> list[int]:
    return [message.sequence for message in _sent(outbox, now)]


def test_a_publication_is_sent_as_it_was_given() -> None:
    outbox = _outbox()
    outbox.add("a/b", b"x", (1.5, -2.5), 7)
    assert _sent(outbox, 0.0) == [Publish("a/b", 5, 1, 1, True, b"x", True, 1.5, -2.5, 7)]


def test_repetitions_follow_epoch_and_acknowledgements() -> None:
    outbox = _filled(3)
    assert [message.oldest for message in _sent(outbox, 0.0)] == [1, 1, 1]
    assert outbox.acknowledge("t", 5, 1, 0.01)
    assert outbox._epochs.raise_above("t", 2**61)
    outbox.restart_topic("t")
    again = _sent(outbox, 0.02)
    assert [(message.sequence, message.oldest, message.epoch) for message in again] == [
        (2, 2, 2**61 + 1),
        (3, 2, 2**61 + 1),
    ]
    assert not outbox.acknowledge("t", 5, 3, 0.03)  # of the epoch before


def test_a_publication_that_is_given_up_is_left_out() -> None:
    outbox = _filled(4)
    assert outbox.give_up("t", 3)
    assert not outbox.give_up("t", 3)
    assert not outbox.give_up("t", 9)
    assert _sequences(outbox, 0.0) == [1, 2, 4]
    assert _sequences(outbox, 0.25) == [1, 2, 4]
    assert outbox.acknowledge("t", 5, 2, 0.01)
    assert len(outbox) == 1
    assert [(one.sequence, one.oldest) for one in _sent(outbox, 2.0)] == [(4, 4)]
    assert outbox.give_up("t", 4)
    assert len(outbox) == 0
    outbox.add("t", b"", None, 7)
    assert [(one.sequence, one.oldest) for one in _sent(outbox, 3.0)] == [(5, 5)]


def test_a_window_is_in_flight_and_waits_double() -> None:
    outbox = _filled(6)
    assert _sequences(outbox, 0.0) == [1, 2, 3, 4]
    assert _sequences(outbox, 0.1) == []
    assert outbox.next_due() == 0.25
    assert _sequences(outbox, 0.25) == [1, 2, 3, 4]
    assert outbox.next_due() == 0.75
    assert outbox.acknowledge("t", 5, 2, 0.3)
    assert not outbox.acknowledge("t", 5, 2, 0.3)
    assert outbox.next_due() == float("-inf")
    assert _sequences(outbox, 0.3) == [5, 6]
    assert outbox.acknowledge("t", 5, 10**30, 0.4)
    assert (len(outbox), outbox.next_due()) == (0, 0.55)  # too early by one pass
    assert _sequences(outbox, 0.55) == []
    assert outbox.next_due() == float("inf")


def test_missing_ones_are_sent_again_but_not_twice_at_once() -> None:
    outbox = _filled(4)
    assert _sequences(outbox, 0.0) == [1, 2, 3, 4]
    outbox.send_again("t", 5, 2, 2, 0.01)
    assert _sequences(outbox, 0.01) == []
    outbox.send_again("t", 5, 2, 2, 0.2)
    outbox.send_again("u", 5, 1, 1, 0.2)
    assert _sequences(outbox, 0.2) == [2, 3]
    outbox.send_again("t", 5, 0, 2**31, 0.9)
    assert _sequences(outbox, 0.9) == [1, 2, 3, 4]


@pytest.mark.parametrize("topic", ["t", ""])
def test_a_pause_holds_up_what_it_names_and_ends(topic: str) -> None:
    outbox = _filled(2)
    outbox.add("u", b"", None, 7)
    assert len(_sent(outbox, 0.0)) == 3
    outbox.pause(topic, 0.0, 1.0, 0.0)
    outbox.add("t", b"", None, 7)
    outbox.add("u", b"", None, 7)
    assert [message.topic for message in _sent(outbox, 0.1)] == (["u"] if topic else [])
    assert outbox.acknowledge("u", 5, 2, 0.2)
    assert _sent(outbox, 0.9) == []
    assert outbox.next_due() <= 1.0
    assert _sequences(outbox, 1.0) == [1, 2]  # half of what was in flight, then the rest
    assert outbox.acknowledge("t", 5, 2, 1.1)
    assert _sequences(outbox, 1.1) == [3]


def test_who_is_turned_away_again_and_again_sends_less_and_waits_longer() -> None:
    epochs = Epochs()
    epochs.issued = 5
    outbox = Outbox(WireSettings(), epochs)
    for _ in range(64):
        outbox.add("t", b"", None, 7)
    assert len(_sequences(outbox, 0.0)) == 64
    now = 0.0
    for wait_s, window in ((0.2, 32), (0.4, 16), (0.8, 8), (1.6, 4)):
        outbox.pause("t", now, 0.2, 0.5)
        outbox.pause("t", now, 0.2, 0.5)  # said once more for another publication of the batch
        assert _sequences(outbox, now + 0.99 * wait_s) == []
        now += wait_s
        assert len(_sequences(outbox, now)) == window
    outbox.acknowledge("t", 5, 4, now)
    assert _sequences(outbox, now) == [5, 6, 7, 8, 9]
    outbox.pause("t", now, 0.2, 0.5)  # something was acknowledged: it waits as at first
    assert len(_sequences(outbox, now + 0.2)) == 2


@pytest.mark.parametrize("topic", ["t", ""])
def test_no_server_keeps_a_client_silent_for_ever(topic: str) -> None:
    outbox = _filled(1)
    assert _sequences(outbox, 0.0) == [1]
    outbox.pause(topic, 0.0, 2**32 / 1000, 0.0)
    assert _sequences(outbox, 59.0) == []
    assert _sequences(outbox, 60.0) == [1]


def test_what_cannot_be_sent_is_not_kept() -> None:
    outbox = _filled(1)
    for topic, payload, position in (
        ("t", bytes(1_200), None),
        ("", b"", None),
        ("t", "text", None),
        ("\ud800", b"", None),
        ("t", b"", (1.0, 2.0, 3.0)),
        ("t", b"", (float("nan"), 0.0)),
    ):
        with pytest.raises(WireError):
            outbox.add(topic, payload, position, 7)  # type: ignore[arg-type]
    assert len(outbox) == 1
    assert outbox.add("t", b"", None, 7) == 2


def test_a_topic_moves_to_another_outbox_with_all_that_waits() -> None:
    home, visit = _filled(3), _outbox()
    home.add("u", b"", None, 7)
    assert _sequences(home, 0.0) == [1, 2, 3, 1]
    home.pause("t", 0.0, 9.0, 0.0)
    assert home.acknowledge("t", 5, 1, 0.1)
    home.move("t", visit)
    home.move("nothing", visit)
    assert (len(home), len(visit)) == (1, 2)
    assert not home.acknowledge("t", 5, 3, 0.2)
    assert [(one.sequence, one.oldest) for one in _sent(visit, 0.2)] == [(2, 2), (3, 2)]
    assert visit.acknowledge("t", 5, 3, 0.3)
    assert visit.add("t", b"", None, 7) == 4
    visit.move("t", home)
    assert (len(home), len(visit)) == (2, 0)
    assert visit.next_due() >= 0.4
    assert [one.sequence for one in _sent(home, 0.21)] == [4]
