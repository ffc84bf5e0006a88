"""The clients of an edge server: what their sessions bring goes to the parts concerned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nearcast.server.allowance import Allowance, Allowances
from nearcast.server.authorise import Authoriser
from nearcast.server.class_gate import ClassGate
from nearcast.server.effects import Effects
from nearcast.server.guests import Guests
from nearcast.server.handover import Handover
from nearcast.server.home_clients import HomeClients
from nearcast.server.home_proofs import HomeProofs
from nearcast.server.log_rows import LogAction
from nearcast.server.overload import Overload
from nearcast.server.resumption import Resumption
from nearcast.server.revocation_teller import RevocationTeller
from nearcast.server.router import Router
from nearcast.server.selection import Selection
from nearcast.server.server_settings import EdgeSettings
from nearcast.server.site_orders import Orders
from nearcast.server.subscription_gate import SubscriptionGate
from nearcast.server.subscriptions import Subscriptions
from nearcast.server.vouching import Vouching
from nearcast.server.way_teller import WayTeller
from nearcast.wire.actions import Deliver, ServerEvent, SessionClosed, SessionOpened
from nearcast.wire.areas import heading_of, is_place
from nearcast.wire.messages import (
    CloseReason,
    Init,
    Proof,
    Refuse,
    RefuseReason,
    Report,
    Resume,
    Subscribe,
    Unsubscribe,
)
from nearcast.wire.publication import Origin, Publication
from nearcast.wire.server_sessions import ServerSessions
from nearcast.wire.settings import Address

__all__ = ["ClientGateway"]

_NOBODY: frozenset[str] = frozenset()


class ClientGateway:
    """Sessions, and what follows from what clients say in them.

    Parameters
    ----------
    guests
        Those that the orders do not name; None: they have to go.
    is_ready
        Tells whether this server takes publications: else publishers wait.
    """

    def __init__(
        self,
        server: str,
        sessions: ServerSessions,
        clients: HomeClients,
        router: Router,
        subscriptions: Subscriptions,
        resumption: Resumption,
        handover: Handover,
        guests: Guests,
        proofs: HomeProofs,
        ways: WayTeller,
        revocations: RevocationTeller,
        effects: Effects,
        authoriser: Authoriser,
        vouching: Vouching,
        allowances: Allowances,
        is_ready: Callable[[bool], bool],
        retry_after_s: float,
        subscription_gate: SubscriptionGate,
        settings: EdgeSettings,
        selection: Selection,
        classes: ClassGate,
    ) -> None:
        self.selection, self._classes = selection, classes
        self._server, self.sessions, self.clients = server, sessions, clients
        self._router, self.subscriptions, self.handover = router, subscriptions, handover
        self._guests, self._ways, self.resumption = guests, ways, resumption
        self._proofs, self._revocations = proofs, revocations
        self._effects, self._is_ready = effects, is_ready
        self._authoriser, self._allowances, self._vouching = authoriser, allowances, vouching
        self._retry_after_s, self._settings = retry_after_s, settings
        self._subscription_gate = subscription_gate
        self._overload = Overload(settings, sessions, effects, retry_after_s)
        self._next_prune = float("-inf")

    def on_datagrams(
        self, batch: Sequence[tuple[bytes, Address]], now: float, queue_age_s: float | None
    ) -> None:
        """Take datagrams.

        Parameters
        ----------
        queue_age_s
            How long the first of them waited in the kernel, if others wait still; None: they are
            marked as urgent, and are not sent back because others wait.
        """
        overload, limit_s = self._overload, self._settings.queue_age_s
        is_late = (
            queue_age_s is not None
            and (queue_age_s > limit_s or overload.has_queue)
            and overload.is_late(queue_age_s, now)
        )
        is_ready = self._is_ready(queue_age_s is None)
        events = self.sessions.receive(batch, now)
        # while the disk keeps up, others need not wait because of those who send most
        heavy = overload.heavy(events) if is_late and is_ready else _NOBODY
        if is_late or not is_ready:
            overload.begin_pass()
        self._on_events(events, now, is_late or not is_ready, heavy)
        self.resumption.go_on(now)

    def on_strangers(
        self, batch: Sequence[tuple[bytes, Address]], now: float, is_flooded: bool
    ) -> None:
        """Take datagrams of senders without a session; that they wait is no load of clients."""
        self.sessions.handshakes.is_flooded = is_flooded
        self._on_events(self.sessions.receive(batch, now), now)

    def on_timer(self, now: float) -> None:
        """End sessions that fell silent, and what has had its time."""
        if now < self._next_prune:
            return
        self._next_prune = now + self._settings.prune_interval_s
        self._on_events(self.sessions.prune(now), now)
        self.handover.on_timer(now)
        self._guests.on_timer(now)
        self.subscriptions.expire(now)
        self.resumption.on_timer()
        self.resumption.go_on(now)
        for client, topics in self.clients.take_outdated(now):
            self.resumption.forget(client)
            self.subscriptions.end(client, topics)

    def next_wakeup(self) -> float:
        """Return when to call `on_timer` at the latest."""
        return min(self.sessions.next_wakeup(), self._next_prune)

    def obey(self, orders: Orders, now: float) -> None:
        """Send clients to the homes that new orders name; those that they do not name are guests."""
        self.handover.obey(orders, now)
        self._guests.obey(orders)
        self._ways.obey(orders, now)
        self._revocations.obey(orders)
        self._proofs.obey(orders)
        for client in self.sessions.clients:
            if not self.handover.knows(client):
                self._on_unknown(client, now)

    def _on_unknown(self, client: str, now: float) -> None:
        """Take in a client that the orders do not name."""
        if not self.sessions.is_visitor(client):
            self._guests.arrived(client, now)

    def hearers(self, topic: str, clients: tuple[str, ...], now: float) -> tuple[str, ...]:
        """Return those of some clients that a broker may notify: subscribers, and who has left."""
        if all(map(self.clients.listeners(topic).__contains__, clients)):
            return clients
        found = tuple(one for one in clients if self._may_hear(one, topic, now))
        self._effects.counts["mesh_not_allowed"] += len(clients) - len(found)
        return found

    def _may_hear(self, client: str, topic: str, now: float) -> bool:
        allowance = self._allowances.by_client.get(client)
        if allowance is None or self.clients.hears(client, topic):
            return True
        # one that has just come from elsewhere has not asked for its subscriptions yet
        age_s, may_come = now - allowance.began_at, self.sessions.is_meant(client, 0)
        is_new = may_come and age_s <= self._settings.grace_s
        return is_new and self._authoriser.authorise(client, "subscribe", topic) is None

    def forget_topic(self, topic: str) -> None:
        """Forget that clients may publish to a topic that is gone: it would come into being."""
        self._allowances.forget_topic(topic)

    def end_invalid(self, now: float) -> None:
        """End the sessions of clients whose credential has expired, was revoked or replaced."""
        self.sessions.end_invalid(self._authoriser.end_reasons(now), now)
        self._on_events(self.sessions.take_events(), now)

    def stop(self, now: float) -> None:
        """Say farewell to all clients; they will look for this home again."""
        for client in self.sessions.clients:
            self.sessions.close(client, CloseReason.STOPPED, now)

    def _on_events(
        self,
        events: Iterable[ServerEvent],
        now: float,
        is_overloaded: bool = False,
        heavy: frozenset[str] = _NOBODY,
    ) -> None:
        for event in events:
            if isinstance(event, Publication):
                if not (is_overloaded and self._overload.puts_off(event, heavy)):
                    self._on_publication(event, now)
                continue
            match event:
                case Deliver(client) if self._is_too_fast(client, now):
                    continue  # clients repeat what is not answered
                case Deliver(client, Report() as report):
                    self._on_report(client, report, now)
                case Deliver(client, Subscribe() as wish):
                    self._on_subscribe(client, wish, now)
                case Deliver(client, Unsubscribe(request, topic)):
                    self._log(client, topic, "unsubscribe", now)
                    self.subscriptions.unsubscribe(client, request, topic)
                case Deliver(client, Resume() as question):
                    if self._authoriser.authorise(client, "subscribe", question.topic) is None:
                        self.resumption.ask(client, question, now)
                case Deliver(client, Proof() as proof):
                    self._proofs.on_proof(client, proof)
                case SessionOpened():
                    self._on_opened(event, now)
                case SessionClosed():
                    self._on_closed(event, now)

    def _on_publication(self, publication: Publication, now: float) -> None:
        is_durable = publication.origin is not Origin.ONCE
        if ahead_us := self._effects.site_clock.ahead_us:
            publication.received_us = max(0, publication.received_us + ahead_us)
        allowance = self._allowances.by_client.get(publication.publisher)
        if allowance is None:  # its session has ended in this pass
            return
        allowance.credit -= 1.0
        if allowance.credit < 0.0 and not allowance.refill(now):
            self._slow_down(publication.publisher, allowance, now)
            return
        if (
            publication.topic not in allowance.topics
            or len(publication.payload) > allowance.payload_bytes
        ):
            reason = self._allowances.check(publication)
            if reason is not None:
                self._refuse(publication, reason)
                return
        if publication.envelope and ((reason := self._classes.open(publication, now)) is not None):
            self._refuse(publication, reason)
            return
        if publication.x_km != publication.x_km:  # not a number: it brought no position
            publication.x_km, publication.y_km = self.clients.place(publication.publisher)
        effects = self._effects
        effects.counts["publications"] += 1
        effects.out.publications.append(
            (
                publication.topic,
                publication.publisher,
                publication.received_us,
                publication.x_km,
                publication.y_km,
                len(publication.payload),
                "publish",
                publication.sequence,
                publication.epoch,
                is_durable,
                self._server,
                publication.payload,
            )
        )
        self._router.route(publication, now)

    def _refuse(self, publication: Publication, reason: RefuseReason) -> None:
        self._effects.refused_publications[reason.name.lower()] += 1
        durable = publication.origin is not Origin.ONCE
        refuse = Refuse(publication.topic, publication.epoch, publication.sequence, durable, reason)
        self.sessions.tell(publication.publisher, refuse)

    def _slow_down(self, client: str, allowance: Allowance, now: float) -> None:
        """Have a client wait that sends more than it may."""
        self._effects.counts["rate_limited"] += 1
        wait_s = allowance.wait_s(now, self._retry_after_s)
        if wait_s is not None:
            self.sessions.busy(client, wait_s)

    def _is_too_fast(self, client: str, now: float) -> bool:
        """Count a message that is not a publication: it may cause as much work."""
        allowance = self._allowances.by_client.get(client)
        if allowance is None:
            return True
        allowance.credit -= 1.0
        if allowance.credit >= 0.0 or allowance.refill(now):
            return False
        self._slow_down(client, allowance, now)
        return True

    def _on_subscribe(self, client: str, wish: Subscribe, now: float) -> None:
        topic = wish.topic
        reason = self._subscription_gate.refusal(client, wish)
        if reason is not None:
            self._effects.counts["subscriptions_refused"] += 1
            self.sessions.confirm(client, wish.request, False, reason)
            return
        asked = self.subscriptions.asked_for(topic)
        if asked and not self._allowances.may_ask(client, asked, now):
            self._effects.counts["subscriptions_put_off"] += 1
            return  # clients repeat what is not answered
        if topic not in self.clients.topics(client):  # else it is asked for once more
            self._log(client, topic, "subscribe", now)
        self.subscriptions.subscribe(client, wish, now)

    def _on_report(self, client: str, said: Report | Init, now: float) -> None:
        if not is_place(said.x_km, said.y_km):
            self.sessions.drops["invalid_field"] += 1
            return
        self._effects.counts["reports"] += 1
        self._revocations.tell_one(client, now)
        heading_deg = heading_of(said.direction_deg, said.speed_mps)
        least_km = self._settings.least_move_km
        has_moved = self.clients.move(client, said.x_km, said.y_km, heading_deg, least_km)
        if self.sessions.is_visitor(client):
            return  # its home logs it and tells brokers
        self._log(client, None, "report", now)
        self._ways.tell_one(client, now)
        if has_moved:
            self.subscriptions.moved(client)
        self.handover.moved(client, said, now)

    def _on_opened(self, opened: SessionOpened, now: float) -> None:
        client, init, credential = opened.client, opened.init, opened.credential
        self._effects.counts["sessions_opened"] += 1
        if not self.handover.knows(client):
            self._on_unknown(client, now)
        self._vouching.forget_client(client)
        self._authoriser.begin_session(credential, init.credential)
        self._allowances.begin(client, credential.rights, now)
        self._revocations.tell_all(client)
        if opened.supersedes:
            self.subscriptions.end(client, self.subscriptions.forget(client))
        if init.visits:
            self._begin_visit(client, init, now)
            return
        for topic in list(self.clients.topics(client)):  # by a credential with other rights
            if self._authoriser.authorise(client, "subscribe", topic) is not None:
                self.clients.unsubscribe(client, topic)
                self.subscriptions.end(client, [topic])
        self.resumption.begin_session(client, goes_on=opened.goes_on)
        self.clients.begin_session(client, now + self._settings.grace_s)
        self._on_report(client, init, now)
        self.handover.arrived(client, now)
        if self.handover.is_home_of(client):
            self._router.expected.arrived(client, now)
        self._ways.tell_all(client)

    def _begin_visit(self, client: str, init: Init, now: float) -> None:
        """Take a client that publishes here; its home, if it was here, is elsewhere now."""
        self._effects.counts["visits"] += 1
        self.handover.visited(client, self.subscriptions.forget(client), now)
        self._router.targets.begin_visit(client)
        self._on_report(client, init, now)

    def _on_closed(self, closed: SessionClosed, now: float) -> None:
        client, counts = closed.client, self._effects.counts
        self._vouching.forget_client(client)
        self._authoriser.end_session(client)
        self._allowances.end(client)
        counts[f"sessions_closed_{closed.reason.name.lower()}"] += 1
        self.resumption.forget(client)
        topics = self.subscriptions.forget(client)
        self._guests.left(client)
        self._router.targets.guest_left(client)
        if closed.visits:
            self.handover.pass_on(client, closed.undelivered, now, epoch=closed.epoch)
        elif self.handover.is_home_of(client) and closed.reason is not CloseReason.MOVED:
            self.subscriptions.end(client, topics)
            counts["notifications_undelivered"] += len(closed.undelivered)
        else:
            self.handover.left(client, topics, closed.undelivered, now, closed.epoch)

    def _log(self, client: str, topic: str | None, action: LogAction, now: float) -> None:
        x_km, y_km = self.clients.place(client)
        time_us, server = self._effects.site_clock.there_us(now), self._server
        row = (topic, client, time_us, x_km, y_km, 0, action, 0, 0, False, server, b"")
        self._effects.out.publications.append(row)
