"""What a datagram of a client holds, as its server wants it."""

from __future__ import annotations

from nearcast.wire.codec import COPY, FRAME_BYTES, FRAME_LIMIT, Refused, decode_body
from nearcast.wire.hot_frames import PUBLISH, RECEIVED, decode_publication, decode_received
from nearcast.wire.limits import content_bytes
from nearcast.wire.messages import Message, Refuse, RefuseReason
from nearcast.wire.publication import Origin, Publication

__all__ = ["Content", "decode_for_server", "split_too_large"]

Content = Message | Publication | tuple[int, int, int]
"""What a frame holds; a Received as its three numbers."""


def decode_for_server(payload: bytes, client: str, now_us: int) -> list[Content]:
    """Return what a payload holds, whole or not at all; unknown types are passed over."""
    found: list[Content] = []
    start, frames, size = 0, 0, len(payload)
    while start < size and payload[start]:
        frames += 1
        if frames > FRAME_LIMIT:
            raise Refused("too_many_frames")
        body = start + FRAME_BYTES
        end = body + int.from_bytes(payload[start + 1 : body], "big")
        if end > size:
            raise Refused("malformed")
        number = payload[start] & ~COPY
        if number == PUBLISH:
            found.append(decode_publication(payload[body:end], client, now_us))
        elif number == RECEIVED:
            found.append(decode_received(payload[body:end]))
        else:
            message = decode_body(number, payload[body:end])
            if message is not None:
                found.append(message)
        start = end
    return found


def split_too_large(
    contents: list[Content], payload_room: int
) -> tuple[list[Content], list[Refuse]]:
    """Return the contents without publications whose notification may not fit, and the answers.

    Parameters
    ----------
    payload_room
        Of their publisher, see `limits`.
    """
    kept: list[Content] = []
    refused = []
    for one in contents:
        if isinstance(one, Publication):
            topic = one.topic
            if len(topic.encode()) + content_bytes(one.payload, one.envelope) > payload_room:
                durable, reason = one.origin is not Origin.ONCE, RefuseReason.TOO_LARGE
                refused.append(Refuse(topic, one.epoch, one.sequence, durable, reason))
                continue
        kept.append(one)
    return kept, refused
