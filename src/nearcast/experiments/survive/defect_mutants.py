"""Seeded bugs that bring back, one by one, the defects of ``docs/defects.md``."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from nearcast.broker.actions import Ack
from nearcast.errors import TrustError
from nearcast.experiments.survive import defects, part_defects
from nearcast.experiments.survive.mutant import Mutant
from nearcast.server.topic_expiry import TopicExpiry
from nearcast.trust.signed import read_signed
from nearcast.wire.codec import Refused
from nearcast.wire.server_sessions import ServerSessions

__all__ = ["defect_mutants"]

_SERVER, _BROKER, _WIRE = "nearcast.server.", "nearcast.broker.", "nearcast.wire."
_RUNTIME, _TRUST = "nearcast.runtime.", "nearcast.trust."


def defect_mutants() -> Iterable[Mutant]:
    """Return them, in the order of the page; those of `mutants` are the others of it."""
    yield from (
        Mutant(
            "any processor is run",
            f"{_SERVER}topic_registry.check_allowed",
            _nothing,
            defects.any_processor,
        ),
        Mutant(
            "times of any size are taken",
            f"{_WIRE}hot_frames._LARGEST_US",
            1 << 70,
            defects.extreme_time,
        ),
        Mutant(
            "a bug in one topic ends the pass of all",
            f"{_BROKER}broker.Broker.run",
            _run_unguarded,
            defects.bug_in_a_topic,
        ),
        Mutant(
            "a client makes as many topics as it likes",
            f"{_SERVER}allowance.Allowances._may_make",
            _yes,
            defects.topics_of_a_client,
        ),
        Mutant(
            "topics stay for ever",
            f"{_SERVER}topic_expiry.TopicExpiry.take_idle",
            _find_nothing_idle,
            defects.topics_that_nobody_uses,
        ),
        Mutant(
            "sessions of revoked clients go on",
            f"{_WIRE}server_sessions.ServerSessions.end_invalid",
            _nothing,
            defects.revoked_session,
        ),
        Mutant(
            "a key counts though the client has another one",
            f"{_SERVER}authorise.Authoriser._check_newest",
            _nothing,
            part_defects.replaced_key,
        ),
        Mutant(
            "keys of a session are never too old",
            f"{_WIRE}session_table.SessionTable.rekey_overdue",
            lambda *_: [],
            defects.old_keys,
        ),
        Mutant(
            "clocks omit sleep",
            "nearcast.links.steady_clock._COUNTER",
            time.CLOCK_MONOTONIC,
            part_defects.sleep,
        ),
        Mutant(
            "a clock that is not set keeps everybody out",
            f"{_TRUST}site_trust.SiteTrust._check_time",
            _check_both_ends,
            defects.unset_clock,
        ),
        Mutant(
            "publications are taken while the disk stalls",
            f"{_SERVER}server.Server._is_ready",
            _yes,
            defects.back_pressure,
        ),
        Mutant(
            "handshakes need no cookie",
            f"{_WIRE}handshake_gate.HandshakeGate._is_quiet",
            _yes,
            defects.handshake_budget,
        ),
        Mutant(
            "a flood in the name of a network locks it out",
            f"{_WIRE}handshake_gate.HandshakeGate.ask_for_cookie",
            lambda *_: Refused("init_rate"),
            defects.locked_out,
        ),
        Mutant(
            "no payload is too large",
            f"{_WIRE}server_session.payload_room",
            lambda *_: 1 << 16,
            defects.payload_sizes,
        ),
        Mutant(
            "the event log keeps everything",
            f"{_RUNTIME}event_log_files.Retention.remove_old",
            lambda *_: 0,
            part_defects.log_size,
        ),
        Mutant(
            "what parts lose is not told",
            f"{_RUNTIME}metrics.ServerMetrics.losses",
            lambda self: {"drops": dict(self.drops), "notifications_dropped": 0},
            part_defects.losses,
        ),
        Mutant(
            "a full disk is a wrong configuration",
            f"{_RUNTIME}server.SpoolFullError",
            _NeverError,
            part_defects.full_disk,
        ),
        Mutant(
            "a token of enrolment replaces keys",
            f"{_SERVER}enrolment._check_stranger",
            _nothing,
            part_defects.any_token,
        ),
        Mutant(
            "whatever answers is the manager",
            f"{_TRUST}site_trust.SiteTrust.open",
            lambda _self, _kind, data: read_signed(data).body,
            part_defects.false_manager,
        ),
        Mutant(
            "where streams go is remembered for ever",
            f"{_SERVER}stream_targets.islice",
            lambda *_: (),
            part_defects.stream_targets,
        ),
        Mutant(
            "all are remembered that ever published once",
            f"{_BROKER}once_gate.OnceGate.note",
            _note_for_ever,
            part_defects.once_publishers,
        ),
        Mutant(
            "redirections outlive their orders",
            f"{_WIRE}server_sessions.ServerSessions.redirect",
            _redirect_for_ever,
            defects.stale_redirect,
        ),
        Mutant(
            "a whole spool is one message",
            f"{_SERVER}peers._COPIES_BYTES",
            1 << 40,
            defects.large_transfer,
        ),
        Mutant(
            "one server is enough for level 2",
            f"{_BROKER}acknowledgements.Acknowledgements._acknowledge_secured",
            _acknowledge_alone,
            defects.level_two,
        ),
        Mutant(
            "no home stands in for the cloud",
            f"{_SERVER}stream_targets.StreamTargets.set_away",
            lambda *_: False,
            defects.cloud_away,
        ),
    )


class _NeverError(Exception):
    """Is raised by nobody."""


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _yes(*_: Any, **__: Any) -> bool:
    return True


def _run_unguarded(self: Any, now_s: float) -> Any:
    actions, due = self._pass.take()
    self._groups.store([topic.run(now_s, actions) for topic in due], actions)
    return actions


def _check_both_ends(_self: Any, validity: Any, now_s: float) -> None:
    if not validity.issued_s <= now_s < validity.until_s:
        raise TrustError("the credential does not count now", "expired")


def _note_for_ever(self: Any, publication: Any) -> None:
    self._last[publication.publisher] = (publication.epoch, publication.sequence)


_take_idle = TopicExpiry.take_idle


def _find_nothing_idle(self: Any, now: float) -> list[str]:
    return _take_idle(self, now)[:0]


_redirect = ServerSessions.redirect


def _redirect_for_ever(self: Any, client: str, home: Any) -> list[bytes]:
    session = self._table.by_client.get(client)
    before = None if session is None else session.redirect
    left = _redirect(self, client, home)
    if session is not None and home is None:
        session.redirect = before
    return left


def _acknowledge_alone(self: Any, stream: Any, actions: Any) -> int:
    durable = stream.durable
    if durable is None:
        return 0
    ack = Ack(self._topic, stream.publisher, stream.epoch, durable.sequence, stream.home, 2)
    actions.acks.append(ack)
    reached: int = durable.sequence
    return reached
