"""What goes out at the end of a pass: unconfirmed notifications again, and no look at the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from nearcast.wire.actions import Datagram, SendDatagram
from nearcast.wire.flights import Packet
from nearcast.wire.server_session import ServerSession
from nearcast.wire.session_sender import SessionSender
from nearcast.wire.settings import WireSettings

WAIT_S = WireSettings().notification_retry_s
FRAME = b"\x0c\x00\x01x"


class Receiver:
    """A session whose client confirms nothing, and that counts how often it is looked at."""

    is_open, is_queued, room, urgent = True, False, 1_000, 0
    waits_since = None
    awaits_receipts = True

    def __init__(self, index: int) -> None:
        self.index = index
        self.told_at = 0.0
        self.looks = 0

    def take_frames(self, now: float) -> list[bytes]:
        self.told_at = now
        return [FRAME]

    def send(self, packets: Iterable[Packet], sent: list[Datagram]) -> bool:
        sent += [SendDatagram(("::1", self.index), packet.payload) for packet in packets]
        return True

    def resend(self, now: float) -> list[Datagram]:
        self.looks += 1
        if self.told_at + WAIT_S > now:
            return []
        self.told_at = now
        return [SendDatagram(("::1", self.index), FRAME)]

    def next_resend(self) -> float:
        return self.told_at + WAIT_S


def tell(sender: SessionSender, receivers: Iterable[Receiver], now: float) -> int:
    for one in receivers:
        sender.mark(cast("ServerSession", one))
    return len(sender.flush(now))


def test_only_sessions_that_are_due_are_looked_at() -> None:
    sender, receivers = SessionSender(WireSettings()), [Receiver(index) for index in range(100)]
    for one in receivers:  # one each millisecond
        assert tell(sender, [one], one.index / 1000) == 1
    sent = sender.flush(sender.next_wakeup())
    looked_at = [one for one in receivers if one.looks]
    assert receivers[0] in looked_at
    assert len(sent) <= len(looked_at) < len(receivers) / 2


def test_what_is_unconfirmed_is_sent_again_each_time_it_is_due() -> None:
    sender, receiver = SessionSender(WireSettings()), Receiver(7)
    assert tell(sender, [receiver], 0.0) == 1
    for _ in range(3):
        due = sender.next_wakeup()
        assert WAIT_S <= due - receiver.told_at < WAIT_S + 0.03
        assert sender.flush(due - 0.001) == []
        assert len(sender.flush(due)) == 1


def test_a_session_that_can_be_sent_nothing_does_not_keep_the_server_busy() -> None:
    sender, receiver = SessionSender(WireSettings()), Receiver(7)
    tell(sender, [receiver], 0.0)
    receiver.resend = lambda now: []  # type: ignore[method-assign]
    now = sender.next_wakeup()
    sender.flush(now)
    assert sender.next_wakeup() > now + WAIT_S / 2


def test_a_session_that_is_forgotten_or_confirmed_is_not_looked_at() -> None:
    sender, gone, confirmed = SessionSender(WireSettings()), Receiver(1), Receiver(2)
    tell(sender, [gone, confirmed], 0.0)
    sender.forget(cast("ServerSession", gone))
    confirmed.awaits_receipts = False
    assert sender.flush(sender.next_wakeup()) == []
    assert sender.next_wakeup() == float("inf")
    assert gone.looks == confirmed.looks == 0


def test_a_session_with_nothing_due_is_not_gone_through() -> None:
    sender, receiver = SessionSender(WireSettings()), Receiver(7)
    tell(sender, [receiver], 0.0)
    due = sender.next_wakeup()
    receiver.told_at = due - WAIT_S / 2  # the first was confirmed, and there is a later one
    assert sender.flush(due) == []
    assert receiver.looks == 0
    assert len(sender.flush(sender.next_wakeup())) == 1


def test_all_sessions_that_were_told_together_are_told_again() -> None:
    sender, receivers = SessionSender(WireSettings()), [Receiver(index) for index in range(1_000)]
    tell(sender, receivers, 0.0)
    due = sender.next_wakeup()
    assert sender.unconfirmed() == 1_000
    assert len(sender.flush(due)) == 1_000
    assert sender.next_wakeup() >= due + WAIT_S
