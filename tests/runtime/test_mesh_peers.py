"""What operators are told about links, and what links are told about servers."""

from __future__ import annotations

from nearcast.links.mesh import LinkState, PeerAddress
from nearcast.runtime.mesh_peers import isolation, links_down, server_peers
from nearcast.server.site_orders import ServerOrder

UP = LinkState("e2", "connected", 1.0)
IDLE = LinkState("e3", "idle", 1.0)
AWAY = LinkState("cloud", "waiting", 1.0, last_error="Connection refused")
CLOSED = LinkState("manager", "refused", 1.0, last_error="refused in the handshake")


def test_one_server_that_is_away_is_a_warning_and_all_of_them_a_problem() -> None:
    assert links_down([UP, AWAY]) == ["no link to server 'cloud': Connection refused"]
    assert isolation([UP, AWAY, CLOSED]) == []
    assert isolation([IDLE]) == isolation([]) == []
    assert len(isolation([AWAY, CLOSED, IDLE])) == 2


def test_peers_are_those_that_orders_name() -> None:
    orders = [
        ServerOrder(name, "", 0, name.encode() * 16, "10.0.0.1", 7101) for name in ("e1", "e2")
    ]
    assert server_peers(orders, "e1") == [PeerAddress("e2", "10.0.0.1", 7101, b"e2" * 16)]
