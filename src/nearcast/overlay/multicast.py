"""One payload to all nodes in a range: pieces go out over the tables, answers to the origin."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from nearcast.overlay.context import Context, Timer
from nearcast.overlay.messages import HopAck, Piece, RangeAnswer, RangeSend
from nearcast.overlay.nodes import Node, Place, before_key
from nearcast.overlay.overlay import Delivered, RangeEnded, Send
from nearcast.overlay.own_nodes import OwnNodes
from nearcast.overlay.ring import Status
from nearcast.overlay.seen import Seen

__all__ = ["Multicasts", "uncovered"]

_TRIES = 3
_MOST_PIECES = 1024


@dataclass(slots=True)
class _Query:
    low: Any
    payload: Any
    gaps: list[tuple[Place, Place]]
    tries: int = 0
    nodes: set[Node] = field(default_factory=set)


def uncovered(
    gaps: list[tuple[Place, Place]], low: Place, high: Place
) -> list[tuple[Place, Place]]:
    """Return what is left of gaps when [low, high) is covered."""
    rest: list[tuple[Place, Place]] = []
    for start, end in gaps:
        if high <= start or end <= low:
            rest.append((start, end))
            continue
        if start < low:
            rest.append((start, low))
        if high < end:
            rest.append((high, end))
    return rest


class Multicasts:
    """Ranges that this peer asked for, and its part in those of others."""

    __slots__ = ("_context", "_own", "_pending", "_queries", "_seen")

    def __init__(self, context: Context, own: OwnNodes, seen: Seen) -> None:
        self._context, self._own, self._seen = context, own, seen
        self._queries: dict[int, _Query] = {}
        self._pending: dict[int, tuple[str, Timer]] = {}

    # --- the origin ---

    def start(self, low: Any, high: Any, payload: Any) -> int:
        """Begin a range; RangeEnded follows."""
        number = self._context.number()
        gaps = [(before_key(low), before_key(high))]
        self._queries[number] = _Query(low, payload, gaps)
        self._ask(number)
        return number

    def _ask(self, number: int) -> None:
        query = self._queries.get(number)
        if query is None:
            return
        query.tries += 1
        if query.tries > _TRIES:
            self._end(number, query)
            return
        self._context.after(self._context.params.range_retry_s, self._ask, number)
        pieces = [Piece(None, low, high) for low, high in query.gaps[:_MOST_PIECES]]
        self.spread(
            RangeSend(0, self._context.peer, number, query.low, tuple(pieces), query.payload, 0)
        )

    def on_answer(self, answer: RangeAnswer[Any]) -> None:
        """Take a part that was covered."""
        query = self._queries.get(answer.number)
        if query is None:
            return
        if not answer.low < answer.high or (
            answer.node is not None and not answer.low <= answer.node < answer.high
        ):
            self._context.counters["unsound_messages"] += 1
            return
        if len(query.nodes) + len(query.gaps) >= self._context.params.range_limit:
            self._context.counters["range_full"] += 1
            self._end(answer.number, query)
            return
        if answer.node is not None:
            query.nodes.add(answer.node)
        query.gaps = uncovered(query.gaps, answer.low, answer.high)
        if not query.gaps:
            self._end(answer.number, query)

    def _end(self, number: int, query: _Query) -> None:
        del self._queries[number]
        self._context.out.append(RangeEnded(number, tuple(sorted(query.nodes)), not query.gaps))

    # --- every peer on the way ---

    def on_range(self, sender: str, message: RangeSend[Any]) -> None:
        """Take pieces of another peer."""
        if len(self._pending) >= self._context.params.pending_limit:
            self._context.counters["pending_full"] += 1
            return
        self._context.out.append(Send(sender, HopAck(message.hop)))
        self.spread(message)

    def on_hop_ack(self, sender: str, hop: int) -> None:
        """End the wait for an acknowledgement."""
        pending = self._pending.get(hop)
        if pending is not None and pending[0] == sender:
            del self._pending[hop]
            pending[1][2] = None

    def spread(self, message: RangeSend[Any], tries: int = 0) -> None:
        """Cover what own nodes are responsible for; send the rest on, one message per peer."""
        if message.hops >= self._context.params.hop_limit or tries > _TRIES:
            self._context.counters["pieces_given_up"] += 1
            return
        todo = deque(message.pieces)
        away: dict[str, list[Piece[Any]]] = defaultdict(list)
        while todo:
            piece = todo.popleft()
            if not piece.low < piece.high:
                self._context.counters["unsound_messages"] += 1
                continue
            addressed = None if piece.to is None else self._own.by_node.get(piece.to)
            node = self._own.responsible(piece.low)
            if addressed is not None and addressed.ring.status is Status.INS:
                node = addressed
            if node is None:
                self._split(message, piece, todo, away)
            elif node.ring.status is not Status.IN:
                node.hold(_with_pieces(message, (piece,)))
            else:
                right = node.ring.right
                end = right if piece.low < right < piece.high else piece.high
                self._cover(message, node.me, piece.low, end)
                if end != piece.high:
                    todo.append(Piece(right, end, piece.high))
        for peer, pieces in away.items():
            for first in range(0, len(pieces), _MOST_PIECES):
                self._send(peer, message, pieces[first : first + _MOST_PIECES], tries)

    def _split(
        self,
        message: RangeSend[Any],
        piece: Piece[Any],
        todo: deque[Piece[Any]],
        away: dict[str, list[Piece[Any]]],
    ) -> None:
        """Cut a piece at the known nodes inside it."""
        low, high = piece.low, piece.high
        inside = sorted(
            node
            for node in set(self._own.usable())
            if low < node < high and not self._context.is_suspected(node)
        )
        first: Node | None = self._own.next_to(low)
        if first is None and piece.to is not None:
            first = self._own.tombstones.get(piece.to)
        ends: Iterable[Place] = (*inside, high)
        starts: list[tuple[Node | None, Place]] = [(first, low), *((x, x) for x in inside)]
        for (to, start), end in zip(starts, ends, strict=True):
            part: Piece[Any] = Piece(to, start, end)
            if to is None or (to.peer == self._context.peer and to not in self._own.by_node):
                self._context.counters["pieces_given_up"] += 1
            elif to.peer == self._context.peer:
                todo.append(part)
            else:
                away[to.peer].append(part)

    def _cover(self, message: RangeSend[Any], node: Node, low: Place, high: Place) -> None:
        is_inside = node == low
        if is_inside and self._seen.is_new((message.origin, message.number, node)):
            self._context.out.append(
                Delivered(node, message.low, message.payload, message.origin, message.hops)
            )
        answer: RangeAnswer[Any] = RangeAnswer(
            message.number, low, high, node if is_inside else None
        )
        if message.origin == self._context.peer:
            self._context.local.append(answer)
        else:
            self._context.out.append(Send(message.origin, answer))

    def _send(
        self, peer: str, message: RangeSend[Any], pieces: list[Piece[Any]], tries: int
    ) -> None:
        context = self._context
        hop = context.number()
        sent: RangeSend[Any] = RangeSend(
            hop, message.origin, message.number, message.low, tuple(pieces), message.payload,
            message.hops + 1,
        )  # fmt: skip
        again = _with_pieces(message, tuple(pieces))
        timer = context.after(context.params.reply_s, self._expire, hop, again, tries)
        self._pending[hop] = (peer, timer)
        context.out.append(Send(peer, sent))

    def _expire(self, hop: int, message: RangeSend[Any], tries: int) -> None:
        del self._pending[hop]
        for piece in message.pieces:
            if piece.to is not None:
                self._context.suspect(piece.to)
        self.spread(message, tries + 1)


def _with_pieces(message: RangeSend[Any], pieces: tuple[Piece[Any], ...]) -> RangeSend[Any]:
    return RangeSend(
        message.hop, message.origin, message.number, message.low, pieces, message.payload,
        message.hops,
    )  # fmt: skip
