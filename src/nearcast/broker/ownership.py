"""Who processes a stream: a broker takes a publisher's messages only while it owns them.

A broker that gets messages of a stream that it does not own claims it from all servers that may
have it. Each of them stops taking messages of the stream, and yields how far it has come once that
is durable; the claim is won when all have yielded and the claimer has what they had. Of two claims
the one with the higher token wins. A stream whose publisher has come is claimed before it sends:
its first message need not wait. Ownership is not durable: after a restart a broker owns nothing,
and asks besides the brokers that its orders name all servers that it has ever yielded to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from nearcast.spool.changes import Position
from nearcast.wire.publication import Publication

__all__ = ["NOBODY", "Ownership", "StreamClaim", "Token"]

_MOST_TOKENS = 100_000
"""Claims of a topic that are remembered: more publishers than any topic here may have."""
_MOST_HELD = 64
"""Messages of a stream that wait for its claim: what a publisher has in flight by default."""


class Token(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """Names a claim; the highest one for a stream counts."""

    version: int = 0
    """Of the topic's assignment by which its messages were sent to the claimer: a server that goes
    by an older plan cannot take a stream back."""
    counter: int = 0
    """Above all that the claimer has seen in this topic."""
    server: str = ""
    """The claimer."""
    incarnation: int = 0
    """A number of the claimer that is another one after a restart: answers to earlier claims are
    none to later ones."""


NOBODY = Token()


class StreamClaim(msgspec.Struct):
    """A claim that is not won yet."""

    token: Token
    since_s: float
    """When the first message began to wait, or the claim was made."""
    unheard: dict[str, Position | None]
    """Servers that have not yielded, or have had more than this broker has by now: how far."""
    held: dict[tuple[int, int], tuple[Publication, str | None]] = {}
    """Messages that wait, by epoch and sequence, each with the server that forwarded it."""
    given_up: tuple[str, ...] = ()
    """Servers that are away: the claim goes on without them."""
    answered: dict[str, None] = {}
    """Servers that have yielded, and have no more than this broker."""

    def hold(self, publication: Publication, home: str | None, now_s: float) -> None:
        """Keep a message until the claim is won; those beyond the limit are sent again."""
        if not self.held:
            self.since_s = now_s
        if len(self.held) < _MOST_HELD:
            self.held[publication.epoch, publication.sequence] = (publication, home)


class Ownership:
    """The claims of one topic: made here, and heard from others."""

    def __init__(self, server: str, incarnation: int) -> None:
        self.server, self._incarnation = server, incarnation
        self._tokens: dict[str, Token] = {}
        """The highest claim of each stream, by publisher."""
        self.counter = 0
        """The highest one that was heard or used."""
        self._pass_tokens: dict[int, Token] = {}
        """Tokens of the claims of this pass, by version."""
        self._unsent: dict[str, None] = {}
        self.claims: dict[str, StreamClaim] = {}
        """Made here and not won yet, by publisher."""
        self.owed: dict[str, dict[str, Token]] = {}
        """What has to be yielded when it is durable: claims by publisher and claimer."""
        self.least_version = 0
        """The topic was given away as a whole under this version: older ones do not count."""

    def may_claim(self, publisher: str, version: int) -> bool:
        """Tell whether a claim under this version of the assignment could be won.

        Version 0 comes from a server that knows of no assignment: it does not go by an old one.
        """
        return not version or version >= self.strongest(publisher).version

    def claim(
        self, publisher: str, version: int, others: Iterable[str], now_s: float
    ) -> StreamClaim:
        """Claim a stream from all others that may have it."""
        version = version or self.strongest(publisher).version
        token = self._pass_tokens.get(version)
        if token is None:
            self.counter += 1
            token = self._pass_tokens[version] = Token(
                version, self.counter, self.server, self._incarnation
            )
        self._tokens[publisher] = token
        self._unsent[publisher] = None
        claim = self.claims[publisher] = StreamClaim(token, now_s, dict.fromkeys(others))
        return claim

    def also_ask(self, others: Iterable[str]) -> None:
        """Claim what is not won yet from these servers too."""
        for publisher, claim in self.claims.items():
            heard = (claim.unheard, claim.answered, claim.given_up)
            new = [one for one in others if not any(one in some for some in heard)]
            if new:
                claim.unheard.update(dict.fromkeys(new))
                self._unsent[publisher] = None

    def take_unsent(self) -> dict[tuple[str, Token], list[str]]:
        """Return the publishers whose streams are to be claimed now, by server and token."""
        self._pass_tokens = {}
        if not self._unsent:  # nearly always
            return {}
        unsent, self._unsent = self._unsent, {}
        return self._by_server(unsent)

    def repeated(self, may_ask: Callable[[str], bool]) -> dict[tuple[str, Token], list[str]]:
        """Return the publishers whose streams are to be claimed again, by server and token."""
        found = self._by_server(self.claims)
        return {key: publishers for key, publishers in found.items() if may_ask(key[0])}

    def _by_server(self, publishers: Iterable[str]) -> dict[tuple[str, Token], list[str]]:
        found: dict[tuple[str, Token], list[str]] = {}
        for publisher in publishers:
            claim = self.claims.get(publisher)
            if claim is not None:
                for server in claim.unheard:
                    found.setdefault((server, claim.token), []).append(publisher)
        return found

    def concede(self, publisher: str, token: Token) -> bool:
        """Take another server's claim; tell whether it wins. One made here is lost then."""
        self.counter = max(self.counter, token.counter)
        known = self._tokens.get(publisher, NOBODY)
        # a server that restarted begins to count anew: its own claims do not stand in its way
        is_older = token < known and known.server != token.server
        if is_older or token.version < self.least_version:
            return False
        self._tokens[publisher] = token
        if len(self._tokens) > _MOST_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        self.claims.pop(publisher, None)
        self.owed.setdefault(publisher, {})[token.server] = token
        return True

    def owes(self, server: str) -> bool:
        """Tell whether a server's claims are still to be answered."""
        return any(server in claims for claims in self.owed.values())

    def forget(self, publisher: str) -> None:
        """Forget the highest claim of a stream."""
        self._tokens.pop(publisher, None)

    def strongest(self, publisher: str) -> Token:
        """Return the claim that a weaker one loses against."""
        return max(self._tokens.get(publisher, NOBODY), Token(self.least_version))

    def note(self, publisher: str, against: Token) -> None:
        """Note the strongest claim of a stream, as another server knows it."""
        self.counter = max(self.counter, against.counter)
        self._tokens[publisher] = against

    def lose(self, publisher: str, token: Token, against: Token) -> None:
        """Give up a claim that another server knows a stronger one against."""
        claim = self.claims.get(publisher)
        if claim is not None and claim.token == token:
            del self.claims[publisher]
            self.note(publisher, against)

    def waits_for(self, server: str, token: Token) -> bool:
        """Tell whether a claim by this token waits for a server's answer."""
        return any(one.token == token and server in one.unheard for one in self.claims.values())

    def on_yielded(self, server: str, token: Token, position: Position) -> bool:
        """Note how far another server has come; tell whether that was waited for."""
        claim = self.claims.get(position.publisher)
        if claim is None or claim.token != token or server not in claim.unheard:
            return False
        claim.unheard[server] = position
        return True

    def excuse(self, server: str) -> list[str]:
        """Go on without a server that the site no longer has; return whose claims that moves."""
        moved = [one for one, claim in self.claims.items() if server in claim.unheard]
        for publisher in moved:
            del self.claims[publisher].unheard[server]
        return moved

    def give_up(self, server: str) -> list[str]:
        """Go on without a server that is away; return the publishers whose claims that moves.

        Claims that no message waits for are dropped: the first one claims again.
        """
        moved = [one for one, claim in self.claims.items() if server in claim.unheard]
        for publisher in moved:
            claim = self.claims[publisher]
            if not claim.held:
                del self.claims[publisher]
                continue
            del claim.unheard[server]
            claim.given_up += (server,)
        return moved
