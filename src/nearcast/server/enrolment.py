"""Enrolment at the manager: who may become a client, with which rights, at which home."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from nearcast.errors import ConfigError, TrustError
from nearcast.server.client_checks import check_client
from nearcast.server.home_choice import HomeChoice
from nearcast.trust.credentials import (
    CLIENT_DAYS,
    ClientCredential,
    issue_client,
    next_serial,
    validity,
)
from nearcast.trust.revocations import Revocation, RevocationList
from nearcast.trust.rights import NOTHING, Rights, within
from nearcast.trust.signed import SigningKey

__all__ = [
    "EnrolledClient",
    "Enroller",
    "Enrolment",
    "EnrolmentDirectory",
    "EnrolmentRules",
    "rehomed",
]


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A client that asks to be let in."""

    client: str
    public_key: bytes
    place_km: tuple[float, float] | None = None
    rights: Rights | None = None
    """None: those that it has, or what the site grants everybody."""
    days: float | None = None
    """How long its credential counts; None: as the site says."""


@dataclass(frozen=True, slots=True)
class EnrolledClient:
    """A client that has a credential, and where its home is."""

    client: str
    public_key: bytes
    home: str
    place_km: tuple[float, float] | None = None
    serial: int = 0
    until_s: int = 0
    rights: Rights = NOTHING
    credential: bytes = b""
    """Signed."""


@dataclass(frozen=True, slots=True)
class EnrolmentRules:
    """What is granted to everybody with an enrolment token; operators may grant anything."""

    rights: Rights = NOTHING
    days: float = CLIENT_DAYS


class EnrolmentDirectory(Protocol):
    """The clients that a manager knows."""

    def enrolled(self, client: str) -> EnrolledClient | None:
        """Return a client that is enrolled."""
        ...

    def owner_of(self, public_key: bytes) -> str | None:
        """Return the client that has a key."""
        ...

    def planned_home(self, client: str) -> str | None:
        """Return the home of a client of the plan."""
        ...


class Enroller:
    """Issues credentials to clients; what it returns is to be made durable."""

    def __init__(
        self, directory: EnrolmentDirectory, key: SigningKey, rules: EnrolmentRules
    ) -> None:
        self._directory, self._key, self._rules = directory, key, rules

    def enrol(
        self,
        enrolments: Iterable[Enrolment],
        homes: HomeChoice,
        revoked: RevocationList,
        now_s: float,
        *,
        is_operator: bool,
    ) -> tuple[list[EnrolledClient], list[Revocation]]:
        """Return the clients, with their credentials, and what no longer counts because of that.

        Raises
        ------
        ConfigError
            Naming the first client that cannot be let in; then nothing changes.
        TrustError
            When an operator would have to ask.
        """
        least = {one.name: one.least_serial for one in revoked.entries if one.kind == "client"}
        made: dict[str, EnrolledClient] = {}
        owners: dict[bytes, str] = {}
        revocations = []
        for asked in enrolments:
            check_client(asked.client, asked.public_key, asked.place_km)
            before = made.get(asked.client) or self._directory.enrolled(asked.client)
            owner = owners.get(asked.public_key) or self._directory.owner_of(asked.public_key)
            if owner not in (None, asked.client):  # a key is one client's
                raise ConfigError(f"the public key of client {asked.client!r} is another client's")
            rights = self._rights(asked, before, is_operator)
            if not is_operator:
                _check_stranger(asked, before, rights, least.get(asked.client, 0))
                if (asked.days or 0) > self._rules.days:
                    raise TrustError(f"an enrolment token grants {self._rules.days:g} days")
            known = max(before.serial if before else 0, least.get(asked.client, 1) - 1)
            serial = next_serial(known, now_s)
            span = validity(asked.days or self._rules.days, now_s)
            credential = ClientCredential(asked.client, asked.public_key, serial, span, rights)
            if before is not None and (before.public_key, before.rights) != (
                asked.public_key,
                rights,
            ):
                revocations.append(Revocation("client", asked.client, serial, before.until_s))
            made[asked.client] = EnrolledClient(
                asked.client,
                asked.public_key,
                self._home(asked, before, homes),
                asked.place_km,
                serial,
                span.until_s,
                rights,
                issue_client(self._key, credential),
            )
            owners[asked.public_key] = asked.client
        return list(made.values()), revocations

    def _rights(self, asked: Enrolment, before: EnrolledClient | None, is_operator: bool) -> Rights:
        if asked.rights is None:
            return before.rights if before is not None else self._rules.rights
        return asked.rights if is_operator else within(asked.rights, self._rules.rights)

    def _home(self, asked: Enrolment, before: EnrolledClient | None, homes: HomeChoice) -> str:
        planned = self._directory.planned_home(asked.client)
        if planned is not None:
            return planned
        if asked.place_km is not None:
            return homes.move(before.home if before else None, asked.place_km)
        if before is not None:
            return before.home
        raise ConfigError(
            f"client {asked.client!r} is not in the scenario: its place is needed (x_km, y_km)"
        )


def _check_stranger(
    asked: Enrolment, before: EnrolledClient | None, rights: Rights, least_serial: int
) -> None:
    """Keep an enrolment token from taking over a client, or bringing back one that was revoked.

    Nor does it change what a client may do: everybody may know the client's public key.
    """
    if before is not None and before.public_key != asked.public_key:
        raise TrustError(
            f"client {asked.client!r} is enrolled with another key; only an operator's token"
            " replaces it"
        )
    if before is not None and before.rights != rights:
        raise TrustError(
            f"client {asked.client!r} is enrolled with other rights; only an operator's token"
            " changes them"
        )
    if least_serial > (before.serial if before else 0):
        raise TrustError(
            f"client {asked.client!r} was revoked; only an operator's token brings it back"
        )


def rehomed(client: EnrolledClient, homes: HomeChoice) -> EnrolledClient:
    """Return a client whose home is gone with another one.

    One whose place was known from an earlier scenario only has to be somewhere.
    """
    return replace(client, home=homes.move(None, client.place_km or (0.0, 0.0)))
