"""Vouching: a server shows others the signed credential of a client before it speaks of it.

Thus a server that is told what a client wants need not believe who says so: it knows the client's
own rights. One that does not know a client asks (`WhoIs`), and takes nothing of it until then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from nearcast.errors import TrustError
from nearcast.server.authorise import Authoriser
from nearcast.server.effects import Effects
from nearcast.server.peers import Peers
from nearcast.server.proof_messages import Vouch, WhoIs
from nearcast.trust.rights import Action

__all__ = ["Vouching"]

_AT_ONCE = 64
"""Credentials in one message."""
_SHOWN_LIMIT = 1_000_000
"""Pairs of server and client."""
_ASK_AGAIN_S = 1.0
_ASKED_LIMIT = 10_000


class Vouching:
    """What this server has shown to others, and what it asks of them.

    Parameters
    ----------
    retell
        Tells a server again what a client here subscribes to.
    on_replaced
        Is told of a client that has another credential than before, and of the time.
    """

    def __init__(
        self,
        peers: Peers,
        authoriser: Authoriser,
        effects: Effects,
        retell: Callable[[str, str], None],
        on_replaced: Callable[[str, float], None],
    ) -> None:
        self._peers, self._authoriser, self._effects = peers, authoriser, effects
        self._retell, self._on_replaced = retell, on_replaced
        self._shown: dict[str, set[str]] = {}
        """By server: clients whose present credential it has seen."""
        self._shown_limit = effects.tables.add(
            "credentials_shown", _SHOWN_LIMIT, lambda: sum(map(len, self._shown.values()))
        )
        self._asked: OrderedDict[str, float] = OrderedDict()
        """Clients that another server was asked for, and when."""
        self._asked_limit = effects.tables.add(
            "credentials_asked", _ASKED_LIMIT, lambda: len(self._asked)
        )
        peers.on(Vouch, self._on_vouch)
        peers.on(WhoIs, self._on_who_is)

    def show(self, server: str, clients: Iterable[str]) -> None:
        """Show a server the credentials of clients, before the first message about them."""
        shown = self._shown.setdefault(server, set())
        if len(shown) * len(self._shown) > self._shown_limit:  # each server has an equal part
            shown.clear()  # to be shown again does no harm
        missing = [one for one in dict.fromkeys(clients) if one not in shown]
        documents = []
        for client in missing:
            document = self._authoriser.document_of(client)
            if document is not None:
                shown.add(client)
                documents.append(document)
        for start in range(0, len(documents), _AT_ONCE):
            self._peers.send(server, Vouch(tuple(documents[start : start + _AT_ONCE])))

    def forget_server(self, server: str) -> None:
        """Note that a server restarted: it has seen nothing."""
        self._shown.pop(server, None)

    def forget_client(self, client: str) -> None:
        """Note that a client has left, or has another credential now."""
        for shown in self._shown.values():
            shown.discard(client)

    def allows(self, server: str, client: str, action: Action, topic: str, now: float) -> bool:
        """Tell whether a client may do what a server says of it; ask who it is if need be."""
        if self._authoriser.authorise(client, action, topic) is None:
            return True
        if self._authoriser.knows(client):
            self._effects.counts["mesh_not_allowed"] += 1
        else:
            self._effects.counts["mesh_not_vouched"] += 1
            self._ask(server, client, now)
        return False

    def _ask(self, server: str, client: str, now: float) -> None:
        if now - self._asked.get(client, float("-inf")) < _ASK_AGAIN_S:
            return
        self._asked.pop(client, None)
        self._asked[client] = now
        if len(self._asked) > self._asked_limit:
            self._asked.popitem(last=False)
        self._peers.send(server, WhoIs((client,)))

    def _on_vouch(self, server: str, message: Vouch, now: float) -> None:
        for document in message.credentials:
            try:
                client, is_other = self._authoriser.vouch(document, now)
            except TrustError as error:
                self._effects.counts["mesh_not_vouched"] += 1
                self._effects.incident("credential_refused", server=server, reason=str(error))
                continue
            self._asked.pop(client, None)
            if is_other:
                self._on_replaced(client, now)

    def _on_who_is(self, server: str, message: WhoIs, _now: float) -> None:
        for client in message.clients:
            if self._authoriser.document_of(client) is not None:
                self._shown.setdefault(server, set()).discard(client)
                self.show(server, (client,))
                self._retell(server, client)
