"""Which other servers are there: a client is sent to a home that has just answered only."""

from __future__ import annotations

from collections.abc import Callable

from nearcast.server.mesh_messages import Presence as Question
from nearcast.server.peers import Peers

__all__ = ["Presence"]

_ASK_AFTER_S = 1.0
_AWAY_AFTER_S = 4.0
_ASK_AGAIN_S = 5.0
"""When a question that the channel has given up is asked again."""


class Presence:
    """Asks servers whether they are there, when somebody wants to know.

    Parameters
    ----------
    on_answer
        Called with a server that is there, whenever it says so.
    """

    def __init__(self, peers: Peers, on_answer: Callable[[str, float], None]) -> None:
        self._peers, self._on_answer = peers, on_answer
        self._asked_at: dict[str, float] = {}
        """Of questions without an answer: the channel brings them when the server is back."""
        self._heard_at: dict[str, float] = {}
        peers.on(Question, self._on_message)

    def is_there(self, server: str, now: float) -> bool:
        """Tell whether a server answered lately; asks it if that was a while ago."""
        silence_s = now - self._heard_at.get(server, float("-inf"))
        if silence_s >= _ASK_AFTER_S:
            self._ask(server, now)
        return silence_s < _AWAY_AFTER_S

    def _ask(self, server: str, now: float) -> None:
        asked_at = self._asked_at.get(server)
        is_lost = asked_at is not None and (
            now - asked_at >= _ASK_AGAIN_S and not self._peers.unacknowledged(server)
        )
        if asked_at is None or is_lost:
            self._asked_at[server] = now
            self._peers.send(server, Question())

    def _on_message(self, server: str, message: Question, now: float) -> None:
        if not message.answer:
            self._peers.send(server, Question(answer=True))
        elif self._asked_at.pop(server, None) is not None:
            self._heard_at[server] = now
            self._on_answer(server, now)
