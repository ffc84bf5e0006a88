"""Who owns the streams of a topic, as far as its broker here knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nearcast.broker.ownership import Ownership
from nearcast.broker.sequence_gate import Stream

__all__ = ["StreamOwners"]


class StreamOwners:
    """Answers questions about a topic's streams by publisher."""

    def __init__(self, streams: Mapping[str, Stream], ownership: Ownership) -> None:
        self._streams, self._ownership = streams, ownership

    def owns(self, publisher: str) -> bool:
        """Tell whether a publisher's messages are processed here."""
        stream = self._streams.get(publisher)
        return stream is not None and stream.is_owned

    def owned(self) -> Iterator[str]:
        """Yield the publishers whose messages are processed here."""
        return (name for name, one in self._streams.items() if one.is_owned)

    def is_owner(self, server: str, publisher: str) -> bool:
        """Tell whether another server has the strongest claim to a stream, or is asked for it."""
        ownership = self._ownership
        claim = ownership.claims.get(publisher)
        return ownership.strongest(publisher).server == server or (
            claim is not None and server in claim.unheard
        )

    def has_claimed(self, server: str, publisher: str) -> bool:
        """Tell whether another server has the strongest claim to a stream."""
        return self._ownership.strongest(publisher).server == server

    def is_claimed(self, publisher: str) -> bool:
        """Tell whether somebody has claimed a stream, or it is being claimed here."""
        ownership = self._ownership
        return (
            self.owns(publisher)
            or publisher in ownership.claims
            or bool(ownership.strongest(publisher).server)
        )

    def is_anothers(self, server: str, publisher: str) -> bool:
        """Tell whether a stream is known to be processed here, or by a third server."""
        if self.is_owner(server, publisher):
            return False
        return self.owns(publisher) or bool(self._ownership.strongest(publisher).server)
