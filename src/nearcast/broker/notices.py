"""Notices: what notifications a record caused, as the log keeps it with the record.

An entry of the log is the record's offset, its notices, and the record. A notice that says the same
as its record to all subscribers, as the shipped ``forward`` makes it, is one byte. Notices live as
long as their record does: `replay` makes notifications of them again for who missed those.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error

import msgspec

from nearcast.broker.notifications import AllSubscribers, Audience, NamedClients
from nearcast.wire.publication import AS_IT_IS, NO_NOTICES, Publication, decode_record

__all__ = ["Notice", "decode_entry", "encode_entry", "encode_notices", "notices_of", "told_clients"]

_OFFSET = Struct("<Q")
_LENGTH = Struct("<I")
_LISTED = b"\x02"
_pack_offset = _OFFSET.pack


class Notice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One notification that a record caused."""

    part: int
    payload: bytes
    clients: tuple[str, ...] | None = None
    """To whom; None: all subscribers but the record's publisher."""
    envelope: bytes | None = None
    """What it says of itself; None: what the record does."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Notice]).decode


def told_clients(
    audience: Audience, resolved: tuple[str, ...], is_chosen: bool
) -> tuple[str, ...] | None:
    """Return whom a notice names: also clients that are away now, where they can be known.

    Parameters
    ----------
    is_chosen
        Whether only those were meant who were nearest then.
    """
    if is_chosen:
        return resolved
    if isinstance(audience, AllSubscribers):
        return None
    return audience.clients if isinstance(audience, NamedClients) else resolved


def encode_notices(notices: Sequence[Notice]) -> bytes:
    """Return notices as an entry has them."""
    body = _encode(notices)
    return b"".join((_LISTED, _LENGTH.pack(len(body)), body))


def notices_of(publication: Publication) -> list[Notice]:
    """Return what a publication caused."""
    notices = publication.notices
    if notices == AS_IT_IS:
        return [Notice(0, publication.payload)]
    return _decode(notices[1 + _LENGTH.size :]) if notices[:1] == _LISTED else []


def encode_entry(publication: Publication) -> bytes:
    """Return what the log keeps of a publication."""
    return b"".join(
        (
            _pack_offset(publication.offset),
            publication.notices,
            publication.encoded or publication.record(),
        )
    )


def decode_entry(topic: str, entry: bytes) -> Publication:
    """Return the publication of an entry; ValueError when the bytes are not one."""
    try:
        (offset,) = _OFFSET.unpack_from(entry)
        start = _OFFSET.size + 1
        notices = entry[_OFFSET.size : start]
        if notices == _LISTED:
            (length,) = _LENGTH.unpack_from(entry, start)
            start += _LENGTH.size + length
            notices = entry[_OFFSET.size : start]
            _decode(notices[1 + _LENGTH.size :])
        elif notices not in (NO_NOTICES, AS_IT_IS):
            raise ValueError("an entry has notices of an unknown kind")
    except (error, msgspec.MsgspecError) as problem:
        raise ValueError(f"{len(entry)} bytes are not an entry") from problem
    publication = decode_record(topic, entry[start:])
    publication.offset, publication.notices = offset, notices
    return publication
