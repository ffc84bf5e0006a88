"""Who may do what at this server: one rule for every path that a client's wish can take.

A client shows its signed credential to the server that it has a session with; that server shows
it to others before it speaks of the client to them, see `vouching`. So each server decides by the
client's own rights, no matter who says what the client wants.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from nearcast.errors import TrustError
from nearcast.server.tables import Tables
from nearcast.trust.credentials import ClientCredential
from nearcast.trust.rights import Action, Rights, refusal
from nearcast.trust.site_trust import SiteTrust
from nearcast.trust.topic_pattern import is_pattern
from nearcast.wire.messages import CloseReason

__all__ = ["Authoriser"]

_UNKNOWN = "no credential of this client is known here"
_ANSWERS_LIMIT = 1_000
"""Answers that are kept per client."""


class _KnownClient:
    """A client whose credential counts, and what was answered about it."""

    __slots__ = ("answers", "credential", "document")

    def __init__(self, credential: ClientCredential, document: bytes) -> None:
        self.credential, self.document = credential, document
        self.answers: dict[tuple[Action, str], str | None] = {}


class Authoriser:
    """The clients that this server knows, and what they may do; anybody else may do nothing.

    Parameters
    ----------
    trust
        Decides which credentials count.
    vouched_limit
        Most clients without a session here that are remembered; those asked about longest ago
        are forgotten first, and asked for again.
    """

    def __init__(self, trust: SiteTrust, vouched_limit: int, tables: Tables | None = None) -> None:
        self.trust = trust
        self._limit = (tables or Tables()).add(
            "credentials", vouched_limit, lambda: len(self._vouched)
        )
        self._here: dict[str, _KnownClient] = {}
        """Those with a session here."""
        self._vouched: OrderedDict[str, _KnownClient] = OrderedDict()
        """Those that another server vouched for."""

    def __len__(self) -> int:
        return len(self._here) + len(self._vouched)

    def authorise(self, client: str, action: Action, topic: str) -> str | None:
        """Return why a client may not do something; None when it may."""
        known = self._here.get(client)
        if known is None:
            known = self._vouched.get(client)
            if known is None:
                return _UNKNOWN
            self._vouched.move_to_end(client)
        key = (action, topic)
        if key in known.answers:
            return known.answers[key]
        if action == "publish" and is_pattern(topic):
            answer: str | None = f"{topic!r} is not one topic"
        else:
            answer = refusal(known.credential.rights, action, topic)
        if len(known.answers) >= _ANSWERS_LIMIT:
            known.answers.clear()
        known.answers[key] = answer
        return answer

    def knows(self, client: str) -> bool:
        """Tell whether there is a credential of a client."""
        return client in self._here or client in self._vouched

    def rights_of(self, client: str) -> Rights | None:
        """Return the rights of a client by its credential, if there is one."""
        known = self._here.get(client) or self._vouched.get(client)
        return known.credential.rights if known is not None else None

    def key_of(self, client: str) -> bytes | None:
        """Return the public key of a client by its credential, if there is one."""
        known = self._here.get(client) or self._vouched.get(client)
        return known.credential.public_key if known is not None else None

    def document_of(self, client: str) -> bytes | None:
        """Return the signed credential of a client, for another server."""
        known = self._here.get(client) or self._vouched.get(client)
        return known.document if known is not None and known.document else None

    def check(self, document: bytes, public_key: bytes, now: float) -> ClientCredential:
        """Return the credential that a client shows; TrustError when it does not count.

        For the handshake. One that is known by a newer credential was given another key, maybe
        because somebody else has this one.
        """
        credential = self.trust.client(document, public_key, now)
        self._check_newest(credential)
        return credential

    def begin_session(self, credential: ClientCredential, document: bytes) -> None:
        """Note that a client has a session here."""
        self._here[credential.client] = _KnownClient(credential, document)
        self._vouched.pop(credential.client, None)

    def end_session(self, client: str) -> None:
        """Note that a client has left; what others say of it goes on to count for a while."""
        known, newer = self._here.pop(client, None), self._vouched.get(client)
        if known is not None and known.document and newer is None:
            self._remember(client, known)

    def vouch(self, document: bytes, now: float) -> tuple[str, bool]:
        """Take a credential that another server shows; TrustError when it does not count.

        Returns the client, and whether it was known by an older one.
        """
        credential = self.trust.vouched(document, now)
        self._check_newest(credential)
        client = credential.client
        known = self._here.get(client) or self._vouched.get(client)
        if known is not None and known.credential.serial == credential.serial:
            return client, False
        self._remember(client, _KnownClient(credential, document))
        return client, known is not None

    def take_outdated(self, now: float) -> list[str]:
        """Forget vouched clients whose credential has expired or was revoked; return which."""
        outdated = [
            client
            for client, known in self._vouched.items()
            if self._end_reason(known.credential, now) is not None
        ]
        for client in outdated:
            del self._vouched[client]
        return outdated

    def end_reasons(self, now: float) -> Callable[[ClientCredential], CloseReason | None]:
        """Return what tells why the credential of a session no longer counts; None: it does."""
        return lambda credential: self._end_reason(credential, now)

    def _end_reason(self, credential: ClientCredential, now: float) -> CloseReason | None:
        try:
            self._check_newest(credential)
            self.trust.check(credential, now)
        except TrustError as error:
            # by this clock only: the client may try other servers
            is_expired = error.reason == "expired"
            return CloseReason.EXPIRED if is_expired else CloseReason.REVOKED
        return None

    def _check_newest(self, credential: ClientCredential) -> None:
        for table in (self._here, self._vouched):
            known = table.get(credential.client)
            if known is not None and known.credential.serial > credential.serial:
                raise TrustError(f"client {credential.client!r} has a newer credential", "revoked")

    def _remember(self, client: str, known: _KnownClient) -> None:
        self._vouched.pop(client, None)
        self._vouched[client] = known
        if len(self._vouched) > self._limit:
            self._vouched.popitem(last=False)
