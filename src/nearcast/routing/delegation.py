"""The original's side of splits and merges: every index has one owner at every step."""

from __future__ import annotations

from nearcast.errors import ConfigError
from nearcast.routing.chance import Chance
from nearcast.routing.component import Component
from nearcast.routing.holdings import Holding
from nearcast.routing.keys import Key, NetPath, fresh_unique_id, subscriber_key, unique_id_above
from nearcast.routing.net_share import Delegation, DelegationState, NetShare
from nearcast.routing.return_check import is_whole_return
from nearcast.routing.route_actions import AddKey, Offloaded, RemoveKey, RouteAction, SendPeer
from nearcast.routing.route_messages import (
    Adopt,
    Cancel,
    Left,
    Offered,
    Refused,
    Release,
    Renew,
    Return,
    Search,
    TakeOver,
    Took,
)
from nearcast.routing.router import RoutingCounts, RoutingSettings
from nearcast.routing.underloaded import search_route

__all__ = ["Delegator"]

_State = DelegationState
_NEVER_S = float("inf")


class Delegator:
    """Gives ranges of a component to replicas and takes them back.

    A split: (a) the key at the split point goes in, and the original still owns everything;
    (b) the replica's key goes in, above the original's, and the lower part changes hands; (c) the
    original's old key goes out. A merge: the original's key goes in above the replica's, and the
    range is back; the replica's goes out; keys between own ranges go out. A replica that stops
    answering at any step is as one that returned its range.
    """

    def __init__(
        self,
        peer: str,
        component: Component,
        settings: RoutingSettings,
        counts: RoutingCounts,
        rng: Chance,
    ) -> None:
        self._peer, self._component = peer, component
        self._settings, self._counts, self._rng = settings, counts, rng

    def offload(
        self, net: NetPath, split_at: int | None, replica: str | None, now: float
    ) -> list[RouteAction]:
        """Begin to give the lower part of the widest range in a net to a replica.

        Parameters
        ----------
        split_at : the split point; None: the middle. The range's end: offload everything.
        replica : None: any underloaded node of the net.

        Raises
        ------
        ConfigError
            When there is no such range.
        """
        opened = self._component.open_share(net)
        share = self._component.shares.get(net)
        free = [one for one in share.holdings if not one.is_offered] if share is not None else []
        if share is None or not free:
            raise ConfigError(f"topic {self._component.topic!r}: has no range in net {net} to give")
        if len(share.delegations) >= self._settings.max_delegations:
            raise ConfigError(
                f"topic {self._component.topic!r}: has too many replicas in net {net}"
            )
        if split_at is None:
            holding = max(free, key=lambda one: one.high - one.low)
            split_at = (holding.low + holding.high) // 2
        found = next((one for one in free if one.low < split_at <= one.high), None)
        if found is None:
            raise ConfigError(f"split point {split_at} is not within a range in net {net}")
        number = self._rng.getrandbits(62)
        one = share.delegations[number] = Delegation(
            number, found.low, split_at, 0, replica or "", _State.SEARCHING, 0.0
        )
        return [*opened, *self._search(net, one, now)]

    def on_message(
        self, sender: str, message: object, net: NetPath, one: Delegation, now: float
    ) -> list[RouteAction]:
        """Take what a replica says about a delegation."""
        share = self._component.shares[net]
        match message, one.state:
            case Offered(), _State.SEARCHING if one.replica in ("", sender):
                one.replica = sender
                return self._split(share, net, one, now)
            case Refused(), _State.SEARCHING:
                return self._search(net, one, now)
        if sender == one.replica:
            match message, one.state:
                case Refused(), _State.GIVING:
                    return self._abort(share, one)
                case Took(), _State.GIVING:
                    return self._give(share, one, now)
                case Took(), _State.GIVEN:
                    return []
                case Renew(), _State.GIVEN:
                    one.deadline_s = now + self._lease_s()
                    for parent in share.delegations.values():
                        parent.unheard.discard(one.number)
                    return self._returned(share, now)
                case Return(), _State.GIVEN:
                    if self._is_right(share, one, message):
                        return self._take_back(share, net, one, message, now)
                case Return(), _State.RETURNING | _State.LEAVING:
                    return []  # asked again because the answer is on its way
                case Left(), _State.LEAVING:
                    return self._merge(share, one)
        self._counts.refused += 1
        # A component that claims a range of another one has to give it up.
        return [SendPeer(sender, Cancel(one.number))] if sender != one.replica else []

    def on_key_added(self, key: Key, now: float) -> list[RouteAction]:
        """Go on with what waited for a key."""
        share = self._component.shares.get(key.net)
        actions: list[RouteAction] = []
        if share is None:
            return []
        for one in share.delegations.values():
            if one.state is _State.SPLITTING and one.high == key.index:
                actions += self._ask(one, key.net, now)
            elif key in one.returning:
                one.returning.remove(key)
        return [*actions, *self._returned(share, now)]

    def on_timer(self, now: float) -> list[RouteAction]:
        """Give up what took too long."""
        actions: list[RouteAction] = []
        for net, share in self._component.shares.items():
            for one in list(share.delegations.values()):
                if now < one.deadline_s:
                    continue
                if one.state is _State.SEARCHING:
                    actions += self._search(net, one, now)
                elif one.state is _State.LEAVING:
                    actions += self._merge(share, one)
                elif one.state in (_State.GIVING, _State.GIVEN):
                    actions += self._cancel(share, net, one)
            actions += self._returned(share, now)
        return actions

    def _lease_s(self) -> float:
        return self._settings.renew_s * self._settings.missed_renewals

    def _search(self, net: NetPath, one: Delegation, now: float) -> list[RouteAction]:
        if one.tries >= self._settings.search_tries:
            del self._component.shares[net].delegations[one.number]
            return [Offloaded(self._component.topic, None)]
        one.tries += 1
        one.deadline_s = now + self._settings.reply_s
        search = Search(self._peer, one.number, net)
        if one.replica:
            return [SendPeer(one.replica, search)]
        return [search_route(search, self._rng)]

    def _split(
        self, share: NetShare, net: NetPath, one: Delegation, now: float
    ) -> list[RouteAction]:
        holding = share.holdings.find(one.low)
        if holding is None or holding.is_offered or not holding.low < one.high <= holding.high:
            return self._fail(share, one)  # another split was faster
        holding.is_offered = True
        one.low = holding.low
        one.unique_id = unique_id_above(holding.key.unique_id, self._rng)
        if self._settings.replica_joins_first or one.high == holding.high:
            return self._ask(one, net, now)
        one.state, one.deadline_s = _State.SPLITTING, _NEVER_S
        return self._add_split_point(share, holding, one)

    def _add_split_point(
        self, share: NetShare, holding: Holding, one: Delegation
    ) -> list[RouteAction]:
        topic, net = self._component.topic, holding.key.net
        key = subscriber_key(topic, net, one.high, fresh_unique_id(self._rng))
        share.holdings.add(Holding(one.high, holding.high, key))
        holding.high = one.high
        return [AddKey(key)]

    def _ask(self, one: Delegation, net: NetPath, now: float) -> list[RouteAction]:
        one.state, one.deadline_s = _State.GIVING, now + self._settings.reply_s
        take = TakeOver(one.number, self._component.topic, net, one.low, one.high, one.unique_id)
        return [SendPeer(one.replica, take)]

    def _give(self, share: NetShare, one: Delegation, now: float) -> list[RouteAction]:
        one.state, one.deadline_s = _State.GIVEN, now + self._lease_s()
        actions: list[RouteAction] = []
        holding = share.offered_holding(one)
        if holding is not None:
            if holding.high > one.high:
                actions += self._add_split_point(share, holding, one)
            share.holdings.remove(holding)
            actions.append(RemoveKey(holding.key))
        return [*actions, Offloaded(self._component.topic, one.replica)]

    def _abort(self, share: NetShare, one: Delegation) -> list[RouteAction]:
        holding = share.offered_holding(one)
        if holding is not None:
            holding.is_offered = False
        return [*self._fail(share, one), *(RemoveKey(key) for key in share.holdings.coalesce())]

    def _fail(self, share: NetShare, one: Delegation) -> list[RouteAction]:
        del share.delegations[one.number]
        return [
            SendPeer(one.replica, Cancel(one.number)),
            Offloaded(self._component.topic, None),
        ]

    def _is_right(self, share: NetShare, one: Delegation, message: Return) -> bool:
        room = self._settings.max_delegations - len(share.delegations)
        known = share.delegations.keys()
        return (
            len(message.children) <= room
            and not any(child.delegation in known for child in message.children)
            and is_whole_return(message, one.low, one.high)
        )

    def _take_back(
        self, share: NetShare, net: NetPath, one: Delegation, message: Return, now: float
    ) -> list[RouteAction]:
        one.state, one.deadline_s = _State.RETURNING, _NEVER_S
        actions: list[RouteAction] = []
        for child in message.children:
            share.delegations[child.delegation] = Delegation(
                child.delegation, child.low, child.high, child.unique_id, child.replica,
                _State.GIVEN, now + self._lease_s(),
            )  # fmt: skip
            one.unheard.add(child.delegation)
            actions.append(SendPeer(child.replica, Adopt(child.delegation, one.replica)))
        for held in message.held:
            actions += self._hold(share, net, one, held.low, held.high, held.unique_id)
        return [*actions, *self._returned(share, now)]

    def _hold(
        self, share: NetShare, net: NetPath, one: Delegation, low: int, high: int, unique_id: int
    ) -> list[RouteAction]:
        key = subscriber_key(self._component.topic, net, low, unique_id_above(unique_id, self._rng))
        share.holdings.add(Holding(low, high, key))
        one.returning.append(key)
        return [AddKey(key)]

    def _cancel(self, share: NetShare, net: NetPath, one: Delegation) -> list[RouteAction]:
        was_given = one.state is _State.GIVEN
        one.state, one.deadline_s, one.is_cancelled = _State.RETURNING, _NEVER_S, True
        holding = share.offered_holding(one)
        high = one.high
        if holding is not None:
            high = holding.high
            share.holdings.remove(holding)
            one.superseded.append(holding.key)
        actions = self._hold(share, net, one, one.low, high, one.unique_id)
        failed = [] if was_given else [Offloaded(self._component.topic, None)]
        return [SendPeer(one.replica, Cancel(one.number)), *actions, *failed]

    def _returned(self, share: NetShare, now: float) -> list[RouteAction]:
        """End the part of merges in which keys go in, and replicas hear of their new original."""
        actions: list[RouteAction] = []
        for one in list(share.delegations.values()):
            unheard = one.unheard & {
                number for number, other in share.delegations.items() if other.state is _State.GIVEN
            }
            if one.state is not _State.RETURNING or one.returning or unheard:
                continue
            actions += [RemoveKey(key) for key in one.superseded]
            if one.is_cancelled:
                actions += self._merge(share, one)
            else:
                one.state, one.deadline_s = _State.LEAVING, now + self._settings.reply_s
                actions.append(SendPeer(one.replica, Release(one.number)))
        return actions

    def _merge(self, share: NetShare, one: Delegation) -> list[RouteAction]:
        del share.delegations[one.number]
        return [RemoveKey(key) for key in share.holdings.coalesce()]
