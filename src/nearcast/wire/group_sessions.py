"""The sessions of an edge server that also tells its clients by multicast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nearcast.trust.credentials import ClientCredential
from nearcast.wire.actions import Datagram
from nearcast.wire.codec import Refused
from nearcast.wire.group_messages import GroupReceived
from nearcast.wire.group_sender import GroupSender
from nearcast.wire.group_settings import GroupSettings
from nearcast.wire.handshake_gate import Admit
from nearcast.wire.messages import CloseReason, Message, Report
from nearcast.wire.server_session import ServerSession
from nearcast.wire.server_sessions import ServerSessions
from nearcast.wire.settings import Address, RandomBytes, WireSettings

__all__ = ["GroupSessions"]

_HARMLESS = frozenset(
    (
        CloseReason.DONE,
        CloseReason.MOVED,
        CloseReason.STOPPED,
        CloseReason.REKEY,
        CloseReason.SILENT,
    )
)
"""Reasons to end a session after which the client may still know the group's key."""


class GroupSessions(ServerSessions):
    """Sessions whose clients may be members of a group.

    Parameters
    ----------
    group
        Where it is, and for what.
    counts
        Takes what is told there, for metrics.
    """

    def __init__(
        self,
        static_key: bytes,
        admit: Admit,
        random_bytes: RandomBytes,
        settings: WireSettings | None,
        group: GroupSettings,
        counts: Counter[str] | None = None,
    ) -> None:
        super().__init__(static_key, admit, random_bytes, settings)
        self._group = self.group = GroupSender(
            group,
            self._settings,
            random_bytes,
            self._outgoing,
            self._mark,
            Counter() if counts is None else counts,
        )

    def end_invalid(
        self, reason_of: Callable[[ClientCredential], CloseReason | None], now: float
    ) -> None:
        """End sessions as all servers do; a key that such a client has is used no more."""
        super().end_invalid(reason_of, now)
        self._group.end_invalid(lambda credential: reason_of(credential) is not None)

    def flush(self, now: float) -> list[Datagram]:
        """End a pass: return all datagrams to send, those to the group before the others."""
        self._group.flush(now)
        return super().flush(now)

    def next_wakeup(self) -> float:
        """Return when `flush` may have something to send; infinity when nothing waits."""
        return min(super().next_wakeup(), self._group.next_wakeup())

    def _on_message(
        self, session: ServerSession, message: Message, address: Address, now: float
    ) -> None:
        if isinstance(message, GroupReceived):
            if not self._group.on_received(session, message):
                raise Refused("unexpected_message")
            return
        super()._on_message(session, message, address, now)
        if isinstance(message, Report):
            self._group.offer(session)

    def _confirm(self, session: ServerSession, address: Address, now: float) -> None:
        old = self._table.by_client.get(session.client)
        super()._confirm(session, address, now)
        if old is not None:
            self._group.forget(old, is_revoked=False)

    def _end(self, session: ServerSession, reason: CloseReason) -> None:
        super()._end(session, reason)
        self._group.forget(session, is_revoked=reason not in _HARMLESS)
