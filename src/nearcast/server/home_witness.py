"""Which server a publisher is at: nobody else speaks for it.

The orders name the home of each client that publishes here. Any other server that speaks for a
client is asked for a proof by the client itself (`wire.home_proof`), which it passes on; nothing is
taken from it before. A proof counts for a while, and until the client is heard elsewhere. After that
it counts while it is renewed at once, so that a client that was quiet need not wait.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from nearcast.errors import WireError
from nearcast.server.authorise import Authoriser
from nearcast.server.effects import Effects
from nearcast.server.peers import Peers
from nearcast.server.proof_messages import HomeProved, ProveHome
from nearcast.server.site_orders import Orders
from nearcast.wire.home_proof import NONCE_BYTES, is_proved

__all__ = ["HomeWitness"]

_PROOF_S = 60.0
"""How long a proof counts; after half of it the next one is asked for."""
_RENEWED_S = 3_600.0
"""How long an older one may be renewed while what its client says is taken already."""
_RENEWAL_S = 1.0
"""How long that may take; then nothing is taken before the next proof."""
_ASK_AGAIN_S = 1.0
_QUESTION_S = 10.0
"""How long a question stays the same one when it is repeated: ways to clients may be long."""
_DENIED_S = 5.0
"""How long a denial counts when the question is asked again."""
_PROOFS_LIMIT = 100_000
_QUESTIONS_LIMIT = 10_000


class _Sessions(Protocol):
    def heard_at(self, client: str) -> float:
        """Return when a client was last heard here."""
        ...

    def is_visitor(self, client: str) -> bool:
        """Tell whether a client is here to publish only."""
        ...


class _Proof(NamedTuple):
    server: str
    at: float


class _Question(NamedTuple):
    nonce: bytes
    since: float
    at: float
    """When it was last sent."""
    is_denied: bool = False
    """The server has answered that the client is not there."""


class HomeWitness:
    """Homes by the orders, and by proofs of clients.

    Parameters
    ----------
    private_key
        This server's: proofs are made for it.
    sessions
        Those of clients here; None when this server has none.
    on_proved
        Is told of a server, a client that is there, and the time.
    """

    def __init__(
        self,
        peers: Peers,
        private_key: bytes,
        authoriser: Authoriser,
        sessions: _Sessions | None,
        effects: Effects,
        on_proved: Callable[[str, str, float], None],
    ) -> None:
        self._peers, self._private_key, self._authoriser = peers, private_key, authoriser
        self._sessions, self._effects, self._on_proved = sessions, effects, on_proved
        self._homes: dict[str, str] = {}
        self._keys: dict[str, bytes] = {}
        self._proofs: OrderedDict[str, _Proof] = OrderedDict()
        """By client: the last one."""
        self._questions: OrderedDict[tuple[str, str], _Question] = OrderedDict()
        """By server and client: those without a proof as yet."""
        tables = effects.tables
        self._proofs_limit = tables.add("home_proofs", _PROOFS_LIMIT, lambda: len(self._proofs))
        self._questions_limit = tables.add(
            "home_questions", _QUESTIONS_LIMIT, lambda: len(self._questions)
        )
        self._asked = 0
        peers.on(HomeProved, self._on_answer)

    def obey(self, orders: Orders) -> None:
        """Take the homes that new orders name."""
        own = self._peers.server
        self._homes = {one.client: one.home for one in orders.clients if one.home != own}
        self._keys = {one.server: one.public_key for one in orders.servers}

    def may_speak(self, server: str, client: str, now: float) -> bool:
        """Tell whether a client is at a server, as far as this one knows; ask if it does not."""
        if self._homes.get(client) == server:
            return True
        proof = self._proofs.get(client)
        if proof is None or proof.server != server or self._is_here_since(client, proof.at):
            self._ask(server, client, now)
            return False
        age_s = now - proof.at
        if 0.0 <= age_s <= _PROOF_S / 2:
            return True
        asked_s = now - self._ask(server, client, now)
        if 0.0 <= age_s < _PROOF_S or (0.0 <= age_s < _RENEWED_S and asked_s < _RENEWAL_S):
            return True
        del self._proofs[client]
        return False

    def expect(self, server: str, client: str, now: float) -> None:
        """Have a client prove where it is before it says anything."""
        if self._authoriser.knows(client):
            self.may_speak(server, client, now)

    def is_denied(self, server: str, client: str) -> bool:
        """Tell whether a server has said just now that a client is not there."""
        question = self._questions.get((server, client))
        return question is not None and question.is_denied

    def is_here(self, client: str) -> bool:
        """Tell whether this server is the home of a client that has a session here."""
        return self._is_here_since(client, float("-inf"))

    def note(self, server: str, client: str) -> None:
        """Note that a server brought something of a client: one at its home is nowhere else."""
        if client in self._proofs and self._homes.get(client) == server:
            del self._proofs[client]

    def _is_here_since(self, client: str, at: float) -> bool:
        sessions = self._sessions
        return (
            sessions is not None
            and sessions.heard_at(client) > at
            and not sessions.is_visitor(client)
        )

    def _ask(self, server: str, client: str, now: float) -> float:
        """Ask for a proof, unless that was done just now; return since when it is asked for."""
        key = (server, client)
        before = self._questions.get(key)
        if before is not None and 0.0 <= now - before.at < _ASK_AGAIN_S:
            return before.since
        if before is not None and 0.0 <= now - before.since < _QUESTION_S:
            question = before._replace(at=now)
        else:
            self._asked += 1
            number = b"%d %d" % (self._peers.incarnation, self._asked)
            digest = hashlib.blake2b(number, key=self._private_key, digest_size=NONCE_BYTES)
            question = _Question(digest.digest(), now, now)
        is_denied = before is not None and before.is_denied and now - before.at < _DENIED_S
        self._questions[key] = question._replace(is_denied=is_denied)
        self._questions.move_to_end(key)
        if len(self._questions) > self._questions_limit:
            self._questions.popitem(last=False)
        self._effects.counts["home_proofs_asked"] += 1
        self._peers.send(server, ProveHome(client, question.nonce))
        return question.since

    def _on_answer(self, server: str, answer: HomeProved, now: float) -> None:
        key = (server, answer.client)
        question = self._questions.get(key)
        if question is None or question.nonce != answer.nonce:
            return  # too late, or not asked for
        if not answer.tag:
            self._questions[key] = question._replace(is_denied=True)
            if answer.client in self._proofs and self._proofs[answer.client].server == server:
                del self._proofs[answer.client]
            return
        client_key = self._authoriser.key_of(answer.client)
        home_key = self._keys.get(server, b"")
        if client_key is None or not is_proved(
            self._private_key, client_key, home_key, answer.nonce, answer.tag
        ):
            raise WireError(f"{answer.client!r} does not prove that it is there")
        del self._questions[key]
        self._proofs[answer.client] = _Proof(server, question.since)
        self._proofs.move_to_end(answer.client)
        if len(self._proofs) > self._proofs_limit:
            self._proofs.popitem(last=False)
        self._on_proved(server, answer.client, now)
