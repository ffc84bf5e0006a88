"""What a client may publish can be notified, whatever its names and numbers are."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.errors import WireError
from nearcast.wire.actions import PublicationRefused
from nearcast.wire.codec import encode_publish_tail
from nearcast.wire.envelope import make_envelope
from nearcast.wire.framing import SEALED_OVERHEAD
from nearcast.wire.generated import nearcast_pb2
from nearcast.wire.hot_frames import encode_notify, notify_frame, time_field
from nearcast.wire.limits import BROKER_ID_BYTES, check_payload, content_bytes, payload_limit
from nearcast.wire.messages import Notify, RefuseReason
from nearcast.wire.outbox import Outbox
from nearcast.wire.settings import WireSettings
from wire.world import World

HIGHEST = (1 << 63) - 1
numbers = st.integers(1, HIGHEST)
topics = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1).filter(
    lambda text: len(text.encode()) <= 256
)
ids = st.text(st.characters(codec="utf-8"), min_size=1).filter(
    lambda text: len(text.encode()) <= 255
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(topics, ids, st.integers(512, 65_507), numbers, numbers, st.integers(0, 2**32 - 1))
@example("t" * 256, "p" * 255, 1_200, HIGHEST, HIGHEST, 2**32 - 1)
@example("ü" * 128, "é" * 127, 65_507, HIGHEST, HIGHEST, 2**32 - 1)
def test_all_that_is_accepted_can_be_notified_and_sent(
    topic: str, publisher: str, datagram_limit: int, epoch: int, number: int, part: int
) -> None:
    limit = payload_limit(topic, publisher, datagram_limit)
    if limit < 0:
        return
    check_payload(topic, limit, publisher, datagram_limit)
    with pytest.raises(WireError, match=f"the limit of {limit} bytes"):
        check_payload(topic, limit + 1, publisher, datagram_limit)
    times = (number,) * 3
    notify = Notify(
        topic,
        publisher,
        epoch,
        number,
        True,
        part,
        bytes(limit),
        *times,
        0,
        number,
        broker="b" * BROKER_ID_BYTES,
        offset=number,
        previous=number,
    )
    frame = notify_frame(encode_notify(notify), time_field(number))
    room = datagram_limit - SEALED_OVERHEAD
    assert len(frame) <= room
    head = nearcast_pb2.Publish(
        topic=topic,
        sequence=number,
        durable=True,
        payload=bytes(limit),
        published_us=number,
        has_position=True,
        x_km=1.5,
        y_km=2.5,
    ).SerializeToString()
    assert 3 + len(head) + len(encode_publish_tail(epoch, number)) <= room


def test_what_is_accepted_with_an_envelope_fits_also_with_the_deadline_of_its_class() -> None:
    """A server writes it into the envelope of a message that is worth nothing when late."""
    sent = make_envelope({"kind": "brake"}, message_class="control")
    written = make_envelope({"kind": "brake"}, "", HIGHEST // 2, "control")
    assert len(written) > len(sent)
    limit = payload_limit("t", "p", 1_200)
    size = limit - content_bytes(b"", sent)
    numbers = (HIGHEST,) * 3
    notify = Notify(
        "t",
        "p",
        HIGHEST,
        HIGHEST,
        True,
        2**32 - 1,
        bytes(size),
        *numbers,
        0,
        HIGHEST,
        broker="b" * BROKER_ID_BYTES,
        offset=HIGHEST,
        previous=HIGHEST,
        envelope=written,
    )
    frame = notify_frame(encode_notify(notify), time_field(HIGHEST))
    assert len(frame) <= 1_200 - SEALED_OVERHEAD


def test_a_foreign_client_hears_that_its_payload_is_too_large_and_goes_on() -> None:
    world = World(3)
    server = world.add_server()
    client = world.add_client("car", server.home)
    session = client.session
    large = WireSettings(datagram_limit=1_400)
    session._home.outbox = Outbox(large, session._context.epochs)
    limit = payload_limit("speed", "car", world.settings.datagram_limit)
    for size in (1, limit, limit + 1, 1_100, 2):
        client.session.publish("speed", bytes(size), world.now)
    client.session.publish("speed", b"", world.now)
    world.run(10.0)
    assert [len(payload) for _, payload in world.broker.taken["car", "speed"]] == [1, limit, 2, 0]
    refused = [one for one in client.events if isinstance(one, PublicationRefused)]
    assert refused == [
        PublicationRefused("speed", sequence, True, RefuseReason.TOO_LARGE) for sequence in (3, 4)
    ]
    assert client.acked == {"speed": 6}
    assert client.session.unacknowledged == 0
    assert server.sessions.drops["payload_too_large"] >= 2


def test_a_fire_and_forget_publication_that_is_too_large_is_refused_too() -> None:
    world = World(3)
    server = world.add_server()
    client = world.add_client("a long name of a client", server.home)
    client.session._context.client = ""
    world.run(1.0)
    limit = payload_limit("speed", "", world.settings.datagram_limit)
    client.session.publish("speed", bytes(limit), world.now, durable=False)
    world.run(1.0)
    assert PublicationRefused("speed", 1, False, RefuseReason.TOO_LARGE) in client.events
    assert not world.broker.once
