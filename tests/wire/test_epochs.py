"""An epoch that is too low is raised: nobody's clock has to be right."""

from __future__ import annotations

import pytest

from nearcast.wire.codec import encode
from nearcast.wire.epochs import Epochs
from nearcast.wire.messages import Refuse, RefuseReason
from nearcast.wire.publication import Publication
from wire.world import World


def test_an_epoch_is_raised_above_the_one_in_force_and_only_for_its_topic() -> None:
    epochs = Epochs()
    epochs.issued = 10
    assert epochs.raise_above("t", 50)
    assert not epochs.raise_above("t", 50)  # the other refusals of what was in flight
    assert (epochs.of("t"), epochs.of("u")) == (51, 10)
    assert not epochs.raise_above("t", 51)  # ours: an earlier start of the client was refused
    assert epochs.raise_above("t", 52)
    assert not epochs.raise_above("u", 9)
    assert not epochs.raise_above("u", (1 << 63) - 1)  # there is none above
    assert (epochs.of("t"), epochs.of("u")) == (53, 10)


def test_two_starts_of_a_client_that_are_told_the_same_epoch_go_on_with_different_ones() -> None:
    found = set()
    for seed in range(5):
        world = World(seed)
        server = world.add_server()
        client = world.add_client("car", server.home)
        world.run(1.0)
        client.session.publish("speed", b"x", world.now)
        in_force = client.session.epoch + 5
        refuse = Refuse("speed", in_force, 1, True, RefuseReason.STALE_EPOCH)
        server.sessions.tell("car", refuse)
        world.run(1.0)
        found |= {one.epoch for one in server.events if isinstance(one, Publication)} - {in_force}
    assert len(found - {one for one in found if one < in_force}) == 5


@pytest.mark.parametrize("durable", [True, False])
def test_refused_publications_are_sent_again_under_a_higher_epoch(durable: bool) -> None:
    world = World(2)
    server = world.add_server()
    client = world.add_client("car", server.home)
    world.run(1.0)
    in_force = client.session.epoch + 5

    def refuse_old(publication: object) -> bool:
        return getattr(publication, "epoch", 0) <= in_force

    take = server.take

    def take_or_refuse(one: object) -> None:
        if refuse_old(one):
            server.sessions.tell(
                "car",
                Refuse(one.topic, in_force, one.sequence, durable, RefuseReason.STALE_EPOCH),  # type: ignore[attr-defined]
            )
        else:
            take(one)  # type: ignore[arg-type]

    server.take = take_or_refuse  # type: ignore[method-assign]
    for number in range(3):
        client.session.publish("speed", b"%d" % number, world.now, durable=durable)
    world.run(3.0)
    client.session.publish("speed", b"3", world.now, durable=durable)
    world.run(3.0)
    if durable:
        assert [payload for _, payload in world.broker.taken["car", "speed"]] == [
            b"0", b"1", b"2", b"3",
        ]  # fmt: skip
        assert client.acked == {"speed": 4}
    else:
        assert [one.payload for _, one in world.broker.once] == [b"3"]
    assert len(encode(Refuse("t", 1, 1, True, 1))) < 20
