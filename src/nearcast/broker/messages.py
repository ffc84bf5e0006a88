"""Names of a publication and its record that the broker uses."""

from __future__ import annotations

from nearcast.wire import publication

__all__ = ["Message", "Origin", "decode_message", "encode_message"]

Message = publication.Publication
Origin = publication.Origin
decode_message = publication.decode_record
encode_message = publication.Publication.record
