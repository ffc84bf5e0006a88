"""How a new client joins a site: the manager signs its public key and tells its home.

What the manager says is believed because the site's authority stands behind it, whose public key
the client has beforehand: plain HTTP is enough.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from nearcast.errors import ConfigError, NearcastError, TrustError
from nearcast.links.http_client import HttpRefusedError, ask
from nearcast.sdk.credentials import Credentials, new_private_key
from nearcast.sdk.failures import NotConnectedError, RequestRefusedError
from nearcast.trust.rights import Rights
from nearcast.trust.site_plane import read_plane
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.actions import Home
from nearcast.wire.noise import public_key

__all__ = ["enrol", "read_answer"]


class _Server(msgspec.Struct):
    host: str
    port: int
    credential: str


class _Client(msgspec.Struct):
    client: str
    credential: str
    home: str
    ways: list[str]


class _Answer(msgspec.Struct):
    manager: str
    servers: dict[str, _Server]
    clients: list[_Client]
    plane: str = ""
    """Signed; empty: the site does not know where on the earth it is."""


def enrol(
    manager_url: str,
    client: str,
    token: str,
    authority: bytes,
    *,
    x_km: float | None = None,
    y_km: float | None = None,
    rights: Rights | None = None,
    days: float | None = None,
    timeout_s: float = 10.0,
) -> Credentials:
    """Make a key for a client, have the manager sign it, and return the credentials.

    Parameters
    ----------
    token
        Of enrolment, or of operators.
    authority
        The public key of the site's authority.
    rights
        What the client may do; None: what the site grants everybody.

    Raises
    ------
    ConfigError
        When the address of the manager or the token is invalid.
    RequestRefusedError
        When the manager said no.
    NotConnectedError
        When it cannot be reached, or the authority does not stand behind its answer.
    """
    url = f"{manager_url.rstrip('/')}/clients"
    private_key = new_private_key()
    question: dict[str, Any] = {"client": client, "public_key": public_key(private_key).hex()}
    extra = {"x_km": x_km, "y_km": y_km, "rights": rights, "days": days}
    question |= {
        name: msgspec.to_builtins(value) for name, value in extra.items() if value is not None
    }
    try:
        found = ask(url, question, token, timeout_s)
    except HttpRefusedError as error:
        raise RequestRefusedError(str(error), error.said) from None
    except ConfigError:
        raise
    except NearcastError as error:
        raise NotConnectedError(str(error)) from None
    try:
        enrolled = read_answer(found, {client: private_key}, authority)
        return replace(enrolled[client], x_km=x_km, y_km=y_km)
    except (NearcastError, KeyError) as error:
        raise NotConnectedError(f"{url}: the answer cannot be believed: {error}") from None


def read_answer(
    found: Any, private_keys: Mapping[str, bytes], authority: bytes
) -> dict[str, Credentials]:
    """Return the clients in a manager's answer, by name.

    Raises
    ------
    TrustError
        When the authority does not stand behind it.
    ConfigError
        When it is something else.
    """
    trust, now_s = SiteTrust(authority), time.time()
    try:
        answer = msgspec.convert(found, _Answer)
        trust.add_signer(bytes.fromhex(answer.manager), now_s)
        homes = {name: _home(trust, name, one, now_s) for name, one in answer.servers.items()}
        plane = read_plane(trust, bytes.fromhex(answer.plane)) if answer.plane else None
        credentials = {}
        for one in answer.clients:
            key, document = private_keys[one.client], bytes.fromhex(one.credential)
            if trust.client(document, public_key(key), now_s).client != one.client:
                raise TrustError(f"the credential is not of client {one.client!r}")
            credentials[one.client] = Credentials(
                one.client,
                key,
                homes[one.home],
                credential=document,
                authority=authority,
                servers=tuple(homes[name] for name in one.ways),
                plane=plane,
            )
    except TrustError:
        raise
    except (msgspec.ValidationError, KeyError, ValueError) as error:
        raise ConfigError(f"the answer of the manager makes no sense: {error}") from None
    return credentials


def _home(trust: SiteTrust, name: str, server: _Server, now_s: float) -> Home:
    document = bytes.fromhex(server.credential)
    credential = trust.server(document, now_s)
    if (credential.server, credential.role) != (name, "edge"):
        raise TrustError(f"the credential is not of edge server {name!r}")
    return Home((server.host, server.port), credential.public_key, document)
