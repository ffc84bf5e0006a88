"""Seeded bugs: each is put in, in memory, and a named part of the proof has to notice it.

A bug that nothing notices shows a hole in the proof, not in the system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec

from nearcast.broker.actions import Copy
from nearcast.broker.sequence_gate import Verdict
from nearcast.experiments.survive import catching
from nearcast.experiments.survive.defect_mutants import defect_mutants
from nearcast.experiments.survive.mutant import Mutant
from nearcast.experiments.survive.stand_ins import (
    stand_in_for_a_restarted_owner,
    stand_in_for_an_owner_behind_a_cut,
)
from nearcast.server.mesh_messages import MeshMessage
from nearcast.server.peer_channel import decode_frame
from nearcast.server.peer_channels import PeerChannels
from nearcast.server.site_orders import Orders
from nearcast.trust.credentials import ClientCredential, read_body
from nearcast.trust.signed import Kind, read_signed
from nearcast.wire.notification import Notification
from nearcast.wire.publication import Origin

__all__ = ["MUTANTS", "MutantReport", "run_mutants"]

_SERVER, _BROKER, _WIRE = "nearcast.server.", "nearcast.broker.", "nearcast.wire."
_SPOOL, _TRUST = "nearcast.spool.", "nearcast.trust."
_DEATHS = ("cut_power", "kill", "switch_plan", "cut_power_while_writing", "fail_sync")


@dataclass(slots=True)
class MutantReport:
    """Which bugs were noticed."""

    caught: list[str] = field(default_factory=list)
    survived: list[str] = field(default_factory=list)


def run_mutants(
    names: Iterable[str] | None = None, begin: Callable[[str], object] = str
) -> MutantReport:
    """Put in each bug by itself and run what has to notice it."""
    report = MutantReport()
    for name in MUTANTS if names is None else names:
        begin(name)
        mutant = MUTANTS[name]
        with ExitStack() as stack:
            stack.enter_context(patch(mutant.replaced, mutant.by))
            was_caught = mutant.caught_by()
        (report.caught if was_caught else report.survived).append(name)
    return report


def _own_at_once(self: Any, publication: Any, *_: Any) -> bool:
    self._gate.begin(publication.publisher, publication.epoch).is_owned = True
    return True


def _forget_notices(publication: Any) -> bytes:
    record: bytes = publication.record()
    return bytes(9) + record


def _take_gaps(self: Any, publication: Any) -> tuple[Verdict, list[Any]]:
    stream = self.begin(publication.publisher, publication.epoch)
    if publication.sequence <= stream.sequence:
        return Verdict.DUPLICATE, []
    stream.sequence = publication.sequence
    return Verdict.TAKEN, [publication]


def _raise_epoch_too_often(self: Any, topic: str, in_force: int, _step: int) -> bool:
    if not self.of(topic) <= in_force:
        return False
    self._raised[topic] = in_force + 1
    return True


def _write_unsynced(self: Any, segment: Any, offset: int, data: bytes) -> None:
    self._disk.write(str(segment), offset, data)


def _ack_before_sync(self: Any, groups: Any) -> None:
    groups = list(groups)
    self._waiting += groups
    self._on_committed([group.ticket for group in groups])
    self._begin_round(self._sync_s())


def _share_at_once(self: Any, topic: str, server: str) -> None:
    own = (one for one in self.topics[topic].spool.view() if one.origin is Origin.DIRECT)
    self._pass.actions.copies.append(Copy(server, topic, tuple(own), is_bulk=True))
    self._pass.has_answers = True


def _any_key(self: Any, data: bytes, _public_key: bytes, now_s: float) -> ClientCredential:
    credential = read_body(self.open(Kind.CLIENT, data), ClientCredential)
    return ClientCredential(*msgspec.structs.astuple(self._valid("client", "", credential, now_s)))


_receive = PeerChannels.receive


def _rising_incarnations(self: Any, server: str, frame: bytes, now: float) -> list[bytes]:
    """Ignore a peer that restarted with a lower incarnation, as when they came from clocks."""
    found = decode_frame(frame)
    if found is None or found.incarnation < self._peer(server).incarnation:
        return []
    return _receive(self, server, frame, now)


def _forget_flights(self: Any, _now: float) -> list[Any]:
    return self._flights.clear() or []


def _any_orders(self: Any, _server: str, message: Any, now: float) -> None:
    self._obey(read_body(read_signed(message.document).body, Orders), now)


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _yes(*_: Any, **__: Any) -> bool:
    return True


def _accept_all(_self: Any, fields: Any, arrived_us: int) -> Any:
    return Notification(*fields, arrived_us)  # type: ignore[call-arg]


def _all_mutants() -> Iterable[Mutant]:
    schedules, attack = catching.schedules, catching.attack
    lenient = msgspec.msgpack.Decoder(MeshMessage).decode
    yield from (
        Mutant(
            "acknowledged before the sync",
            "nearcast.testing.simulated_spool.SimulatedSpool.append",
            _ack_before_sync,
            partial(schedules, "cut_power", seeds=(7, *catching.SEEDS)),
        ),
        Mutant(
            "no sync at all",
            f"{_SPOOL}log.SpoolLog._write_synced",
            _write_unsynced,
            partial(schedules, "cut_power"),
        ),
        Mutant(
            "copied before the sync",
            f"{_BROKER}broker.Broker.share",
            _share_at_once,
            partial(schedules, "fill_disk", *_DEATHS, seeds=(14, *catching.SEEDS)),
        ),
        Mutant(
            "dedupe not rebuilt after a restart",
            f"{_BROKER}sequence_gate.SequenceGate.restore",
            _nothing,
            partial(schedules, "kill", "crash"),
        ),
        Mutant(
            "no fencing",
            f"{_BROKER}claims.TopicClaims.own",
            _own_at_once,
            partial(schedules, "switch_plan", "cut", seeds=(5, *catching.SEEDS)),
        ),
        Mutant(
            "who stood in is not named",
            f"{_SERVER}topic_registry.TopicRegistry.rumours",
            lambda *_: {},
            lambda: bool(stand_in_for_an_owner_behind_a_cut(named_later=True).violations),
        ),
        Mutant(
            "who was given up does not hear of it from others",
            f"{_SERVER}claims.Claims.tell_given_up",
            _nothing,
            lambda: bool(stand_in_for_an_owner_behind_a_cut().violations),
        ),
        Mutant(
            "who does not answer at the start is not asked",
            f"{_SERVER}topic_registry.TopicRegistry.suspect",
            _nothing,
            lambda: bool(stand_in_for_a_restarted_owner().violations),
        ),
        Mutant(
            "a server that was paused goes on as before",
            f"{_SERVER}pause_watch.PauseWatch.note",
            _nothing,
            partial(catching.long_outages, 3_000_127),
        ),
        Mutant(
            "gaps skipped",
            f"{_BROKER}sequence_gate.SequenceGate.admit",
            _take_gaps,
            partial(schedules, "cut"),
        ),
        Mutant(
            "notices not stored",
            f"{_BROKER}settlement.encode_entry",
            _forget_notices,
            partial(schedules, "kill", "go_offline"),
        ),
        Mutant(
            "nothing missed is asked for",
            f"{_SERVER}replays.Replays.ask",
            _nothing,
            partial(schedules, "kill", "go_offline"),
        ),
        Mutant(
            "subscribers of new topics not asked for",
            f"{_SERVER}introductions.Introductions.ask",
            _nothing,
            partial(schedules, "switch_plan"),
        ),
        Mutant(
            "each notification delivered as often as it comes",
            f"{_WIRE}inbox.Inbox.accept",
            _accept_all,
            partial(schedules, "cut"),
        ),
        Mutant(
            "notifications not repeated",
            f"{_WIRE}server_session.ServerSession.resend",
            _forget_flights,
            partial(schedules, "cut"),
        ),
        Mutant(
            "a late refusal raises the epoch",
            f"{_WIRE}epochs.Epochs.raise_above",
            _raise_epoch_too_often,
            partial(schedules, "restart_publisher", "cut", seeds=(41, *range(300))),
        ),
        Mutant(
            "stale epochs are not told",
            f"{_SERVER}router.Router.refuse",
            _nothing,
            partial(schedules, "set_clock", "restart_publisher"),
        ),
        Mutant(
            "incarnations must rise",
            f"{_SERVER}peer_channels.PeerChannels.receive",
            _rising_incarnations,
            partial(schedules, "kill"),
        ),
        Mutant(
            "orders are not kept",
            "nearcast.testing.simulated_server.SimulatedServer._save_orders",
            _nothing,
            catching.servers_without_manager,
        ),
        Mutant(
            "truncated segments are not noticed",
            f"{_SPOOL}recovery.read_ends",
            lambda _data: {},
            catching.truncation,
        ),
        Mutant(
            "replay window of nothing",
            f"{_WIRE}replay_window.ReplayWindow.is_new",
            _yes,
            partial(attack, "replays"),
        ),
        Mutant(
            "cookies of any address",
            f"{_WIRE}init_gate.CookieJar._cookie",
            staticmethod(lambda secret, _address: secret[:16]),
            partial(attack, "stolen cookies"),
        ),
        Mutant(
            "credentials of another key count",
            f"{_TRUST}site_trust.SiteTrust.client",
            _any_key,
            partial(attack, "wrong credentials"),
        ),
        Mutant(
            "forged UNKNOWN believed",
            f"{_WIRE}client_link.ClientLink.has_sent",
            _yes,
            partial(attack, "forged unknowns"),
        ),
        Mutant(
            "signatures not checked",
            f"{_TRUST}site_trust.verify",
            _yes,
            partial(attack, "wrong credentials"),
        ),
        Mutant(
            "expired credentials count",
            f"{_TRUST}site_trust.SiteTrust._check_time",
            _nothing,
            partial(attack, "wrong credentials"),
        ),
        Mutant(
            "no rights needed",
            f"{_SERVER}authorise.refusal",
            _nothing,
            catching.rights,
        ),
        Mutant(
            "orders of anybody",
            f"{_SERVER}server.Server._on_orders",
            _any_orders,
            partial(attack, "lies: orders"),
        ),
        Mutant(
            "acknowledgements of anybody",
            f"{_SERVER}router.Router._check",
            _nothing,
            partial(attack, "lies: acknowledged"),
        ),
        Mutant(
            "clients go on with revoked servers",
            f"{_TRUST}revoked_servers.RevokedServers.check",
            _nothing,
            catching.revoked_home,
        ),
        Mutant(
            "clients ask nobody but their home who was revoked",
            f"{_WIRE}second_opinion.SecondOpinion.begin",
            _nothing,
            catching.revoked_home,
        ),
        Mutant(
            "a home can take the other ways away",
            f"{_WIRE}ways.Ways.met",
            _nothing,
            catching.revoked_home,
        ),
        Mutant(
            "bad UTF-8 between servers raises",
            "nearcast.experiments.survive.bad_input.decode_mesh",
            lenient,
            partial(catching.bad_input, "messages between servers"),
        ),
    )


MUTANTS: dict[str, Mutant] = {one.name: one for one in (*_all_mutants(), *defect_mutants())}
"""All bugs by name."""
