"""The replica's side of splits and merges."""

from __future__ import annotations

from nearcast.errors import ConfigError
from nearcast.routing.component import Component, Mandate, MandateState
from nearcast.routing.keys import Key
from nearcast.routing.net_share import DelegationState
from nearcast.routing.route_actions import RemoveKey, ReplicaEnded, RouteAction, SendPeer
from nearcast.routing.route_messages import (
    Adopt,
    Cancel,
    ChildRange,
    HeldRange,
    Left,
    Release,
    Renew,
    Return,
    Took,
)
from nearcast.routing.router import RoutingCounts, RoutingSettings

__all__ = ["Replica"]

_State = MandateState


class Replica:
    """Speaks for a component that works for another one."""

    def __init__(
        self,
        component: Component,
        mandate: Mandate,
        settings: RoutingSettings,
        counts: RoutingCounts,
    ) -> None:
        self.component, self.mandate = component, mandate
        self._settings, self._counts = settings, counts
        self._leaving: set[Key] = set()

    @property
    def has_ended(self) -> bool:
        """Whether its keys are out."""
        return self.mandate.state is _State.LEAVING and not self._leaving

    def on_key_added(self, now: float) -> list[RouteAction]:
        """Tell the original that the range has changed hands."""
        mandate = self.mandate
        if mandate.state is not _State.JOINING:
            return []
        mandate.state, mandate.next_s = _State.HELD, now + self._settings.renew_s
        return [SendPeer(mandate.original, Took(mandate.number))]

    def on_key_removed(self, key: Key) -> list[RouteAction]:
        """Tell the original when the last key is out."""
        if key not in self._leaving:
            return []
        self._leaving.remove(key)
        return self._ended()

    def on_message(self, sender: str, message: object) -> list[RouteAction]:
        """Take what the original says."""
        mandate = self.mandate
        if isinstance(message, Adopt) and message.parent == mandate.original:
            mandate.original = sender
            return [SendPeer(sender, Renew(mandate.number))]
        if sender == mandate.original and mandate.state is not _State.LEAVING:
            if isinstance(message, Cancel):
                return [*self._cancel_children(), *self._leave()]
            if isinstance(message, Release) and mandate.state is _State.RETURNING:
                return self._leave()
        self._counts.refused += 1
        return []

    def scale_in(self, now: float) -> list[RouteAction]:
        """Begin to give everything back.

        Raises
        ------
        ConfigError
            When it has not got its range yet, or a split or merge of its own is under way.
        """
        share = self.component.shares[self.mandate.net]
        busy = self.mandate.state is not _State.HELD or any(
            one.state is not DelegationState.GIVEN for one in share.delegations.values()
        )
        if busy or not all(one.is_in for one in share.holdings):
            raise ConfigError(f"topic {self.component.topic!r}: a split or merge is under way")
        self.mandate.state = _State.RETURNING
        return self._ask_to_return(now)

    def on_timer(self, now: float) -> list[RouteAction]:
        """Tell the original that the replica is there, or ask again to return."""
        mandate = self.mandate
        if now < mandate.next_s:
            return []
        if mandate.state is _State.RETURNING:
            return self._ask_to_return(now)
        if mandate.state is not _State.HELD:
            return []
        mandate.next_s = now + self._settings.renew_s
        return [SendPeer(mandate.original, Renew(mandate.number))]

    def _ask_to_return(self, now: float) -> list[RouteAction]:
        mandate = self.mandate
        mandate.next_s = now + self._settings.reply_s
        share = self.component.shares[mandate.net]
        held = tuple(HeldRange(one.low, one.high, one.key.unique_id) for one in share.holdings)
        children = tuple(
            ChildRange(one.number, one.replica, one.low, one.high, one.unique_id)
            for one in share.delegations.values()
        )
        return [SendPeer(mandate.original, Return(mandate.number, held, children))]

    def _cancel_children(self) -> list[RouteAction]:
        delegations = self.component.shares[self.mandate.net].delegations
        cancelled: list[RouteAction] = [
            SendPeer(one.replica, Cancel(one.number)) for one in delegations.values() if one.replica
        ]
        delegations.clear()
        return cancelled

    def _leave(self) -> list[RouteAction]:
        self.mandate.state = _State.LEAVING
        removed = self.component.end()
        self._leaving = {one.key for one in removed if isinstance(one, RemoveKey)}
        return [*removed, *(self._ended() if not self._leaving else [])]

    def _ended(self) -> list[RouteAction]:
        if not self.has_ended:
            return []
        left = SendPeer(self.mandate.original, Left(self.mandate.number))
        return [left, ReplicaEnded(self.component.topic)]
