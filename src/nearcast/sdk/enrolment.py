"""How a new client joins a site: the manager learns its public key and tells its home."""

from __future__ import annotations

from typing import Any

import msgspec

from nearcast.errors import ConfigError, NearcastError
from nearcast.links.http_client import HttpRefusedError, ask
from nearcast.sdk.credentials import Credentials, new_private_key, read_home
from nearcast.sdk.failures import NotConnectedError, RequestRefusedError
from nearcast.wire.noise import public_key

__all__ = ["enrol"]


class _Answer(msgspec.Struct):
    client: str
    home: Any
    delays_ms: dict[str, float] = {}
    datagram_limit: int | None = None


def enrol(
    manager_url: str,
    client: str,
    token: str,
    *,
    x_km: float | None = None,
    y_km: float | None = None,
    timeout_s: float = 10.0,
) -> Credentials:
    """Make a key for a client, tell the manager, and return the credentials.

    Raises
    ------
    ConfigError
        When the address of the manager or the token is invalid.
    RequestRefusedError
        When the manager said no.
    NotConnectedError
        When it cannot be reached or its answer makes no sense.
    """
    url = f"{manager_url.rstrip('/')}/clients"
    private_key = new_private_key()
    question: dict[str, Any] = {"client": client, "public_key": public_key(private_key).hex()}
    question |= {
        name: value for name, value in (("x_km", x_km), ("y_km", y_km)) if value is not None
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
        answer = msgspec.convert(found, _Answer)
        return Credentials(
            client=answer.client,
            private_key=private_key,
            home=read_home(answer.home),
            x_km=x_km,
            y_km=y_km,
            delays_ms=answer.delays_ms,
            datagram_limit=answer.datagram_limit,
        )
    except (msgspec.ValidationError, ConfigError) as error:
        raise NotConnectedError(f"{url}: the answer makes no sense: {error}") from None
