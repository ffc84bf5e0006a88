"""A server of a site, assembled from its parts: the place to begin reading.

Every event method takes what happened and the time, lets the parts work, and returns `Outputs`.
The cloud server is the same assembly without clients::

    datagrams -> ClientGateway -> Router -> BrokerPart -> Delivery -> datagrams
                                    |           |            |
                                    +-------- Peers ---------+        (other servers)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nearcast.broker.requests import ProcessResult
from nearcast.broker.topic_processing import ProcessorWatch
from nearcast.server.allowance import Allowances
from nearcast.server.authorise import Authoriser
from nearcast.server.broker_part import BrokerPart
from nearcast.server.client_gateway import ClientGateway
from nearcast.server.delivery import Delivery
from nearcast.server.effects import Effects
from nearcast.server.guests import Guests
from nearcast.server.handover import Handover
from nearcast.server.home_clients import HomeClients
from nearcast.server.home_witness import HomeWitness
from nearcast.server.introductions import Introductions
from nearcast.server.load_reports import LoadReports
from nearcast.server.mesh_messages import LoadReport, NewOrders
from nearcast.server.outputs import Outputs
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.peers import Peers
from nearcast.server.remote_subscribers import RemoteSubscribers
from nearcast.server.replays import Replays
from nearcast.server.resumption import Resumption
from nearcast.server.router import Router
from nearcast.server.server_settings import EdgeSettings, ServerSettings
from nearcast.server.shown_orders import ShownOrders
from nearcast.server.signed_orders import read_orders
from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.server.stream_targets import StreamTargets
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.subscriptions import Subscriptions
from nearcast.server.vouching import Vouching
from nearcast.server.way_teller import WayTeller
from nearcast.spool.changes import LiveTopic
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.server_sessions import ServerSessions
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["ClientAccess", "Server"]

_CHECK_S = 5.0
"""How often credentials are checked for their end."""


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """What a server needs to have clients."""

    static_key: bytes
    """Its X25519 private key."""
    random_bytes: RandomBytes
    """Source of keys and session indices."""
    wire: WireSettings | None = None
    edge: EdgeSettings | None = None


class Server:
    """An edge server, or without `access` the cloud server.

    Parameters
    ----------
    channels
        To the other servers.
    clock
        The time now, as the `now` of events: to measure what processing takes.
    trust
        Decides which credentials and orders count.
    recovered
        What the spool's log found, by topic.
    access
        For clients; None: this server has none.
    watch
        Is told when a processor runs in this process.
    damages
        Places where the log has lost something: other brokers are asked for it.
    """

    def __init__(
        self,
        settings: ServerSettings,
        channels: PeerChannels,
        clock: Callable[[], float],
        trust: SiteTrust,
        recovered: Mapping[str, LiveTopic] | None = None,
        access: ClientAccess | None = None,
        watch: ProcessorWatch | None = None,
        damages: int = 0,
    ) -> None:
        self.settings, self._trust = settings, trust
        self.orders: Orders | None = None
        self.loop_lag_s = 0.0
        """The longest recent pause of the shell's loop; the shell sets it."""
        self.commit_wait_s = 0.0
        """How long the oldest group waits to be written; the shell sets it."""
        effects = self._effects = Effects()
        self.counts, self.refused_publications = effects.counts, effects.refused_publications
        peers = self._peers = Peers(settings.server, settings.manager, channels, effects)
        directory = self.subscribers = SubscriberDirectory()
        authoriser = self._authoriser = Authoriser(trust, settings.vouched_limit)
        part = self._broker_part = BrokerPart(
            settings, peers, directory, effects, authoriser, clock, recovered or {}, damages, watch
        )
        self.broker, self.topics = part.broker, part.topics
        self._introductions = Introductions(
            peers,
            part.topics,
            directory,
            part.start,
            settings.inform_s,
            lambda topics, now: self._router.on_informed(topics, now),
        )
        sessions = self.sessions = (
            ServerSessions(access.static_key, authoriser.check, access.random_bytes, access.wire)
            if access is not None
            else None
        )
        self._vouching = Vouching(peers, authoriser, effects, self._retell, self._on_replaced)
        is_visitor = sessions.is_visitor if sessions is not None else lambda client: False
        self.targets = StreamTargets(
            settings.server, settings.capacity, settings.default_spool, is_visitor
        )
        witness = HomeWitness(settings.server, sessions, settings.takeover_s)
        self._shown = ShownOrders(peers, trust)
        router = self._router = Router(
            peers,
            part.broker,
            self.targets,
            effects,
            sessions,
            part.ensure_managed,
            part.ensure_kept,
            self._is_ready,
            self._introductions.knows_subscribers,
            self._vouching,
            witness,
            settings.retry_after_s,
            settings.takeover_s,
        )
        remote = self._remote = RemoteSubscribers(
            peers,
            directory,
            authoriser,
            self._vouching,
            part.topics.concerns,
            part.topics.ends,
            lambda: self._replays.try_again(),
        )
        self._replays = Replays(peers, part.broker, effects, remote)
        self._check_at = float("-inf")
        self._reports = LoadReports(peers, self._load, settings.report_interval_s)
        self.clients: ClientGateway | None = None
        """The part for clients; None for the cloud server."""
        if access is not None and sessions is not None:
            edge, homes = access.edge or EdgeSettings(), HomeClients()
            resumption = Resumption(
                peers, homes, sessions, self._replays, effects, self._vouching.show
            )
            subscriptions = Subscriptions(
                peers,
                homes,
                directory,
                self.brokers_of,
                part.topics.ends,
                resumption,
                sessions.confirm,
                self._vouching.show,
                edge,
            )
            self._introductions.home = subscriptions
            handover = Handover(
                peers, sessions, subscriptions, effects, authoriser.authorise, edge.grace_s
            )
            wire = access.wire or WireSettings()
            self.clients = ClientGateway(
                settings.server,
                sessions,
                homes,
                router,
                subscriptions,
                resumption,
                handover,
                Guests(peers, self._on_guest),
                WayTeller(settings.server, sessions, wire.report_interval_s),
                effects,
                authoriser,
                self._vouching,
                Allowances(authoriser, part.topics, wire),
                self._is_ready,
                settings.retry_after_s,
                wire.subscription_limit,
                edge,
            )
        pass_on = self.clients.handover.pass_on if self.clients else self._count_undelivered
        note = self.clients.resumption.note if self.clients else lambda broker, reached: None
        hearers = self.clients.hearers if self.clients else lambda topic, clients, now: clients
        self._delivery = Delivery(
            peers, directory, effects, clock, sessions, pass_on, hearers, note
        )
        on_expired = self.clients.forget_topic if self.clients else lambda topic: None
        ask = self._introductions.ask
        part.connect(self._delivery, router, self._vouching, self._shown, witness, ask, on_expired)
        peers.on(NewOrders, self._on_orders)

    # Events

    def on_datagrams(
        self, batch: Sequence[tuple[bytes, Address]], now: float, queue_age_s: float = 0.0
    ) -> Outputs:
        """Take datagrams; `queue_age_s` is how long the first of them waited in the kernel."""
        assert self.clients is not None
        self.clients.on_datagrams(batch, now, queue_age_s)
        return self._finish(now)

    def on_strangers(
        self, batch: Sequence[tuple[bytes, Address]], now: float, is_flooded: bool = False
    ) -> Outputs:
        """Take datagrams of senders without a session; a flood: more come than are handed in."""
        assert self.clients is not None
        self.clients.on_strangers(batch, now, is_flooded)
        return self._finish(now)

    def on_mesh(self, from_server: str, frame: bytes, now: float) -> Outputs:
        """Take a frame of another server."""
        restarted, messages = self._peers.receive(from_server, frame, now)
        for server in dict.fromkeys((*restarted, *self._peers.take_skipped())):
            if self.clients is not None:
                self.clients.resumption.on_interrupted(server, now)
        for server in restarted:
            self._vouching.forget_server(server)
            self._introductions.on_restarted(server)
        for server in self._peers.take_gaps():
            self._introductions.on_gap(server)
        self._broker_part.is_stalled = self.commit_wait_s > self.settings.copy_age_s
        self._peers.dispatch(from_server, messages, now)
        return self._finish(now)

    def on_committed(self, tickets: Iterable[int], now: float) -> Outputs:
        """Go on with what has waited for these groups to be durable."""
        self._broker_part.do(self.broker.on_committed(tickets))
        self._replays.try_again()
        return self._finish(now)

    def on_processed(self, results: Iterable[ProcessResult], now: float) -> Outputs:
        """Take what processors outside made of batches."""
        for result in results:
            self._broker_part.do(self.broker.on_processed(result, now))
        return self._finish(now)

    def on_timer(self, now: float) -> Outputs:
        """Do what has become due."""
        if self.clients is not None:
            self.clients.on_timer(now)
        self._broker_part.on_timer(now)
        self._router.on_timer(now)
        self._reports.on_timer(now)
        if now >= self._check_at:
            self._check_credentials(now)
        return self._finish(now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        own = min(
            self._peers.next_wakeup(),
            self._reports.next_wakeup(),
            self._broker_part.next_wakeup(),
            self._introductions.next_wakeup(),
            self._replays.next_wakeup(),
        )
        return own if self.clients is None else min(own, self.clients.next_wakeup())

    def obey(self, orders: Orders, now: float) -> Outputs:
        """Take orders: from the manager, or from the disk at the start."""
        self._obey(orders, now)
        return self._finish(now)

    def obey_document(self, document: bytes, now: float) -> Outputs:
        """Take signed orders: from the disk, or made here; TrustError when they do not count."""
        self._obey_document(document, now)
        return self._finish(now)

    def stop(self, now: float) -> Outputs:
        """Say farewell to all clients."""
        if self.clients is not None:
            self.clients.stop(now)
        return self._finish(now)

    def brokers_of(self, topic: str) -> list[str]:
        """Return all servers that manage a topic, as far as this one knows."""
        return self.topics.brokers_of(topic)

    def _finish(self, now: float) -> Outputs:
        """End a pass: process what it brought, and pack what it has for each client and server."""
        self._introductions.finish(now)
        self._replays.finish(now)  # before what the pass has to tell, which is newer
        self._broker_part.finish(now)
        self._router.flush()
        self._delivery.flush()
        out = self._effects.take()
        out.mesh = self._peers.poll(now)
        if self.sessions is not None:
            out.datagrams = self.sessions.flush(now)
        return out

    def _is_ready(self) -> bool:
        """Tell whether publications are taken: subscribers are known, and the disk keeps up."""
        waits = self.commit_wait_s > self.settings.commit_age_s
        return not waits and self._introductions.is_informed()

    # Orders and what other servers tell

    def _on_orders(self, server: str, message: NewOrders, now: float) -> None:
        if server != self.settings.manager:
            raise ValueError(f"orders come from {self.settings.manager!r} only")
        if self._obey_document(message.document, now):
            self._effects.out.orders_document = message.document

    def _obey_document(self, document: bytes, now: float) -> bool:
        orders = read_orders(document, self._trust, self.settings.server)
        is_taken = self._obey(orders, now)
        if is_taken:
            self._trust.note_signed(orders.issued_s)
            self._shown.obey(document)
        return is_taken

    def _obey(self, orders: Orders, now: float) -> bool:
        if orders.revocations:
            self._trust.revoke(orders.revocations)
            self._check_credentials(now)
        if self.orders is not None and orders.revision <= self.orders.revision:
            return False
        is_first, self.orders, self._effects.out.orders = self.orders is None, orders, orders
        newcomers = self._peers.learn(one.server for one in orders.servers)
        self._router.obey(orders)
        self._broker_part.obey(orders, now)
        if is_first:
            self._introductions.begin()
        for server in newcomers:
            self._introductions.on_newcomer(server)
        if self.clients is not None:
            self.clients.obey(orders, now)
        self._effects.incident("orders", revision=orders.revision, plan_version=orders.plan_version)
        return True

    def _on_guest(self, order: ClientOrder, now: float) -> None:
        """Go by what the manager says of a client that the orders do not name."""
        assert self.clients is not None
        self.targets.learn(order)
        self.clients.handover.learn(order.client, order.home, now)

    def _on_replaced(self, client: str, now: float) -> None:
        """Drop what a client may not do by its new credential, and the session of the old one."""
        self._remote.drop_forbidden(client)
        if self.clients is not None:
            self.clients.end_invalid(now)

    def _check_credentials(self, now: float) -> None:
        """End what clients do whose credentials have expired or were revoked."""
        self._check_at = now + _CHECK_S
        for client in self._authoriser.take_outdated(now):
            self._remote.drop_forbidden(client)
        if self.clients is not None:
            self.clients.end_invalid(now)

    def _retell(self, server: str, client: str) -> None:
        if self.clients is not None:
            self.clients.subscriptions.retell(server, client)

    def _count_undelivered(self, _client: str, frames: Sequence[bytes], _now: float) -> None:
        self.counts["notifications_undelivered"] += len(frames)

    def _load(self) -> LoadReport:
        targets, counts = self.targets, self.counts
        return LoadReport(
            self.orders.revision if self.orders is not None else 0,
            len(self.sessions) if self.sessions is not None else 0,
            len(self.broker.topics),
            targets.storage_used,
            targets.compute_used,
            targets.delegated_streams,
            targets.local_streams,
            counts["publications"] + counts["forwarded_in"],
            counts["notifications"],
            self.loop_lag_s,
            self._trust.newer_list(self.orders.revocations if self.orders else b""),
            self._effects.take_pauses(),
        )
