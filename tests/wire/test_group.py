"""The multicast group of a server: audiences, seals, signatures, receipts."""

from __future__ import annotations

from random import Random

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import structs

from nearcast.wire.client_context import ClientContext
from nearcast.wire.codec import Refused, decode, encode, mark_copy
from nearcast.wire.framing import read_header
from nearcast.wire.group_audience import AUDIENCE_BYTES, bitmap_of, read_audience, split_audience
from nearcast.wire.group_datagram import GroupSealer
from nearcast.wire.group_hearing import GroupHearing
from nearcast.wire.group_members import GroupMembers
from nearcast.wire.group_messages import GroupKey, GroupReceived
from nearcast.wire.messages import Heartbeat
from nearcast.wire.settings import WireSettings

FRAME = encode(Heartbeat(b"alert"))
SLOT = 5


class Server:
    """Seals for a group; a member that has its key, but not its signing key, is another one."""

    def __init__(self, seed: int = 1) -> None:
        random_bytes = Random(seed).randbytes
        self.signing_key = Ed25519PrivateKey.from_private_bytes(random_bytes(32))
        self.sealer = GroupSealer(self.signing_key, random_bytes)
        self.counter = 10

    def key(self, spread_ms: int = 1_000) -> GroupKey:
        verifier = self.signing_key.public_key().public_bytes_raw()
        known = (self.sealer.key_id, self.sealer.key, verifier)
        return GroupKey("239.192.7.1", 7401, *known, SLOT, 10, spread_ms, 2_000)

    def datagram(self, *slots: int, frames: bytes = FRAME) -> bytes:
        ((_, head),) = split_audience(bitmap_of(slots, 64), 100)
        self.counter += 1
        return self.sealer.seal(self.counter - 1, head + frames)


class Member:
    def __init__(self, seed: int = 2) -> None:
        self.heard: list[bytes] = []
        context = ClientContext(bytes(32), Random(seed).randbytes, WireSettings())
        self.group = GroupHearing(context, lambda frames, now: self.heard.append(frames))

    def receive(self, data: bytes, now: float = 0.0) -> str:
        """Return why a datagram was refused; empty when it was not."""
        try:
            self.group.receive(read_header(data).receiver, data, now)
        except Refused as refusal:
            return refusal.reason
        return ""

    def says(self, now: float) -> GroupReceived | None:
        frames = self.group.take_receipt(now, travels_along=False)
        ((message, _),) = decode(b"".join(frames)) or ((None, False),)
        assert message is None or isinstance(message, GroupReceived)
        return message


def member_of(server: Server, seed: int = 2) -> Member:
    member = Member(seed)
    member.group.on_key(server.key(), 0.0)
    return member


@pytest.mark.parametrize("seed", range(8))
def test_the_parts_of_an_audience_fit_and_are_together_the_whole(seed: int) -> None:
    rng = Random(seed)
    size, share = rng.choice((1, 100, 10_000)), rng.choice((0.0, 0.01, 0.5, 1.0))
    slots = {slot for slot in range(size) if rng.random() < share}
    room, found = AUDIENCE_BYTES + rng.choice((1, 64, 900)), list[int]()
    for _, head in split_audience(bitmap_of(slots, size), room):
        assert len(head) <= room
        audience, rest = read_audience(head + b"frames")
        assert rest == b"frames"
        found += [slot for slot in range(size + 8) if slot in audience]
    assert sorted(found) == sorted(slots)


def test_a_datagram_that_is_not_as_sent_or_malformed_is_refused() -> None:
    server = Server()
    member = member_of(server)
    data = server.datagram(SLOT)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(Refused):
            member.group.receive(read_header(bytes(changed)).receiver, bytes(changed), 0.0)
    for size in range(len(data)):
        assert size < 6 or member.receive(data[:size])
    assert not member.heard
    assert member.receive(data) == ""
    for body in (b"", b"\1", b"\1\xff\xff\0\0\0\0", b"\1\0\2\0\0\0\0xx"):
        server.counter += 1
        assert member.receive(server.sealer.seal(server.counter - 1, body)) == "group_malformed"


def test_a_member_takes_what_is_for_it_once() -> None:
    server = Server()
    member = member_of(server)
    data = server.datagram(SLOT, 7)
    assert [member.receive(one) for one in (data, data)] == ["", "group_replayed"]
    assert member.receive(server.datagram(7)) == ""
    assert member.heard == [FRAME]
    old = server.sealer.seal(9, b"")  # before the slot was its own
    assert member.receive(old) == "group_replayed"


def test_what_a_member_forges_is_refused_and_much_of_it_has_the_group_left() -> None:
    server = Server()
    member, liar = member_of(server), Server(seed=9)
    assert member.receive(server.datagram(SLOT)) == ""
    key, key_id = server.sealer.key, (server.sealer.key_id - 1).to_bytes(4, "big")
    liar.sealer = GroupSealer(liar.signing_key, lambda size: key if size == len(key) else key_id)
    assert liar.sealer.key_id == server.sealer.key_id
    reasons = [member.receive(liar.datagram(SLOT), 0.1) for _ in range(101)][1:]
    assert reasons == ["group_signature"] * 17 + ["group_key"] * 83
    assert member.heard == [FRAME]
    assert member.says(0.1) == GroupReceived(0)
    assert not member.group.is_hearing
    member.group.on_key(server.key(), 0.2)  # the same key is of no use
    assert member.receive(server.datagram(SLOT), 0.2) == "group_key"
    random_bytes = Random(3).randbytes
    server.sealer = GroupSealer(server.signing_key, random_bytes)
    member.group.on_key(server.key(), 0.3)
    assert member.receive(server.datagram(SLOT), 0.3) == ""


def test_a_member_says_soon_what_it_misses_and_late_what_it_has() -> None:
    server = Server()
    member = member_of(server)
    member.receive(server.datagram(SLOT))
    key_id = server.sealer.key_id
    assert member.says(1.0) == GroupReceived(key_id, 10, (1 << 11) - 1, 11)
    member.receive(server.datagram(SLOT), 2.0)
    assert 2.25 <= member.group.due <= 3.0
    server.datagram(SLOT)  # lost
    member.receive(server.datagram(SLOT), 2.0)
    assert 2.02 <= member.group.due <= 2.22
    assert member.says(2.3) == GroupReceived(key_id, 13, (1 << 14) - 1 - 0b10, 12)
    assert member.says(8.0) == GroupReceived(0)  # nothing for three beacons


def test_many_datagrams_are_confirmed_before_the_server_gives_up_waiting() -> None:
    server = Server()
    member = member_of(server)
    told: list[int] = []
    for number in range(2_000):
        data = server.datagram(SLOT)
        if number != 1_500:
            member.receive(data, 1e-6 * number)
        if member.group.due <= 1e-6 * number:
            told.append(number)
            member.says(1e-6 * number)
    assert told == [767, *range(767 + 768, 2_000, 48)]


def test_the_receipts_of_many_members_are_spread() -> None:
    server = Server()
    members = [member_of(server, seed) for seed in range(300)]
    first, second = server.datagram(SLOT), server.datagram(SLOT)
    for one in members:
        one.receive(first)
        one.says(5.0)
        one.receive(second, 5.0)
    due = sorted(one.group.due for one in members)
    assert max(sum(at <= other < at + 0.1 for other in due) for at in due) < 80
    assert due[-1] <= 6.0


def test_unusable_keys_are_refused() -> None:
    server = Server()
    for change in (
        {"host": "127.0.0.1"},
        {"host": "not an address"},
        {"port": 53},
        {"key": b"short"},
        {"verifier": b"short"},
        {"key_id": 0},
        {"first": 1 << 63},
        {"beacon_ms": 0},
    ):
        member = Member()
        with pytest.raises(Refused):
            member.group.on_key(structs.replace(server.key(), **change), 0.0)
        assert member.group.address is None


def test_nobody_can_confirm_what_was_not_sent() -> None:
    members = GroupMembers()
    liar = members.add(None)  # type: ignore[arg-type]
    said = GroupReceived(1, 1 << 62, (1 << 64) - 1, 1 << 62)
    assert members.settle(liar, said) == []
    ((audience, _),) = split_audience(bitmap_of([liar.slot], 1), 100)
    members.note_sent([FRAME], audience, 0.0)
    assert len(liar.unconfirmed()) == 1
    assert members.settle(liar, GroupReceived(1, 0, 0, 0)) == [mark_copy(FRAME)]
    assert liar.unconfirmed() == []
