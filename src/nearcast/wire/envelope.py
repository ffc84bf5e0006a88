"""The envelope of a message: what it says of itself beside its payload.

Attributes are names with a text, a number or a truth value, for filters to look at. An area says
who is to get the message: clients that are in it when it is delivered. A validity says until when
it is worth telling. A class says how urgent it is. The bytes travel as they are from the publisher to its subscribers.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from nearcast.content.attributes import Attributes, Value, check_attributes
from nearcast.errors import FilterError, WireError
from nearcast.wire.areas import area_of, check_area
from nearcast.wire.message_class import check_class

__all__ = ["EMPTY", "Envelope", "make_envelope", "open_envelope", "read_envelope"]

_LARGEST_US = 1 << 62


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """What is written on a message."""

    attributes: dict[str, Value] = {}
    area: str = ""
    """Who gets it: clients in this area; empty: wherever they are."""
    valid_until_us: int = 0
    """Unix time after which nobody is told; 0: it is worth telling for ever."""
    message_class: str = ""
    """How urgent it is, see `wire.message_class`; empty: as urgent as most."""

    @property
    def is_for_all(self) -> bool:
        """Whether all subscribers hear it, as far as their own terms let them."""
        return not self.area and not self.valid_until_us

    @property
    def is_for_nearest(self) -> bool:
        """Whether only those nearest to the centre of its area get it."""
        return bool(self.area) and area_of(self.area).nearest is not None

    def is_over(self, now_s: float) -> bool:
        """Tell whether its time has passed."""
        return 0 < self.valid_until_us < now_s * 1e6

    def selects(self, x_km: float, y_km: float, heading_deg: float | None, now_s: float) -> bool:
        """Tell whether a client at a place is meant."""
        return not self.area or area_of(self.area).selects(x_km, y_km, heading_deg, now_s)


EMPTY = Envelope()
"""Of a message that says nothing."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Envelope).decode


def make_envelope(
    attributes: Attributes | None = None,
    area: str = "",
    valid_until_us: int = 0,
    message_class: str = "",
) -> bytes:
    """Return an envelope's bytes, none when there is nothing to say; WireError names a mistake."""
    if not attributes and not area and not valid_until_us and not message_class:
        return b""
    if attributes is not None and not isinstance(attributes, dict):
        raise WireError(f"attributes are a dict, not {type(attributes).__name__}")
    made = Envelope(attributes or {}, area, valid_until_us, message_class)
    _check(made)
    if message_class:
        return _encode(made)
    return _encode((made.attributes, area, valid_until_us))  # what says nothing takes no room


@lru_cache(1_024)
def read_envelope(data: bytes) -> Envelope:
    """Return what an envelope says; WireError when somebody made it who does not keep the rules."""
    if not data:
        return EMPTY
    try:
        found = _decode(data)
    except msgspec.MsgspecError as error:
        raise WireError(f"{len(data)} bytes are not an envelope: {error}") from None
    _check(found)
    return found


def open_envelope(data: bytes) -> Envelope:
    """Return what an envelope says; nothing when it breaks the rules."""
    try:
        return read_envelope(data)
    except WireError:
        return EMPTY


def _check(envelope: Envelope) -> None:
    try:
        check_attributes(envelope.attributes)
    except FilterError as error:
        raise WireError(str(error)) from None
    if envelope.area:
        check_area(envelope.area)
    if not 0 <= envelope.valid_until_us < _LARGEST_US:
        raise WireError("the validity is no time")
    if envelope.message_class:
        check_class(envelope.message_class)
