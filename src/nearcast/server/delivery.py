"""Notifications on their way to clients: by the homes of their receivers, packed per home."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from nearcast.broker.audiences import OutgoingNotification, Recipients
from nearcast.errors import WireError
from nearcast.server.effects import Effects
from nearcast.server.mesh_messages import HomeNotice, Notices
from nearcast.server.peers import Peers
from nearcast.server.selection import Selection
from nearcast.server.subscribers import SubscriberDirectory
from nearcast.wire.group_sender import GroupSender
from nearcast.wire.hot_frames import decode_notify, encode_notify, notify_frame, time_field
from nearcast.wire.messages import Notify
from nearcast.wire.terms import Place

__all__ = ["Delivery", "LocalClients"]


class LocalClients(Protocol):
    """The clients that have a session with this server."""

    group: GroupSender | None
    """Tells many of them at once; None: each is told in its session."""

    def check_notification(self, frame: bytes) -> None:
        """Raise WireError when a notification is too large for a datagram."""
        ...

    def notify_urgently(self, clients: Iterable[str], frame: bytes, left_out: str) -> list[str]:
        """Send one before all that is not urgent."""
        ...

    def notify_all(self, clients: Iterable[str], frame: bytes, left_out: str) -> list[str]:
        """Send a notification to all but one; return the clients without a session."""
        ...


class Delivery:
    """Sends notifications to the homes of their receivers, and from here to clients.

    Parameters
    ----------
    local
        The clients here; None when this server has none.
    pass_on
        Takes what a client without a session here should get.
    hearers
        Returns those of some clients that may be told of a topic, at a time.
    note
        Is told the last offset by topic of what a broker sent.
    urgency
        Returns how urgent what has an envelope is.
    selection
        Knows which clients here do not want everything; None when this server has none.
    """

    def __init__(
        self,
        peers: Peers,
        directory: SubscriberDirectory,
        effects: Effects,
        clock: Callable[[], float],
        local: LocalClients | None,
        pass_on: Callable[[str, Sequence[bytes], float], None],
        hearers: Callable[[str, tuple[str, ...], float], tuple[str, ...]],
        note: Callable[[str, Mapping[str, int]], None],
        urgency: Callable[[bytes], int],
        selection: Selection | None = None,
    ) -> None:
        self._hearers, self._note, self._selection = hearers, note, selection
        self._urgency = urgency
        self._selective = selection.selective if selection is not None else {}
        self._peers, self._directory, self._effects = peers, directory, effects
        self._clock, self._local, self._pass_on = clock, local, pass_on
        self._group = None if local is None else local.group
        self._notices: dict[tuple[str, bool], list[HomeNotice]] = {}
        """By home and whether they are urgent, for the end of the pass."""
        peers.on(Notices, self._on_notices)

    def send(self, notifications: Iterable[OutgoingNotification]) -> None:
        """Send what the broker has made."""
        own, notified = self._peers.server, self._now()
        for notify, recipients, left_out, _, place in notifications:
            try:
                body = encode_notify(notify)
            except WireError as error:
                self._refuse(notify, len(recipients.clients), error)
                continue
            by_home = recipients.by_home
            if by_home is None:
                by_home = self._split(notify.topic, recipients)
            for home, clients in by_home.items():
                if home == own:
                    if notify.envelope or self._selective:
                        self._select(notify, body, clients, left_out, place, *notified)
                    else:
                        self._deliver(notify, body, clients, left_out, *notified)
                elif len(clients) > 1 or clients[0] != left_out:
                    notice = HomeNotice(body, clients, left_out, place)
                    is_urgent = bool(notify.envelope) and self._urgency(notify.envelope) > 0
                    self._notices.setdefault((home, is_urgent), []).append(notice)

    def flush(self) -> bool:
        """Send what has gathered, all for one home together; tell whether there was something."""
        notices, self._notices = self._notices, {}
        for (home, urgent), some in notices.items():
            send = self._peers.send_urgently if urgent else self._peers.send
            send(home, Notices(tuple(some), urgent))
        return bool(notices)

    def _on_notices(self, server: str, message: Notices, now: float) -> None:
        notified = self._now()
        reached: dict[str, int] = {}
        for notice in message.notices:
            notify, left_out = decode_notify(notice.body), notice.left_out
            if notify.broker:
                if notify.broker != server:
                    raise WireError("a notification names another broker than its sender")
                reached[notify.topic] = notify.offset
            clients = self._hearers(notify.topic, notice.clients, now)
            self._select(notify, notice.body, clients, left_out, notice.place, *notified)
        if not message.urgent:  # else what they overtook has not been heard
            self._note(server, reached)

    def _now(self) -> tuple[int, bytes]:
        """Return the time now, also as a field of a Notify: once for many notifications."""
        notified_us = int(self._clock() * 1e6) + self._effects.site_clock.ahead_us
        notified_us = notified_us if notified_us > 0 else 0  # once per pass: no call for it
        return notified_us, time_field(notified_us)

    def _split(self, topic: str, recipients: Recipients) -> dict[str, tuple[str, ...]]:
        always, clients = recipients.always, recipients.clients
        by_home = dict[str, tuple[str, ...]]()
        if always is not None:
            by_home |= always.by_home or self._split(topic, always)
            clients = clients[len(always.clients) :]
        for home, some in self._directory.by_home(topic, clients).items():
            by_home[home] = (*by_home.get(home, ()), *some)
        recipients.by_home = by_home
        return by_home

    def _select(
        self,
        notify: Notify,
        body: bytes,
        clients: tuple[str, ...],
        left_out: str,
        place: Place | None,
        notified_us: int,
        notified: bytes,
    ) -> None:
        """Deliver to those of the clients here that want it."""
        selection = self._selection
        if selection is None:
            self._deliver(notify, body, clients, left_out, notified_us, notified)
            return
        if left_out in clients:
            clients = tuple(client for client in clients if client != left_out)
        for own, some in selection.split(notify, body, clients, place, notified_us / 1e6):
            self._deliver(notify, own, some, "", notified_us, notified)

    def _deliver(
        self,
        notify: Notify,
        body: bytes,
        clients: tuple[str, ...],
        left_out: str,
        notified_us: int,
        notified: bytes,
    ) -> None:
        effects, local = self._effects, self._local
        if local is None:
            effects.counts["notifications_undelivered"] += len(clients)
            return
        try:
            frame = notify_frame(body, notified)
            local.check_notification(frame)
        except WireError as error:
            self._refuse(notify, len(clients), error)
            return
        is_urgent = notify.envelope and self._urgency(notify.envelope)
        tell = local.notify_urgently if is_urgent else local.notify_all
        some, group = clients, self._group
        if group is not None:
            some = group.tell(notify.topic, frame, clients, left_out, notified_us / 1e6)
        missing = tell(some, frame, left_out)
        if left_out and left_out in clients:
            clients = tuple(client for client in clients if client != left_out)
        if missing:
            # they have left, however long ago: what comes late, lost and repeated, follows them
            for client in sorted(missing):
                self._pass_on(client, (frame,), notified_us / 1e6 - effects.site_clock.ahead_s)
            away = set(missing)
            clients = tuple(client for client in clients if client not in away)
        effects.counts["notifications"] += len(clients)
        out, received_us = effects.out, notify.received_us
        between_us = notified_us - received_us - notify.processing_us
        out.delays.append((received_us - notify.published_us, notify.processing_us, between_us))
        if clients:
            out.notifications.append(
                (
                    notify.topic,
                    notify.publisher,
                    notify.epoch,
                    notify.sequence,
                    notify.part,
                    clients,
                    self._peers.server,
                    notify.published_us,
                    received_us,
                    notify.processing_us,
                    notify.processed_us,
                    notified_us,
                    len(notify.payload),
                    notify.durable,
                )
            )

    def _refuse(self, notify: Notify, receivers: int, error: WireError) -> None:
        self._effects.counts["notifications_too_large"] += receivers
        reason = str(error)
        self._effects.incident("notification_too_large", topic=notify.topic, reason=reason)
