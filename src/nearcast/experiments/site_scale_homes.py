"""The other homes of a large site, as one edge server meets them: one after the other, for real.

Each has its own state machine for subscriptions and a channel to the edge; what it would say to
others goes nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from nearcast.server.effects import Effects
from nearcast.server.home_clients import HomeClients, Starts
from nearcast.server.peer_channel import PeerSettings, decode_frame
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.peers import Peers
from nearcast.server.proof_messages import Vouch
from nearcast.server.server import Server
from nearcast.server.server_settings import EdgeSettings
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.subscriptions import Subscriptions
from nearcast.wire.messages import Subscribe

__all__ = ["AT_ONCE", "subscribe_at"]

_MANAGER = "manager"
AT_ONCE = PeerSettings(ack_delay_s=0.0)
"""Settings of channels by which nothing waits: time stands still here."""
_FLUSH = 500
"""Subscriptions between two exchanges of frames."""


class _Unheard:
    """Progress and questions of clients that never hear anything, unlike those of a real home."""

    def begin(self, broker: str, ends: Mapping[str, int]) -> None:
        """Note nothing."""

    def note_start(self, server: str, offset: int) -> None:
        """Note nothing."""

    def begin_anew(self, broker: str, topic: str, now: float, *, was_away: bool = False) -> None:
        """Ask nothing."""

    def on_told(self, broker: str) -> None:
        """Ask nothing."""

    def brokers(self, wanted: str) -> Iterable[tuple[str, str]]:
        """Return nobody."""
        return ()

    def grant(self, client: str, request: int, starts: Starts) -> None:
        """Tell nothing."""

    def tell_starts(self, client: str, starts: Starts) -> int:
        """Tell nothing."""
        return 0

    def ask_later(self, broker: str, client: str, topic: str, *, resumes: bool) -> None:
        """Ask nothing."""

    def ask_now(self, broker: str, topics: Iterable[str], now: float) -> None:
        """Ask nothing."""


def subscribe_at(
    home: str,
    incarnation: int,
    edge: Server,
    said: Iterable[bytes],
    wishes: Iterable[tuple[str, str]],
    credential: Callable[[str], bytes],
    now: float,
) -> int:
    """Let clients at another home subscribe; return how many messages the edge got of it.

    Parameters
    ----------
    said
        Frames that the edge has sent to the home before.
    wishes
        Clients and what they subscribe to.
    credential
        Returns the signed credential of a client.
    """
    name, messages = edge.settings.server, 0
    peers = Peers(home, _MANAGER, PeerChannels(incarnation, AT_ONCE), Effects())
    peers.learn((home, name))
    shown: set[str] = set()

    def show(server: str, clients: Iterable[str]) -> None:
        for client in clients:
            if client not in shown:
                shown.add(client)
                peers.send(server, Vouch((credential(client),)))

    subscriptions = Subscriptions(
        peers,
        HomeClients(),
        SubscriberDirectory(),
        lambda topic: (),
        lambda topic: {},
        _Unheard(),
        _Unheard(),
        lambda client, request, granted: None,
        show,
        EdgeSettings(),
    )

    def exchange() -> int:
        sent = 0
        while frames := peers.poll(now):
            for _, frame in frames:
                decoded = decode_frame(frame)
                sent += len(decoded.messages) if decoded is not None else 0
                for to, answer in edge.on_mesh(home, frame, now).mesh:
                    if to == home:
                        peers.dispatch(name, peers.receive(name, answer, now)[1], now)
        return sent

    for frame in said:
        peers.dispatch(name, peers.receive(name, frame, now)[1], now)
    for count, (client, topic) in enumerate(wishes, 1):
        subscriptions.subscribe(client, Subscribe(count, topic), now)
        if count % _FLUSH == 0:
            messages += exchange()
    return messages + exchange()
