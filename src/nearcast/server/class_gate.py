"""What a server makes of the classes of messages: who may use them, and how often."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from nearcast.errors import WireError
from nearcast.server.authorise import Authoriser
from nearcast.server.effects import Effects
from nearcast.trust.rights import may_use
from nearcast.wire.envelope import Envelope, make_envelope, open_envelope, read_envelope
from nearcast.wire.message_class import MessageClass
from nearcast.wire.messages import RefuseReason
from nearcast.wire.publication import Publication

__all__ = ["ClassGate"]

_USERS_LIMIT = 20_000
"""Pairs of client and class whose use is counted; the one seen longest ago begins anew."""


class ClassGate:
    """Decides how urgent publications are.

    Parameters
    ----------
    effects
        Of the server: its counts tell of messages of a class that came too often.
    """

    def __init__(
        self, classes: Mapping[str, MessageClass], authoriser: Authoriser, effects: Effects
    ) -> None:
        self._classes, self._authoriser, self._counts = classes, authoriser, effects.counts
        self._used: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """By client and class: messages that it may send, and since when."""
        self._limit = effects.tables.add("class_users", _USERS_LIMIT, lambda: len(self._used))

    def open(self, publication: Publication, now: float) -> RefuseReason | None:
        """Look into the envelope of a client's publication; return why it is refused, if so."""
        try:
            said = read_envelope(publication.envelope)
        except WireError:
            return RefuseReason.BAD_ENVELOPE
        return self._admit(publication, said, now) if said.message_class else None

    def _admit(self, publication: Publication, said: Envelope, now: float) -> RefuseReason | None:
        """Note how urgent it is.

        Those that come too often are as urgent as messages without a class, so that they take
        nobody else's turn. From the home's time on a class that wants it is dropped when late:
        no clock of a client is asked.
        """
        name = said.message_class
        found = self._classes.get(name)
        if found is None:
            return RefuseReason.CLASS_NOT_ALLOWED
        if found.urgency and not self._may_use(publication.publisher, name):
            return RefuseReason.CLASS_NOT_ALLOWED
        if found.urgency and self._take(publication.publisher, name, found.per_s, now):
            publication.urgency = found.urgency
        if found.drops_late:
            until_us = publication.received_us + int(found.deadline_ms * 1e3)
            if not 0 < said.valid_until_us <= until_us:
                publication.envelope = make_envelope(said.attributes, said.area, until_us, name)
        return None

    def judge(self, publication: Publication) -> None:
        """Note how urgent a publication is that its home has let in; its rights count here too."""
        urgency = self.urgency(publication.envelope)
        if urgency and self._may_use(
            publication.publisher, open_envelope(publication.envelope).message_class
        ):
            publication.urgency = urgency

    def urgency(self, envelope: bytes) -> int:
        """Return how urgent what has this envelope is."""
        found = self._classes.get(open_envelope(envelope).message_class)
        return found.urgency if found is not None else 0

    def _may_use(self, client: str, name: str) -> bool:
        rights = self._authoriser.rights_of(client)
        return rights is not None and may_use(rights, name)

    def _take(self, client: str, name: str, per_s: float, now: float) -> bool:
        """Count a message; tell whether the client may still send that many."""
        credit, since = self._used.pop((client, name), (max(1.0, per_s), now))
        credit = min(max(1.0, per_s), credit + max(0.0, now - since) * per_s)
        has_credit = credit >= 1.0
        self._used[client, name] = (credit - has_credit, now)
        if len(self._used) > self._limit:
            self._used.popitem(last=False)
        self._counts["urgent" if has_credit else "urgent_too_many"] += 1
        return has_credit
