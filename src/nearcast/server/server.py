"""A server of a site, assembled from its parts: the place to begin reading.

Every event method takes what happened and the time, lets the parts work, and returns `Outputs`.
The cloud server is the same assembly without clients::

    datagrams -> ClientGateway -> Router -> BrokerPart -> Delivery -> datagrams
                                    |       FlowPart         |
                                    |           |            |
                                    +-------- Peers ---------+        (other servers)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

from nearcast.broker.processor import ProcessorWatch
from nearcast.broker.requests import ProcessResult
from nearcast.flow.stored import FLOW_TOPICS
from nearcast.server.authorise import Authoriser
from nearcast.server.broker_finder import BrokerFinder
from nearcast.server.broker_part import BrokerPart
from nearcast.server.class_gate import ClassGate
from nearcast.server.client_gateway import ClientGateway
from nearcast.server.client_part import make_client_part, make_delivery, make_sessions
from nearcast.server.effects import Effects
from nearcast.server.flow_part import FlowPart
from nearcast.server.guests import Guests
from nearcast.server.home_witness import HomeWitness
from nearcast.server.introductions import Introductions
from nearcast.server.load_reports import LoadReports, read_load
from nearcast.server.mesh_messages import LoadReport, NewOrders
from nearcast.server.outputs import Outputs
from nearcast.server.overlay_part import Chance
from nearcast.server.pause_watch import PauseWatch
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.peers import Peers
from nearcast.server.remote_subscribers import RemoteSubscribers
from nearcast.server.replays import Replays
from nearcast.server.ring_part import RingPart
from nearcast.server.router import Router
from nearcast.server.server_settings import ClientAccess, EdgeSettings, ServerSettings
from nearcast.server.shown_orders import ShownOrders
from nearcast.server.signed_orders import read_orders
from nearcast.server.site_orders import ClientOrder, Orders
from nearcast.server.stream_targets import StreamTargets
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.vouching import Vouching
from nearcast.spool.changes import LiveTopic
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.settings import Address, WireSettings

__all__ = ["Server"]

_CHECK_S = 5.0
"""How often credentials are checked for their end."""


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
    private_key
        The server's static X25519 key.
    recovered
        What the spool's log found, by topic.
    access
        For clients; None: this server has none.
    watch
        Is told when a processor runs in this process.
    damages
        Places where the log has lost something: other brokers are asked for it.
    chance
        Random numbers that others must not be able to guess.
    """

    def __init__(
        self,
        settings: ServerSettings,
        channels: PeerChannels,
        clock: Callable[[], float],
        trust: SiteTrust,
        private_key: bytes,
        recovered: Mapping[str, LiveTopic] | None = None,
        access: ClientAccess | None = None,
        watch: ProcessorWatch | None = None,
        damages: int = 0,
        *,
        chance: Chance,
    ) -> None:
        self.settings, self._trust, self._check_at = settings, trust, float("-inf")
        self.orders: Orders | None = None
        self.loop_lag_s = self.commit_wait_s = 0.0
        """The longest recent pause of the shell's loop, and how long the oldest group waits to be
        written; the shell sets them."""
        effects = self._effects = Effects(settings.table_factor)
        self.counts, self.refused_publications = effects.counts, effects.refused_publications
        peers = self._peers = Peers(settings.server, settings.manager, channels, effects)
        self.processor_refused, self.tables = effects.processor_refused, effects.tables
        ring = self.ring = RingPart(peers, chance)
        directory = self.subscribers = SubscriberDirectory()
        authoriser = self._authoriser = Authoriser(trust, settings.vouched_limit, effects.tables)
        classes = ClassGate(settings.classes, authoriser, effects)
        tickets, recovered = count(1).__next__, recovered or {}
        given = (settings, peers, effects, recovered, tickets, clock, ring, watch)
        flows = self.flows = FlowPart(*given)
        part = self._broker_part = BrokerPart(
            settings,
            peers,
            directory,
            effects,
            authoriser,
            clock,
            {name: live for name, live in recovered.items() if not name.startswith(FLOW_TOPICS)},
            damages,
            watch,
            flows.tap,
            tickets,
        )
        self.broker, self.topics = part.broker, part.topics
        self._introductions = Introductions(
            peers,
            part.topics,
            directory,
            part.start,
            settings.inform_s,
            lambda topics, now: self._router.on_informed(topics, now),
            lambda server, topic: part.proofs.announce(server, topic),
        )
        self._pauses = PauseWatch(settings.takeover_s, part.broker, self._introductions, effects)
        keys = (private_key, authoriser)
        sessions = self.sessions = make_sessions(*keys, access, self.counts) if access else None
        self._vouching = Vouching(peers, authoriser, effects, self._retell, self._on_replaced)
        is_visitor = sessions.is_visitor if sessions is not None else lambda client: False
        self.targets = StreamTargets(
            settings.server, settings.capacity, settings.default_spool, is_visitor
        )
        witness = HomeWitness(peers, private_key, authoriser, sessions, effects, self._on_proved)
        self._shown = ShownOrders(peers, trust)
        self._finder = BrokerFinder(peers, ring.directory, self._shown, self.targets)
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
            self._introductions.is_introduced,
            self._vouching,
            witness,
            settings.retry_after_s,
            settings.takeover_s,
            classes,
        )
        remote = self._remote = RemoteSubscribers(
            peers,
            directory,
            authoriser,
            self._vouching,
            part.broker.concerns,
            part.broker.ends,
            lambda: self._replays.try_again(),
        )
        self._replays = Replays(peers, part.broker, effects, remote)
        self._reports = LoadReports(peers, effects, self._load, settings.report_interval_s)
        clients: ClientGateway | None = None
        if access is not None and sessions is not None:
            clients = make_client_part(
                settings,
                access.edge or EdgeSettings(),
                access.wire or WireSettings(),
                peers,
                directory,
                effects,
                authoriser,
                part,
                self._introductions,
                self._vouching,
                router,
                self._replays,
                sessions,
                self._is_ready,
                Guests(peers, self._on_guest, self._shown, ring.directory),
                classes,
            )
        self.clients = clients
        self._delivery = make_delivery(peers, directory, effects, clock, sessions, clients, classes)
        told_topics = (self._introductions.ask, clients.forget_topic if clients else lambda _: None)
        part.connect(self._delivery, router, self._vouching, self._shown, witness, *told_topics)
        flows.connect(router, part.broker)
        peers.on(NewOrders, self._on_orders)

    # Events

    def on_datagrams(
        self, batch: Sequence[tuple[bytes, Address]], now: float, queue_age_s: float | None = 0.0
    ) -> Outputs:
        """Take datagrams that waited so long in the kernel; None: they are marked as urgent.

        Returns what subscribers are told at once; `finish`, before any other event, the rest.
        """
        assert self.clients is not None
        self._pauses.note(now)
        self.clients.on_datagrams(batch, now, queue_age_s)
        self._replays.finish(now)  # before what the pass has to tell, which is newer
        if told := self.broker.begin(now):
            self._delivery.send(told)
        mesh = self._peers.poll(now) if self._delivery.flush() else []
        return Outputs(self.clients.sessions.flush(now), mesh)

    def on_strangers(
        self, batch: Sequence[tuple[bytes, Address]], now: float, is_flooded: bool = False
    ) -> Outputs:
        """Take datagrams of senders without a session; a flood: more come than are handed in."""
        assert self.clients is not None
        self.clients.on_strangers(batch, now, is_flooded)
        return self.finish(now)

    def on_mesh(self, from_server: str, frame: bytes, now: float) -> Outputs:
        """Take a frame of another server."""
        self._pauses.note(now)
        restarted, messages = self._peers.receive(from_server, frame, now)
        for server in dict.fromkeys((*restarted, *self._peers.take_skipped())):
            if self.clients is not None:
                self.clients.resumption.on_interrupted(server, now, restarted=server in restarted)
        for server in restarted:
            self._vouching.forget_server(server)
            self._introductions.on_restarted(server)
            self.ring.overlay.on_restarted(server, now)
            self.flows.on_restarted(server, now)
        for server in self._peers.take_gaps():
            self._introductions.on_gap(server)
            self.flows.on_restarted(server, now)
        self._broker_part.is_stalled = self.commit_wait_s > self.settings.copy_age_s
        self._peers.dispatch(from_server, messages, now)
        return self.finish(now)

    def on_committed(self, tickets: Iterable[int], now: float) -> Outputs:
        """Go on with what has waited for these groups to be durable."""
        tickets = list(tickets)
        self._broker_part.do(self.broker.on_committed(tickets))
        self.flows.on_committed(tickets, now)
        self._replays.try_again()
        return self.finish(now)

    def on_processed(self, results: Iterable[ProcessResult], now: float) -> Outputs:
        """Take what processors outside made of batches."""
        for result in results:
            if result.topic.startswith(FLOW_TOPICS):
                self.flows.on_processed(result)
            else:
                self._broker_part.do(self.broker.on_processed(result, now))
        return self.finish(now)

    def on_timer(self, now: float) -> Outputs:
        """Do what has become due."""
        self._pauses.note(now)
        if self.clients is not None:
            self.clients.on_timer(now)
        self._broker_part.on_timer(now)
        self._router.on_timer(now)
        self._reports.on_timer(now)
        self.flows.on_timer(now)
        self._finder.on_timer(now)
        self.ring.on_timer(now)
        if now >= self._check_at:
            self._check_credentials(now)
        return self.finish(now)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        own = min(
            self._pauses.next_wakeup(),
            self._peers.next_wakeup(),
            self._reports.next_wakeup(),
            self._broker_part.next_wakeup(),
            self._introductions.next_wakeup(),
            self._replays.next_wakeup(),
            self.flows.next_wakeup(),
            self._finder.next_wakeup(),
            self.ring.next_wakeup(),
        )
        return own if self.clients is None else min(own, self.clients.next_wakeup())

    def obey(self, orders: Orders, now: float) -> Outputs:
        """Take orders: from the manager, or from the disk at the start."""
        self._obey(orders, now)
        return self.finish(now)

    def obey_document(self, document: bytes, now: float) -> Outputs:
        """Take signed orders: from the disk, or made here; TrustError when they do not count."""
        self._obey_document(document, now)
        return self.finish(now)

    def stop(self, now: float) -> Outputs:
        """Say farewell to all clients."""
        if self.clients is not None:
            self.clients.stop(now)
        return self.finish(now)

    def finish(self, now: float) -> Outputs:
        """End a pass: process what it brought, and pack what it has for each client and server."""
        self._introductions.finish(now)
        self._replays.finish(now)  # before what the pass has to tell, which is newer
        self.flows.finish(now)  # before the broker, which gets what components made
        self.ring.finder.finish(now)
        self._broker_part.finish(now)
        self._router.flush()
        self._delivery.flush()
        out = self._effects.take()
        out.mesh = self._peers.poll(now)
        if self.sessions is not None:
            out.datagrams = self.sessions.flush(now)
        return out

    def _is_ready(self, is_urgent: bool) -> bool:
        """Tell whether publications are taken: subscribers are known, and the disk keeps up."""
        most_s = self.settings.copy_age_s if is_urgent else self.settings.commit_age_s
        return self.commit_wait_s <= most_s and self._introductions.is_informed()

    # Orders and what other servers tell

    def _on_orders(self, server: str, message: NewOrders, now: float) -> None:
        if server != self.settings.manager:
            raise ValueError(f"orders come from {self.settings.manager!r} only")
        if self._obey_document(message.document, now):
            self._effects.out.orders_document = message.document

    def _obey_document(self, document: bytes, now: float) -> bool:
        orders = read_orders(document, self._trust, self.settings.server)
        if is_taken := self._obey(orders, now):
            self._trust.note_signed(orders.issued_s)
            self._shown.obey(document, orders.revision)
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
        self._finder.obey(orders)
        self._broker_part.obey(orders, now)
        self.flows.obey(orders, now)
        self.ring.obey(orders, now)
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

    def _on_proved(self, server: str, client: str, now: float) -> None:
        """Take what waited until it was known where a client is."""
        self._router.on_proved(server, client, now)
        self._broker_part.on_proved(server, client, now)

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

    def _load(self) -> LoadReport:
        sessions, topics = len(self.sessions or ()), len(self.broker.topics)
        effects, trust, lag_s = self._effects, self._trust, self.loop_lag_s
        return read_load(self.orders, sessions, topics, self.targets, effects, trust, lag_s)
