"""What must hold after all faults are mended: sets of messages, as Jepsen's queue test has them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from nearcast.broker.notices import decode_entry
from nearcast.experiments.survive.trial_site import TrialMessage, TrialSite
from nearcast.testing.counting_processor import read_effects
from nearcast.wire.actions import Missed

__all__ = ["Findings", "Violation", "check"]


class Violation(NamedTuple):
    """A promise that was not kept."""

    kind: str
    detail: str


@dataclass(slots=True)
class Findings:
    """Sizes of the sets, and the messages of those that must be empty."""

    attempted: int = 0
    acknowledged: int = 0
    recovered: int = 0
    """Took effect although they were never acknowledged."""
    taken_over: int = 0
    """Processed again because they were in doubt when a server was given up: see
    `TrialSite.doubts`. At most once by each such server, and once by its successor."""
    damaged: int = 0
    """Lost, missed or processed twice because a spool was spoiled: see `TrialSite.may_be_damaged`."""
    heard: int = 0
    violations: list[Violation] = field(default_factory=list)

    def add(self, kind: str, detail: object) -> None:
        """Note a violation."""
        self.violations.append(Violation(kind, str(detail)))


def check(trial: TrialSite) -> Findings:
    """Compare what was published with spools, effects and what subscribers heard."""
    trial.look()
    found = Findings(len(trial.messages))
    by_payload = {one.payload: one for one in trial.messages}
    effects = _effects(trial)
    spooled = _check_spools(trial, found)
    for payload, count in effects.items():
        if payload not in by_payload:
            found.add("unexpected", payload)
        elif 1 < count <= 1 + trial.doubts(by_payload[payload]):
            found.taken_over += 1
        elif count > 1 and not _is_damaged(trial, by_payload[payload], found):
            found.add("processed_twice", f"{payload}, {count} times")
    for message in trial.messages:
        if message.acknowledged:
            found.acknowledged += 1
            has_record = message.payload in spooled or trial.spool < len(trial.messages)
            if message.payload in effects and has_record:
                continue
            if not _is_damaged(trial, message, found):
                what = "in no spool" if message.payload in effects else "without effect"
                found.add("lost", f"{message.payload} is acknowledged and {what}")
        else:
            found.recovered += message.payload in effects
    for name in trial.subscriber_names:
        _check_hearer(trial, name, by_payload, found)
    if trial.waiting:
        found.add("unacknowledged", f"{trial.waiting} publications")
    return found


def _is_damaged(trial: TrialSite, message: TrialMessage, found: Findings) -> bool:
    is_damaged = trial.may_be_damaged(message)
    found.damaged += is_damaged
    return is_damaged


def _effects(trial: TrialSite) -> Counter[str]:
    """Return how often each message took effect, over all servers."""
    effects: Counter[str] = Counter()
    for server in trial.site.servers.values():
        for live in server.stored.topics.values():
            effects += read_effects(live.state)
    return effects


def _check_spools(trial: TrialSite, found: Findings) -> set[str]:
    """Return what is in any spool; each has every message once and in its publisher's order."""
    spooled: set[str] = set()
    for name, server in trial.site.servers.items():
        for topic, live in server.stored.topics.items():
            records = [decode_entry(topic, one) for one in live.records]
            last: dict[str, tuple[int, int]] = {}
            for one in records:
                place = (one.epoch, one.sequence)
                if place <= last.get(one.publisher, (0, 0)):
                    found.add("spool_order", f"{name}: {one.payload.decode()}")
                last[one.publisher] = place
            spooled.update(one.payload.decode() for one in records)
    return spooled


def _check_hearer(
    trial: TrialSite, name: str, by_payload: dict[str, TrialMessage], found: Findings
) -> None:
    notified = trial.site.clients[name].notified
    heard = [one.payload.decode() for one in notified]
    found.heard += len(heard)
    for payload, count in Counter(heard).items():
        if payload not in by_payload:
            found.add("unexpected", f"{name} heard what nobody published: {payload}")
        if count > 1:
            found.add("heard_twice", f"{name}: {payload}, {count} times")
    last: dict[tuple[str, str], int] = {}
    for one, payload in zip(notified, heard, strict=True):
        topic, publisher, number = payload.split()
        if int(number) > last.get((topic, publisher), -1):
            last[topic, publisher] = int(number)
        elif trial.is_in_order or not one.is_late:
            found.add("heard_out_of_order", f"{name}: {payload}")
    missed = {
        one.payload for one in trial.messages if one.acknowledged and name in one.hearers
    }.difference(heard)
    told = Counter[str]()
    for _, event in trial.site.clients[name].events:
        if isinstance(event, Missed):
            told[event.topic] += event.count
    for payload in sorted(missed):
        # what is beyond the topic's retention is gone, but not without a word
        if trial.spool < len(trial.messages) and told[by_payload[payload].topic]:
            continue
        if not _is_damaged(trial, by_payload[payload], found):
            found.add("missed", f"{name}: {payload}")
