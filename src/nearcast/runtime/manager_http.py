"""What is asked of the manager over HTTP: enrol clients, revoke, adopt a plan, set processors, run flows.

Such requests show a token. That of operators may do all of it; that of enrolment may enrol new
clients, and ask for those that are enrolled. Answers are JSON; an error is one line under
``error``.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast
from urllib.parse import unquote

import msgspec

from nearcast.errors import ConfigError, NearcastError, OutputError, TrustError
from nearcast.runtime.manager_flows import FlowService, answer_flows
from nearcast.runtime.manager_plans import AskedPlan, PlanPart
from nearcast.runtime.metric_text import MetricText
from nearcast.server.enrolment import EnrolledClient, Enrolment
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.rights import Rights

__all__ = [
    "ManagerService",
    "Tokens",
    "TooManyError",
    "answer_operator",
    "manager_metrics",
    "read_token",
]

_LEAST_TOKEN_LENGTH = 16
_ANSWER_WITHIN_S = 30.0
"""How long an operator's request may take."""
_ADOPT_WITHIN_S = 600.0
"""The same, for another plan."""
CredentialKind = Literal["client", "server"]
_REFUSALS = {
    400: "invalid",
    401: "wrong_token",
    403: "not_allowed",
    429: "too_many",
    503: "unavailable",
}
"""By the status of the answer."""
_PLAN_PART = re.compile(r"/plans/in-force/(homes|brokers)/(.*)", re.DOTALL)
Answer = tuple[int, Any]
"""Status and content, to be sent as JSON."""


class TooManyError(NearcastError):
    """More is asked than is allowed at a time; later it may be."""


class Tokens(NamedTuple):
    """The secrets that requests show."""

    operate: str
    enrol: str | None = None


class ManagerService(Protocol):
    """What the HTTP side needs of a manager."""

    credential: bytes
    """The manager's own, signed: it signs those of clients."""
    plane: bytes
    """Where on the earth the site lies, signed; empty: that is not known."""
    refused_requests: Counter[str]
    """Enrolments and requests of operators that were not granted, by reason."""

    async def enrol(
        self, enrolments: Sequence[Enrolment], *, is_operator: bool
    ) -> list[EnrolledClient]:
        """Enrol clients, durably."""
        ...

    async def revoke(self, kind: CredentialKind, name: str) -> int:
        """Let no credential count that somebody has so far; return the list's version."""
        ...

    def ways_from(self, home: str) -> list[str]:
        """Return other edge servers for a client, the nearest to its home first."""
        ...

    def find_client(self, client: str) -> EnrolledClient | None:
        """Return an enrolled client."""
        ...

    def server(self, server: str) -> ServerOrder:
        """Return where a server is."""
        ...

    async def adopt(self, asked: AskedPlan) -> int:
        """Adopt another plan; return its version."""
        ...

    def plan_part(self, part: PlanPart, after: str) -> dict[str, Any]:
        """Return some rows of the plan in force: those that follow a name."""
        ...

    @property
    def flows(self) -> FlowService:
        """What is asked about flows."""
        ...

    @property
    def processors(self) -> tuple[ProcessorRule, ...]:
        """What brokers do with messages."""
        ...

    async def set_processors(self, rules: Sequence[ProcessorRule]) -> int:
        """Have brokers do something else with messages, durably; return the new revision."""
        ...


class _EnrolBody(msgspec.Struct, forbid_unknown_fields=True):
    client: str
    public_key: str
    x_km: float | None = None
    y_km: float | None = None
    rights: Rights | None = None
    days: float | None = None


class _RevokeBody(msgspec.Struct, forbid_unknown_fields=True):
    kind: CredentialKind
    name: str


def read_token(path: Path) -> str:
    """Return the secret that operators show.

    Raises
    ------
    ConfigError
        When there is none, or one that could be guessed.
    """
    try:
        token = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigError(f"token file {path}: cannot be read: {error.strerror}") from None
    except UnicodeError:
        token = ""
    if len(token) < _LEAST_TOKEN_LENGTH or not token.isprintable() or " " in token:
        raise ConfigError(
            f"token file {path}: must hold one word of {_LEAST_TOKEN_LENGTH} or more ASCII"
            " characters"
        )
    return token


def manager_metrics(status: Mapping[str, Any]) -> bytes:
    """Return a manager's status as Prometheus metrics."""
    text = MetricText()
    gauges = {
        "revision": ("Revision of the orders.", status["revision"]),
        "plan_version": ("Version of the plan in force.", status["plan_version"]),
        "servers": ("Servers of the site.", status["counts"]["servers"]),
        "servers_up": ("Servers that were heard lately.", status["counts"]["servers_up"]),
        "clients_enrolled": (
            "Clients that the manager has given a credential.",
            status["counts"]["clients_enrolled"],
        ),
        "revocations": (
            "Clients and servers of which credentials were revoked.",
            status["counts"]["revocations"],
        ),
    }
    for name, (meaning, value) in gauges.items():
        text.add(f"nearcast_manager_{name}", "gauge", meaning, value)
    days_left = {one["id"]: one["credential_days_left"] for one in status["servers"]}
    text.add_by(
        "nearcast_manager_credential_days_left",
        "gauge",
        "Days until a server's credential ends; below 0: it has ended.",
        "server",
        ((server, days) for server, days in days_left.items() if days is not None),
    )
    text.add(
        "nearcast_manager_refused_messages_total",
        "counter",
        "Frames and messages from servers that the manager could not read or does not take.",
        status["counts"]["refused_messages"],
    )
    text.add_by(
        "nearcast_manager_refused_requests_total",
        "counter",
        "Enrolments and requests of operators that were not granted, by reason.",
        "reason",
        status["refused_requests"].items(),
    )
    return text.encode()


async def answer_operator(
    service: ManagerService,
    tokens: Tokens,
    method: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
) -> Answer:
    """Return the status and the content of the answer to one request; count it if refused."""
    status, content = await _answer_checked(service, tokens, method, path, body, headers)
    if status in _REFUSALS:
        is_enrolment = path == "/clients" or path.startswith("/clients/")
        what = "enrolment" if is_enrolment else "operation"
        service.refused_requests[f"{what}_{_REFUSALS[status]}"] += 1
    return status, content


async def _answer_checked(
    service: ManagerService,
    tokens: Tokens,
    method: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
) -> Answer:
    given = headers.get("Authorization", "")
    is_operator = _shows(given, tokens.operate)
    if not is_operator and not (tokens.enrol and _shows(given, tokens.enrol)):
        return 401, {"error": "wrong or missing token: send 'Authorization: Bearer TOKEN'"}
    try:
        async with asyncio.timeout(_ADOPT_WITHIN_S if path == "/plans" else _ANSWER_WITHIN_S):
            if path == "/clients" or path.startswith("/clients/"):
                return await _answer_enrolment(service, method, path, body, is_operator)
            if not is_operator:
                return 403, {"error": "this is for operators; the token is for enrolment only"}
            return await _answer(service, method, path, body)
    except msgspec.MsgspecError as error:
        return 400, {"error": f"the body of the request cannot be used: {error}"}
    except TrustError as error:
        return 403, {"error": str(error)}
    except TooManyError as error:
        return 429, {"error": str(error)}
    except (OutputError, TimeoutError) as error:
        return 503, {"error": str(error) or "the manager is busy; try again later"}
    except NearcastError as error:
        return 400, {"error": str(error)}


async def _answer(service: ManagerService, method: str, path: str, body: bytes) -> Answer:
    if (method, path) == ("POST", "/revocations"):
        asked = msgspec.json.decode(body, type=_RevokeBody)
        return 200, {"version": await service.revoke(asked.kind, asked.name)}
    if (method, path) == ("POST", "/plans"):
        wanted = msgspec.json.decode(body, type=AskedPlan, dec_hook=_to_path)
        return 200, {"plan_version": await service.adopt(wanted)}
    if method == "GET" and (found := _PLAN_PART.fullmatch(path)):
        return 200, service.plan_part(cast("PlanPart", found[1]), unquote(found[2]))
    if (method, path) == ("PUT", "/processors"):
        rules = msgspec.json.decode(body, type=list[ProcessorRule])
        return 200, {"revision": await service.set_processors(rules)}
    if (method, path) == ("GET", "/processors"):
        return 200, msgspec.to_builtins(list(service.processors))
    if path == "/flows" or path.startswith("/flows/"):
        return await answer_flows(service.flows, method, path, body)
    return 404, {"error": f"there is no {method} {path}"}


async def _answer_enrolment(
    service: ManagerService, method: str, path: str, body: bytes, is_operator: bool
) -> Answer:
    """Enrol one client, or a list of them all or none; or tell about one."""
    if (method, path) == ("POST", "/clients"):
        asked = msgspec.json.decode(body, type=_EnrolBody | list[_EnrolBody])
        wanted = [_enrolment(one) for one in (asked if isinstance(asked, list) else [asked])]
        return 200, _about(service, await service.enrol(wanted, is_operator=is_operator))
    name = unquote(path.removeprefix("/clients/"))
    if method != "GET" or not name or path == "/clients":
        return 404, {"error": f"there is no {method} {path}"}
    found = service.find_client(name)
    if found is None:
        return 404, {"error": f"client {name!r} is not enrolled"}
    return 200, _about(service, [found])


def _shows(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), f"Bearer {token}".encode())


def _enrolment(asked: _EnrolBody) -> Enrolment:
    try:
        public_key = bytes.fromhex(asked.public_key)
    except ValueError:
        raise ConfigError(f"public_key of client {asked.client!r}: must be hex digits") from None
    if (asked.x_km is None) != (asked.y_km is None):
        raise ConfigError(f"client {asked.client!r}: x_km and y_km belong together")
    place_km = None
    if asked.x_km is not None and asked.y_km is not None:
        place_km = (asked.x_km, asked.y_km)
    return Enrolment(asked.client, public_key, place_km, asked.rights, asked.days)


def _about(service: ManagerService, clients: Sequence[EnrolledClient]) -> dict[str, Any]:
    """Return credentials and homes, with what proves them to one who knows the authority."""
    ways = {one.home: service.ways_from(one.home) for one in clients}
    servers = {name: service.server(name) for home in ways for name in (home, *ways[home])}
    return {
        "manager": service.credential.hex(),
        **({"plane": service.plane.hex()} if service.plane else {}),
        "servers": {
            name: {"host": one.host, "port": one.port, "credential": one.credential.hex()}
            for name, one in servers.items()
        },
        "clients": [
            {
                "client": one.client,
                "credential": one.credential.hex(),
                "home": one.home,
                "ways": ways[one.home],
            }
            for one in clients
        ],
    }


def _to_path(kind: type, value: Any) -> Any:
    return kind(value)
