"""Questions to the HTTP interface of a manager or server: JSON there, JSON back."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from nearcast.errors import ConfigError, NearcastError

__all__ = ["HttpRefusedError", "ask"]

_ANSWER_LIMIT_BYTES = 1 << 26
_SAID_BYTES = 1_000


class HttpRefusedError(NearcastError):
    """The server answered, but with a code that is not a success."""

    def __init__(self, url: str, code: int, said: str) -> None:
        super().__init__(f"{url} answered {code}: {said}")
        self.code = code
        self.said = said
        """Its words."""


class _NoRedirects(HTTPRedirectHandler):
    """Lets every redirection count as a refusal: the token is for this server only."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


def ask(
    url: str,
    body: object = None,
    token: str | None = None,
    timeout_s: float = 30.0,
    *,
    method: str | None = None,
) -> Any:
    """Return the JSON that a server answers to a GET, or with a body to a POST or `method`.

    Raises
    ------
    ConfigError
        When the address or the token cannot be one.
    HttpRefusedError
        When the server said no.
    NearcastError
        When it cannot be reached, or its answer is not JSON.
    """
    headers = {"Content-Type": "application/json"}
    if token is not None:
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError("the token must be one word of ASCII characters")
        headers["Authorization"] = f"Bearer {token}"
    _check_address(url)
    data = None if body is None else json.dumps(body).encode()
    try:
        opener = build_opener(_NoRedirects())
        with opener.open(Request(url, data, headers, method=method), timeout=timeout_s) as answer:
            return json.loads(answer.read(_ANSWER_LIMIT_BYTES))
    except HTTPError as error:
        with error:
            said = error.read(_SAID_BYTES).decode(errors="replace").strip() or str(error.reason)
        raise HttpRefusedError(url, error.code, said) from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        why = " ".join(str(cause).split())  # the words of another program may have several lines
        problem = (
            "answered what is not JSON" if isinstance(error, ValueError) else "does not answer"
        )
        raise NearcastError(f"{url} {problem}: {why}") from None


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigError(f"{url!r} is not an address such as http://HOST:PORT")
