"""What operators ask the manager over HTTP: enrol clients, adopt another plan, set processors.

Such requests show the secret of the token file. Answers are JSON; an error is one line under
``error``.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec

from nearcast.errors import ConfigError, NearcastError, OutputError
from nearcast.runtime.metric_text import MetricText
from nearcast.server.manager_state import EnrolledClient, Enrolment
from nearcast.server.processor_rules import ProcessorRule
from nearcast.server.site_orders import ServerOrder

__all__ = [
    "ManagerService",
    "answer_operator",
    "manager_metrics",
    "read_token",
]

_LEAST_TOKEN_LENGTH = 16
_ANSWER_WITHIN_S = 30.0
"""How long an operator's request may take; a plan of a million clients is read in less."""
Answer = tuple[int, Any]
"""Status and content, to be sent as JSON."""


class ManagerService(Protocol):
    """What the HTTP side needs of a manager."""

    async def enrol(self, enrolments: Sequence[Enrolment]) -> list[EnrolledClient]:
        """Enrol clients, durably."""
        ...

    def find_client(self, client: str) -> EnrolledClient | None:
        """Return an enrolled client."""
        ...

    def server(self, server: str) -> ServerOrder:
        """Return where a server is."""
        ...

    async def adopt(self, folder: Path) -> int:
        """Adopt another plan; return its version."""
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


class _PlanBody(msgspec.Struct, forbid_unknown_fields=True):
    plan: str


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
        "clients_enrolled": ("Clients that may connect.", status["counts"]["clients_enrolled"]),
    }
    for name, (meaning, value) in gauges.items():
        text.add(f"nearcast_manager_{name}", "gauge", meaning, value)
    return text.encode()


async def answer_operator(
    service: ManagerService,
    token: str,
    method: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
) -> Answer:
    """Return the status and the content of the answer to one request."""
    given = headers.get("Authorization", "")
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        return 401, {"error": "wrong or missing token: send 'Authorization: Bearer TOKEN'"}
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            return await _answer(service, method, path, body)
    except msgspec.MsgspecError as error:
        return 400, {"error": f"the body of the request cannot be used: {error}"}
    except (OutputError, TimeoutError) as error:
        return 503, {"error": str(error) or "the manager is busy; try again later"}
    except NearcastError as error:
        return 400, {"error": str(error)}


async def _answer(service: ManagerService, method: str, path: str, body: bytes) -> Answer:
    if (method, path) == ("POST", "/clients"):
        return await _enrol(service, body)
    if (method, path) == ("POST", "/plans"):
        plan = Path(msgspec.json.decode(body, type=_PlanBody).plan)
        return 200, {"plan_version": await service.adopt(plan)}
    if (method, path) == ("PUT", "/processors"):
        rules = msgspec.json.decode(body, type=list[ProcessorRule])
        return 200, {"revision": await service.set_processors(rules)}
    if (method, path) == ("GET", "/processors"):
        return 200, msgspec.to_builtins(list(service.processors))
    if method == "GET" and path.startswith("/clients/"):
        name = unquote(path.removeprefix("/clients/"))
        found = service.find_client(name)
        if found is None:
            return 404, {"error": f"client {name!r} is not enrolled"}
        return 200, _about(service, found)
    return 404, {"error": f"there is no {method} {path}"}


async def _enrol(service: ManagerService, body: bytes) -> Answer:
    """Enrol one client, or a list of them all or none."""
    asked = msgspec.json.decode(body, type=_EnrolBody | list[_EnrolBody])
    if isinstance(asked, list):
        enrolled = await service.enrol([_enrolment(one) for one in asked])
        return 200, [_about(service, one) for one in enrolled]
    (one,) = await service.enrol([_enrolment(asked)])
    return 200, _about(service, one)


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
    return Enrolment(asked.client, public_key, place_km)


def _about(service: ManagerService, client: EnrolledClient) -> dict[str, Any]:
    home = service.server(client.home)
    return {
        "client": client.client,
        "home": {
            "host": home.host,
            "port": home.port,
            "server_key": home.public_key.hex(),
        },
        "delays_ms": {},
    }
