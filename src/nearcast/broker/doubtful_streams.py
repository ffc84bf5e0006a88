"""Streams that were won though servers that may own them did not answer: these are asked again.

Until such a server has yielded, both may take messages of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nearcast.broker.ownership import Token

__all__ = ["DoubtfulStreams"]


class DoubtfulStreams:
    """The streams of a topic that servers which were given up may own too, by publisher."""

    def __init__(self) -> None:
        self._streams: dict[str, tuple[Token, dict[str, None]]] = {}

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self._streams)

    def add(self, publisher: str, token: Token, given_up: Iterable[str]) -> None:
        """Note by which claim a stream was won, and without whom."""
        self._streams[publisher] = (token, dict.fromkeys(given_up))

    def drop(self, publisher: str) -> None:
        """Forget a stream that is owned here no more."""
        self._streams.pop(publisher, None)

    def on_yielded(self, server: str, token: Token, publisher: str) -> None:
        """Note that a server has stopped taking messages of a stream."""
        if self.is_asked(server, token, publisher):
            servers = self._streams[publisher][1]
            del servers[server]
            if not servers:
                del self._streams[publisher]

    def is_asked(self, server: str, token: Token, publisher: str) -> bool:
        """Tell whether an answer of a server about a stream is still wanted."""
        by, servers = self._streams.get(publisher, (None, {}))
        return by == token and server in servers

    def repeated(
        self, may_ask: Callable[[str], bool], is_known: Callable[[str], bool]
    ) -> dict[tuple[str, Token], list[str]]:
        """Return whom to ask again for which streams, by server and token."""
        found: dict[tuple[str, Token], list[str]] = {}
        for publisher, (token, servers) in list(self._streams.items()):
            for server in list(servers):
                if not is_known(server):
                    self.on_yielded(server, token, publisher)
                else:
                    found.setdefault((server, token), []).append(publisher)
        return {key: publishers for key, publishers in found.items() if may_ask(key[0])}
