"""Hand-over of clients between homes: redirections, and what is meant for a client on its way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearcast.errors import WireError
from nearcast.server.effects import Effects
from nearcast.server.handover_buffer import KEPT_LIMIT, HandoverBuffer
from nearcast.server.mesh_messages import Undelivered
from nearcast.server.peers import Peers
from nearcast.server.presence import Presence
from nearcast.server.roaming import Roaming
from nearcast.server.site_orders import Orders
from nearcast.server.subscriptions import Subscriptions
from nearcast.trust.rights import Action
from nearcast.wire.actions import Home
from nearcast.wire.codec import Refused, decode
from nearcast.wire.messages import Init, Notify, Report
from nearcast.wire.server_sessions import ServerSessions

__all__ = ["Handover"]


class Handover:
    """Sends clients to their homes, and notifications after them."""

    def __init__(
        self,
        peers: Peers,
        sessions: ServerSessions,
        subscriptions: Subscriptions,
        effects: Effects,
        authorise: Callable[[str, Action, str], str | None],
        grace_s: float,
        roaming: Roaming,
    ) -> None:
        self._roaming = roaming
        self._authorise = authorise
        self._peers, self._sessions, self._effects = peers, sessions, effects
        self._subscriptions = subscriptions
        limit = effects.tables.add("handover_notifications", KEPT_LIMIT, lambda: self.kept)
        self._buffer = HandoverBuffer(grace_s, limit)
        self._revision = 0
        self._homes: dict[str, str] = {}
        """By client, as the orders say."""
        self._addresses: dict[str, Home] = {}
        self._leaving: dict[str, bool] = {}
        """Clients here that belong elsewhere: whether they were told to go, or wait for their
        home to be there."""
        self._presence = Presence(peers, self._on_present)
        roaming.on_expected = self._buffer.stay
        peers.on(Undelivered, self._on_undelivered)

    def obey(self, orders: Orders, now: float) -> None:
        """Take the homes of clients from new orders, and send clients to them."""
        self._revision = orders.revision
        self._roaming.obey(orders)
        self._homes = {**orders.moved, **{one.client: one.home for one in orders.clients}}
        self._addresses = {
            one.server: Home((one.host, one.port), one.public_key, one.credential)
            for one in orders.servers
            if one.host
        }
        for client in self._sessions.clients:
            self._send_home(client, now)

    def learn(self, client: str, home: str, now: float) -> None:
        """Take the home of a guest, and send it there."""
        self._homes[client] = home
        self._send_home(client, now)

    def moved(self, client: str, said: Report | Init, now: float) -> None:
        """Look whether a client that reports its place has another home there."""
        if self._roaming.moved(client, said, now):
            self._send_home(client, now)

    def _home(self, client: str) -> str | None:
        """Return a client's home: by where it is, or else by the orders."""
        return self._roaming.home_of(client) or self._homes.get(client)

    def knows(self, client: str) -> bool:
        """Tell whether the orders name a client."""
        return client in self._homes

    def is_home_of(self, client: str) -> bool:
        """Tell whether this server is a client's home, as far as anybody said."""
        return (self._home(client) or self._peers.server) == self._peers.server

    def arrived(self, client: str, now: float) -> None:
        """Give a client what was kept for it, and send it on if this is not its home."""
        self._buffer.stay(client)
        self._tell_kept(client)
        self._send_home(client, now)

    def visited(self, client: str, topics: Sequence[str], now: float) -> None:
        """Take a client that only publishes here: what was kept for it, it hears here all the same.

        If this was its home until now, brokers hear a while later that it has left.
        """
        if topics:
            self._buffer.leave(client, topics, now)
        self._tell_kept(client)

    def _tell_kept(self, client: str) -> None:
        """Tell a client what was kept for its program; what an earlier one lacks it did not ask for."""
        kept, sessions = self._buffer.take_kept(client), self._sessions
        began_s = sessions.epoch_of(client) / 1e6
        frames = [
            one.frame
            for one in kept
            # by the clocks of two servers: a wrong one costs what the client asks for itself
            if sessions.is_meant(client, one.epoch) and (one.epoch or one.since > began_s)
        ]
        self._effects.counts["notifications_undelivered"] += len(kept) - len(frames)
        self._notify(client, frames)

    def left(
        self,
        client: str,
        topics: Sequence[str],
        undelivered: Sequence[bytes],
        now: float,
        epoch: int,
    ) -> None:
        """Note that a client left for another home; brokers hear of it a while later."""
        self._buffer.leave(client, topics, now)
        self.pass_on(client, undelivered, now, epoch=epoch)

    def pass_on(
        self,
        client: str,
        frames: Sequence[bytes],
        now: float,
        came_from: str = "",
        epoch: int = 0,
    ) -> None:
        """Send what a client may not have to its home, or keep it until the client is here.

        Nothing goes back to where it came from: the client is on its way between the two.
        """
        home = self._home(client) if frames else None
        if home is not None and home not in (self._peers.server, came_from):
            self._peers.send(home, Undelivered(client, tuple(frames), self._revision, epoch))
        elif home is None or not self._keep(client, frames, now, came_from, epoch):
            self._effects.counts["notifications_undelivered"] += len(frames)

    def _keep(
        self, client: str, frames: Sequence[bytes], now: float, came_from: str, epoch: int
    ) -> bool:
        # what brokers send here while it is expected only, its present home gets too
        is_spare = not came_from and self._roaming.is_expected(client)
        return self._buffer.keep(client, frames, now, epoch, is_spare=is_spare) or is_spare

    @property
    def kept(self) -> int:
        """Notifications that wait for clients on their way here."""
        return self._buffer.frames

    def on_timer(self, now: float) -> None:
        """Look after clients that belong elsewhere, and give up what nobody came for."""
        for client in list(self._leaving):
            if client not in self._sessions:
                del self._leaving[client]
            else:
                self._send_home(client, now)
        self._roaming.expire(now)
        gone, given_up = self._buffer.expire(now)
        self._effects.counts["notifications_undelivered"] += given_up
        for client, topics in gone:
            self._subscriptions.end(client, topics)

    def _send_home(self, client: str, now: float) -> None:
        """Send a client to its home if that is elsewhere and there; until then it is served here."""
        if self._sessions.is_visitor(client):
            return
        home = self._home(client)
        address = self._addresses.get(home or "")
        was_told = self._leaving.get(client, False)
        if home is None or home == self._peers.server or address is None:
            self._leaving.pop(client, None)
            is_told = False
        else:
            is_told = self._leaving[client] = self._presence.is_there(home, now)
        if is_told:
            self._effects.counts["redirects"] += not was_told
            waiting = self._sessions.redirect(client, address)
            if waiting and not was_told:  # it is there before the client is
                self.pass_on(client, waiting, now, epoch=self._sessions.epoch_of(client))
        elif was_told:
            self._sessions.redirect(client, None)

    def _on_present(self, server: str, now: float) -> None:
        for client in list(self._leaving):
            if self._home(client) == server and client in self._sessions:
                self._send_home(client, now)

    def _notify(self, client: str, frames: Sequence[bytes]) -> bool:
        """Tell a client what came by another home, as far as it may hear it; False: it is away."""
        if client not in self._sessions:
            return False
        allowed = [
            frame
            for frame in frames
            if all(
                isinstance(one, Notify) and self._authorise(client, "subscribe", one.topic) is None
                for one, _ in decode(frame)
            )
        ]
        self._effects.counts["mesh_not_allowed"] += len(frames) - len(allowed)
        return self._sessions.notify(client, allowed)

    def _on_undelivered(self, server: str, message: Undelivered, now: float) -> None:
        """Bring what another home of the client could not, pass it on, or keep it."""
        client, frames = message.client, message.frames
        try:
            contents = [one for frame in frames for one, _ in decode(frame)]
        except Refused as refusal:
            raise WireError(f"Undelivered: {refusal}") from None
        if len(contents) != len(frames) or not all(isinstance(one, Notify) for one in contents):
            raise WireError("Undelivered holds something that is not a notification")
        if self._sessions.is_meant(client, message.epoch) and self._notify(client, frames):
            return
        if message.revision > self._revision:
            # the sender has newer orders: passing on by older ones would send it in circles
            if not self._buffer.keep(client, frames, now, message.epoch):
                self._effects.counts["notifications_undelivered"] += len(frames)
        else:
            self.pass_on(client, frames, now, server, message.epoch)
