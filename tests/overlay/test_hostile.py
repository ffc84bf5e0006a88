"""Bytes of others: what is not a message is refused; what is one cannot crash or fill a peer."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import WireError
from nearcast.overlay import messages
from nearcast.overlay.messages import Codec, HopAck, LinkChange, Route, RouteKind, SetR
from nearcast.overlay.nodes import LinkSeq, Node, NodeOf
from nearcast.overlay.overlay import Rule, Send
from nearcast.overlay.params import SuzakuParams
from nearcast.testing.overlay_ring import OverlayRing

KEY = tuple[str, int]
CODEC = Codec(KEY)
A: Node = NodeOf(("a", 1), "p", 1)
B: Node = NodeOf(("b", 2), "q", 2)


def test_messages_come_back_from_bytes_with_ordered_keys() -> None:
    for message in (
        SetR(A, 5, B, LinkChange.DELETE, B, A, LinkSeq(0, 1), (A, B)),
        Route(A, 1, "p", 2, RouteKind.DELIVER, (("b", 3), "x", 0), {"x": 1}, Rule.LINEAR, 3),
        HopAck[Any](7),
    ):
        decoded = CODEC.decode(CODEC.encode(message))
        assert decoded == message
        assert type(decoded) is type(message)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 20,
        msgspec.msgpack.encode(["SetL"]),
        msgspec.msgpack.encode(["HopAck", -1]),
        msgspec.msgpack.encode(["HopAck", 2**64 - 1]),
        msgspec.msgpack.encode(["Gone", "5"]),
        msgspec.msgpack.encode(["RemoveReverse", [["a", 1], "p", 1], [["a", "1"], "p", 1]]),
        msgspec.msgpack.encode(["RemoveReverse", ["a", "p", 1], ["a", "p", 1]]),
        CODEC.encode(SetR(A, 5, B, LinkChange.DELETE, B, A, LinkSeq(0, 1), (A,) * 1025)),
    ],
)
def test_other_bytes_are_refused_with_one_clear_error(data: bytes) -> None:
    with pytest.raises(WireError, match="not a message of the overlay"):
        CODEC.decode(data)


NODES = st.builds(
    NodeOf, st.integers(0, 60), st.sampled_from(["p10", "p20", "p30", "liar"]), st.integers(0, 3)
)
SEQS = st.builds(LinkSeq, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
LISTS = st.lists(NODES, max_size=16).map(tuple)
NUMBERS = st.integers(0, 5)
PLACES = st.tuples(st.integers(0, 60), st.text(max_size=2), st.integers(-1, 5))


def _hostile(real: list[Node]) -> st.SearchStrategy[Any]:
    to = st.sampled_from(real) | NODES
    node = NODES | st.sampled_from(real)
    filled = st.lists(node, min_size=1, max_size=16).map(tuple)
    m: Any = messages
    return st.one_of(
        st.builds(m.SetR, to, NUMBERS, node, st.sampled_from(LinkChange), node, node, SEQS, LISTS),
        st.builds(m.SetRAck, to, NUMBERS, SEQS, LISTS),
        st.builds(m.SetL, to, node, SEQS, LISTS),
        st.builds(m.Propagate, to, LISTS, node),
        st.builds(m.GetCandidates, to, NUMBERS, node),
        st.builds(m.GetEntry, to, NUMBERS, node, st.booleans(), st.integers(0, 62), LISTS, LISTS),
        st.builds(m.RemoveReverse, to, node),
        st.builds(m.RemoveEntry, to, node, filled, st.booleans()),
        st.builds(m.Gone, NUMBERS),
        st.builds(m.HopAck, NUMBERS),
        st.builds(
            m.Route, to | st.none(), NUMBERS, st.just("liar"), NUMBERS,
            st.sampled_from(RouteKind), PLACES, st.none(), st.sampled_from(Rule),
            st.integers(0, 5), st.booleans(),
        ),
        st.builds(
            m.RangeSend, NUMBERS, st.just("liar"), NUMBERS, st.integers(0, 9),
            st.lists(st.builds(m.Piece, to, PLACES, PLACES), max_size=4).map(tuple), st.none(),
            st.integers(0, 5),
        ),
        st.builds(m.Answer, NUMBERS, node, node, NUMBERS),
        st.builds(m.RangeAnswer, NUMBERS, PLACES, PLACES, node | st.none()),
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_lying_peer_neither_crashes_a_node_nor_keeps_it_from_mending(data: Any) -> None:
    params = SuzakuParams(ping_s=1.0, finger_s=2.0, reply_s=0.2, suspicion_s=3.0)
    ring = OverlayRing(params)
    for key in (10, 20, 30):
        ring.add(key)
        ring.world.run(3.0)
    real = ring.check_settled()
    for message in data.draw(st.lists(_hostile(real), min_size=1, max_size=12)):
        name = data.draw(st.sampled_from(sorted(ring.peers)))
        peer = ring.peers[name]
        ring.world.act(name, peer.on_message("liar", message, ring.world.now))
    ring.world.run(120.0)
    for node in ring.all_nodes():
        assert len(node.fingers.forward) <= 63
        assert len(node.ring.neighbours) <= params.neighbours
    assert ring.check_settled() == real


def test_tables_that_others_can_grow_have_a_limit() -> None:
    params = SuzakuParams(
        ping_s=inf, finger_s=inf, reverse_limit=20, pending_limit=10, buffer_limit=5
    )
    ring = OverlayRing(params)
    ring.fill([10, 20, 30])
    (node,) = ring.peers["p20"].own.by_node.values()
    peer, rng, m = ring.peers["p20"], Random(1), messages
    for number in range(100):
        liar: Node = NodeOf(rng.randrange(1000), "liar", number)
        entry: Any = m.GetEntry(node.me, number, liar, True, number % 63, (liar,))
        peer.on_message("liar", entry, ring.world.now)
        route: Any = Route(
            node.me, number, "liar", number, RouteKind.LOOKUP, (35, "", 0), None, Rule.RING, 0
        )
        out = peer.on_message("liar", route, ring.world.now)
    assert not [action for action in out if isinstance(action, Send)]
    assert len(node.fingers.reverse) <= 20
    assert peer.counters["reverse_pointers_dropped"] > 0
    assert peer.counters["pending_full"] > 0
