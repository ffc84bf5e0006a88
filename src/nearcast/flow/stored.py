"""What a server keeps of running flows in its log: pseudo-topics that no client can name."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from nearcast.errors import SpoolError
from nearcast.flow.messages import HandOver, Part, PlacedPart, TakenFrom
from nearcast.routing.keys import NetPath

__all__ = [
    "FLOW_TOPICS",
    "Inherited",
    "OutboxRecord",
    "StoredInstance",
    "StoredName",
    "Taking",
    "UnderWay",
    "decode_instance",
    "decode_outbox_record",
]

FLOW_TOPICS = "\x00flow/"
"""How the names of the pseudo-topics begin."""
_BETWEEN = "\x00"


class StoredName(NamedTuple):
    """The name of a pseudo-topic."""

    flow: str
    run: int
    kind: str
    """``instance``, ``outbox`` (of messages for a component) or ``output`` (for clients)."""
    component: str
    topic: str = ""
    """Of an outbox: the topic that its messages are of."""

    def __str__(self) -> str:
        fields = (self.flow, str(self.run), self.kind, self.component, self.topic)
        return FLOW_TOPICS + _BETWEEN.join(fields)

    @classmethod
    def parse(cls, name: str) -> StoredName:
        """Return what a name says.

        Raises
        ------
        SpoolError
            When no server gave it.
        """
        try:
            flow, run, kind, component, topic = name.removeprefix(FLOW_TOPICS).split(_BETWEEN)
            return cls(flow, int(run), kind, component, topic)
        except ValueError:
            raise SpoolError(f"{name!r} is not a part of a flow that this nearcast knows") from None


class OutboxRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message for a component."""

    number: int
    net: NetPath
    index: int
    record: bytes
    waits_for: int = 0
    """The hand-over that has to be settled before it is sent; 0: none."""


class Inherited(msgspec.Struct, frozen=True, array_like=True):
    """What earlier holders of a part have processed of it."""

    part: Part
    taken: tuple[TakenFrom, ...]


class UnderWay(msgspec.Struct, frozen=True, array_like=True):
    """A hand-over that this server gives."""

    to: str
    message: HandOver
    """Without state and taken numbers, once it was taken."""
    drain: dict[str, int]
    """By reader of the output: the last message that was made of the part here."""
    is_taken: bool = False


class Taking(msgspec.Struct, frozen=True, array_like=True):
    """A hand-over that was taken here and is not settled yet."""

    number: int
    giver: str
    part: Part


class StoredInstance(msgspec.Struct, frozen=True, array_like=True):
    """All that an instance goes on from."""

    state: bytes | None
    ledger: tuple[PlacedPart, ...]
    taken: tuple[TakenFrom, ...] = ()
    inherited: tuple[Inherited, ...] = ()
    under_way: tuple[UnderWay, ...] = ()
    takings: tuple[Taking, ...] = ()


_decode_instance = msgspec.msgpack.Decoder(StoredInstance).decode
_decode_record = msgspec.msgpack.Decoder(OutboxRecord).decode


def decode_instance(state: bytes) -> StoredInstance:
    """Return what was stored of an instance; SpoolError when the bytes are not that."""
    try:
        return _decode_instance(state)
    except msgspec.MsgspecError as error:
        raise SpoolError(f"what is stored of a flow's instance cannot be read: {error}") from error


def decode_outbox_record(record: bytes) -> OutboxRecord:
    """Return a stored message of an outbox; SpoolError when the bytes are not that."""
    try:
        return _decode_record(record)
    except msgspec.MsgspecError as error:
        raise SpoolError(f"what is stored of a flow's outbox cannot be read: {error}") from error
