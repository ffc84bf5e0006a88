"""Names of a publication and its record that the broker uses."""

from __future__ import annotations

from nearcast.wire.publication import Origin, Publication, decode_record

__all__ = ["Message", "Origin", "decode_message", "encode_message"]

Message = Publication
decode_message = decode_record
encode_message = Publication.record
