"""The servers of a site form one ring, over restarts, crashes and cuts, without anybody first."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from nearcast.overlay.messages import Codec, GetEntry, Route, RouteKind, SetL
from nearcast.overlay.nodes import LinkSeq, Node, NodeOf
from nearcast.overlay.overlay import Found, Rule
from nearcast.routing.index_mapping import hashed_index
from nearcast.routing.keys import CLOUD, INDEX_END, Key, subscriber_key, target_of
from nearcast.server.mesh_messages import encode_mesh
from nearcast.server.overlay_part import SERVERS, OverlayPart
from nearcast.server.peer_channel import PeerFrame, encode_frame
from nearcast.server.ring_messages import OverlayFrame
from nearcast.server.site_orders import Orders
from nearcast.testing.simulated_network import Network
from nearcast.testing.simulated_site import SimulatedSite


def _site(servers: int, seed: int = 1, delay_s: float = 0.007) -> SimulatedSite:
    network = Network(delay_s=lambda _a, _b: delay_s, jitter_s=delay_s / 4)
    site = SimulatedSite(seed, network)
    for number in range(servers - 1):
        site.add_server(f"e{number}")
    site.add_server("cloud", is_edge=False)
    _obey(site)
    return site


def _obey(site: SimulatedSite, revision: int = 1, without: str = "") -> None:
    servers = tuple(one for one in site.server_orders() if one.server != without)
    site.obey(Orders(revision, 1, "cloud", servers, (), ()))


def _part(site: SimulatedSite, name: str) -> OverlayPart:
    node = site.servers[name].node
    assert node is not None
    return node.ring.overlay


def _rights(site: SimulatedSite) -> dict[str, str]:
    """Return by server, in the order of their keys, the one after it."""
    found = {}
    for name in sorted(site.servers, key=lambda one: hashed_index(one.encode())):
        if site.servers[name].node is not None:
            status = _part(site, name).status()
            assert status is not None
            found[name] = status.right
    return found


def _ring_of(names: list[str]) -> dict[str, str]:
    names = sorted(names, key=lambda one: hashed_index(one.encode()))
    return dict(zip(names, [*names[1:], names[0]], strict=True))


def _owner(site: SimulatedSite, asker: str, index: int) -> str | None:
    answers: list[Found | None] = []
    target = target_of(SERVERS, CLOUD, index)
    _part(site, asker).lookup(target, lambda found, _now: answers.append(found), site.now)
    site.servers[asker].do(_flushed(site, asker))
    site.run(20.0)
    (found,) = answers
    return found.node.peer if found is not None else None


def _flushed(site: SimulatedSite, name: str):  # type: ignore[no-untyped-def]
    server = site.servers[name]
    assert server.node is not None
    return server.node.on_timer(server.clock.read())


@pytest.mark.parametrize("servers", [2, 3, 12])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_servers_that_start_at_once_are_one_ring_soon(servers: int, seed: int) -> None:
    site = _site(servers, seed)
    site.run(40.0)
    assert _rights(site) == _ring_of(list(site.servers))


def test_a_lookup_finds_the_server_responsible() -> None:
    site = _site(8)
    site.run(30.0)
    places = sorted((hashed_index(name.encode()), name) for name in site.servers)
    for index in (0, 1 << 60, 1 << 61, INDEX_END - 1):
        before = [name for place, name in places if place <= index] or [places[-1][1]]
        assert _owner(site, "e0", index) == before[-1]


def test_a_restarted_server_is_on_the_ring_again() -> None:
    site = _site(6)
    site.run(30.0)
    for name in ("e1", "cloud"):
        site.servers[name].kill()
        assert site.servers[name].restart()
        site.run(8.0)
        assert _rights(site) == _ring_of(list(site.servers))


def test_the_ring_goes_on_without_servers_that_died() -> None:
    site = _site(8)
    site.run(30.0)
    for name in ("e2", "cloud"):
        site.servers[name].kill()
    site.run(40.0)
    alive = [name for name in site.servers if name not in ("e2", "cloud")]
    assert _rights(site) == _ring_of(alive)
    assert _owner(site, "e0", hashed_index(b"e2")) != "e2"


def test_a_server_that_orders_no_longer_name_is_off_the_ring() -> None:
    site = _site(5)
    site.run(30.0)
    _obey(site, 2, without="e3")
    site.servers.pop("e3")
    site.run(20.0)
    assert _rights(site) == _ring_of(list(site.servers))


def test_halves_that_were_cut_for_long_become_one_ring_again() -> None:
    site = _site(8)
    site.run(30.0)
    halves = ({"e0", "e1", "e2", "e3"}, {"e4", "e5", "e6", "cloud"})
    for one in halves[0]:
        for other in halves[1]:
            site.network.cuts.add(frozenset((one, other)))
    site.run(120.0)
    for half in halves:
        expected = _ring_of(list(half))
        assert {name: right for name, right in _rights(site).items() if name in half} == expected
    site.network.heal()
    site.run(60.0)
    assert _rights(site) == _ring_of(list(site.servers))


def _say(site: SimulatedSite, liar: str, message: object, number: int) -> None:
    data = Codec(Key).encode(message) if not isinstance(message, bytes) else message  # type: ignore[arg-type]
    frame = PeerFrame(99, False, 1, number, [encode_mesh(OverlayFrame(data))], 0, 0)
    site.servers["e0"].on_mesh(liar, encode_frame(frame))


def test_what_a_lying_server_names_makes_no_channels_and_no_errors() -> None:
    site = _site(3)
    site.run(20.0)
    node = site.servers["e0"].node
    assert node is not None
    me = next(iter(_part(site, "e0")._overlay.nodes))
    stranger: Node = NodeOf(subscriber_key("t", CLOUD, 5, 6), "nobody", 7)
    liar: Node = NodeOf(subscriber_key("t", CLOUD, 5, 6), "e1", 7)
    known = set(node._peers._channels.servers)
    lies: list[object] = [
        SetL(me, stranger, LinkSeq(40, 1), (stranger,)),
        GetEntry(me, 5, liar, True, 0, (stranger, stranger), (stranger,)),
        Route(None, 1, "nobody", 3, RouteKind.LOOKUP, (me.key, "", 0), None, Rule.RING, 1),
        b"\xc1",
        b"\x91" * 50_000,
    ]
    for number, lie in enumerate(lies, 1):
        _say(site, "e1", lie, number)
    site.run(40.0)
    assert set(node._peers._channels.servers) == known
    assert _part(site, "e0").losses()["not_sent"] > 0
    assert node.counts["mesh_refused"] == 2
    assert _rights(site) == _ring_of(list(site.servers))


def test_a_frame_that_is_too_large_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(
            encode_mesh(OverlayFrame(b"x" * ((64 << 10) + 1))), type=OverlayFrame
        )


def test_keys_and_lookups_are_limited() -> None:
    site = _site(2)
    part = _part(site, "e0")
    rng = Random(1)
    keys = [subscriber_key("t", CLOUD, rng.randrange(0, 99), number) for number in range(10_001)]
    part._wanted.update(dict.fromkeys(keys[:-1]))
    assert not part.add_key(keys[-1], site.now)
    part._lookups.update({-number: lambda _found, _now: None for number in range(1, 4_097)})
    answers: list[Found | None] = []
    part.lookup(keys[0], lambda found, _now: answers.append(found), site.now)
    assert answers == [None]
