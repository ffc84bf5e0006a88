"""How a new client joins a site: the manager learns its public key and tells its home."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from nearcast.errors import ConfigError
from nearcast.sdk.credentials import Credentials, new_private_key, read_home
from nearcast.sdk.failures import NotConnectedError, RequestRefusedError
from nearcast.wire.noise import public_key

__all__ = ["enrol"]

_ANSWER_LIMIT_BYTES = 1 << 20


class _Answer(msgspec.Struct):
    client: str
    home: Any
    delays_ms: dict[str, float] = {}
    datagram_limit: int | None = None


class _NoRedirects(HTTPRedirectHandler):
    """The token is for this manager only."""

    def redirect_request(self, *_: Any) -> None:
        """Let every redirection count as an error."""


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
        When the address of the manager or the token is none.
    RequestRefusedError
        When the manager said no.
    NotConnectedError
        When it cannot be reached or its answer makes no sense.
    """
    url = f"{manager_url.rstrip('/')}/clients"
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigError(f"{manager_url!r} is no address such as http://host:port")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("the token must be one word of ASCII characters")
    private_key = new_private_key()
    question: dict[str, Any] = {"client": client, "public_key": public_key(private_key).hex()}
    question |= {
        name: value for name, value in (("x_km", x_km), ("y_km", y_km)) if value is not None
    }
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = Request(url, msgspec.json.encode(question), headers, method="POST")
    try:
        with build_opener(_NoRedirects()).open(request, timeout=timeout_s) as reply:
            answer = msgspec.json.decode(reply.read(_ANSWER_LIMIT_BYTES), type=_Answer)
        return Credentials(
            client=answer.client,
            private_key=private_key,
            home=read_home(answer.home),
            x_km=x_km,
            y_km=y_km,
            delays_ms=answer.delays_ms,
            datagram_limit=answer.datagram_limit,
        )
    except HTTPError as error:
        with error:
            said = error.read(200).decode("utf-8", errors="replace").strip() or error.reason
        raise RequestRefusedError(f"{url}: refused ({error.code}): {said}", said) from None
    except (URLError, OSError, http.client.HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        if isinstance(error, ValueError):
            raise NotConnectedError(f"{url}: the answer makes no sense: {cause}") from None
        raise NotConnectedError(f"{url}: cannot be reached: {cause}") from None
