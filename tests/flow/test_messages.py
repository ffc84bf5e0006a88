"""Flow messages come back from their bytes; numbers out of bounds are no messages."""

from __future__ import annotations

import msgspec
import pytest

from nearcast.flow.messages import (
    Done,
    FlowMessage,
    HandOver,
    Owner,
    Part,
    PlacedPart,
    TakenFrom,
    Work,
    WorkItem,
)
from nearcast.routing.keys import INDEX_END
from nearcast.server.mesh_messages import MeshMessage

_decode = msgspec.msgpack.Decoder[FlowMessage](FlowMessage).decode
_WHOLE = Part(None, 0, INDEX_END)


@pytest.mark.parametrize(
    "message",
    [
        Work("f", 1, "c", "t", 6, ("jp", "yrp"), 3, (WorkItem(4, 3, 5, b"x"),)),
        Done("f", 1, "c", "t", 6, (4, 9), _WHOLE),
        Owner("f", 1, "c", Part(("jp",), 1, 2), ""),
        HandOver(
            "f", 1, "c", 7, 8, _WHOLE, b"s", (TakenFrom("s", "t", 6, 3, (4,)),), (PlacedPart(_WHOLE, "s"),)
        ),
    ],
)  # fmt: skip
def test_a_message_comes_back_from_its_bytes(message: FlowMessage) -> None:
    assert _decode(msgspec.msgpack.encode(message)) == message


@pytest.mark.parametrize("number", [-1, 1 << 63])
def test_a_number_that_no_outbox_has_is_no_message(number: int) -> None:
    item = msgspec.msgpack.encode(["Work", "f", 1, "c", "t", 6, [], 0, [[number, 0, 1, b""]]])
    with pytest.raises(msgspec.ValidationError):
        _decode(item)


def test_servers_can_tell_them_from_their_other_messages() -> None:
    msgspec.msgpack.Decoder[FlowMessage | MeshMessage](FlowMessage | MeshMessage)
