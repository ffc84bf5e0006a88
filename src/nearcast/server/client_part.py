"""The part of an edge server for clients, assembled: sessions, subscriptions, handover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nearcast.server.allowance import Allowances
from nearcast.server.authorise import Authoriser
from nearcast.server.broker_part import BrokerPart
from nearcast.server.class_gate import ClassGate
from nearcast.server.client_gateway import ClientGateway
from nearcast.server.delivery import Delivery
from nearcast.server.effects import Effects
from nearcast.server.guests import Guests
from nearcast.server.handover import Handover
from nearcast.server.home_clients import HomeClients
from nearcast.server.home_proofs import HomeProofs
from nearcast.server.introductions import Introductions
from nearcast.server.peers import Peers
from nearcast.server.replays import Replays
from nearcast.server.resumption import Resumption
from nearcast.server.revocation_teller import RevocationTeller
from nearcast.server.roaming import Roaming
from nearcast.server.router import Router
from nearcast.server.selection import Selection
from nearcast.server.server_settings import ClientAccess, EdgeSettings, ServerSettings
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.server.subscription_gate import SubscriptionGate
from nearcast.server.subscriptions import Subscriptions
from nearcast.server.vouching import Vouching
from nearcast.server.way_teller import WayTeller
from nearcast.wire.server_sessions import ServerSessions
from nearcast.wire.settings import WireSettings

__all__ = ["make_client_part", "make_delivery", "make_sessions"]


def make_sessions(
    private_key: bytes, authoriser: Authoriser, access: ClientAccess, counts: Counter[str]
) -> ServerSessions:
    """Return the sessions of a server, with a group if it is to have one."""
    return ServerSessions(
        private_key, authoriser.check, access.random_bytes, access.wire, access.group, counts
    )


def make_client_part(
    settings: ServerSettings,
    edge: EdgeSettings,
    wire: WireSettings,
    peers: Peers,
    directory: SubscriberDirectory,
    effects: Effects,
    authoriser: Authoriser,
    broker: BrokerPart,
    introductions: Introductions,
    vouching: Vouching,
    router: Router,
    replays: Replays,
    sessions: ServerSessions,
    is_ready: Callable[[bool], bool],
    guests: Guests,
    classes: ClassGate,
) -> ClientGateway:
    """Return what takes clients' datagrams, with all that it needs."""
    sessions.site_clock = effects.site_clock
    homes = HomeClients()
    selection = Selection(homes, effects)
    resumption = Resumption(peers, homes, sessions, replays, effects, vouching.show, selection)
    subscriptions = Subscriptions(
        peers,
        homes,
        directory,
        broker.topics.brokers_of,
        broker.broker.ends,
        resumption.progress,
        resumption,
        sessions.confirm,
        vouching.show,
        edge,
    )
    introductions.home = subscriptions
    authorise, limit = authoriser.authorise, wire.subscription_limit
    roaming = Roaming(
        peers,
        sessions,
        homes,
        subscriptions,
        effects,
        authorise,
        vouching.show,
        limit,
        edge.patterns_per_client,
    )
    handover = Handover(peers, sessions, subscriptions, effects, authorise, edge.grace_s, roaming)
    return ClientGateway(
        settings.server,
        sessions,
        homes,
        router,
        subscriptions,
        resumption,
        handover,
        guests,
        HomeProofs(peers, sessions, effects),
        WayTeller(settings.server, sessions, authoriser.trust, wire.report_interval_s),
        RevocationTeller(sessions, authoriser.trust, wire.report_interval_s),
        effects,
        authoriser,
        vouching,
        Allowances(authoriser, broker.topics, wire),
        is_ready,
        settings.retry_after_s,
        SubscriptionGate(sessions, homes, authoriser, limit, edge.patterns_per_client),
        edge,
        selection,
        classes,
    )


def make_delivery(
    peers: Peers,
    directory: SubscriberDirectory,
    effects: Effects,
    clock: Callable[[], float],
    sessions: ServerSessions | None,
    clients: ClientGateway | None,
    classes: ClassGate,
) -> Delivery:
    """Return what tells the clients here, if this server has any, and the homes of others."""
    return Delivery(
        peers,
        directory,
        effects,
        clock,
        sessions,
        clients.handover.pass_on if clients else lambda client, frames, now: None,
        clients.hearers if clients else lambda topic, some, now: some,
        clients.resumption.progress.note if clients else lambda broker, reached: None,
        classes.urgency,
        clients.selection if clients else None,
    )
