"""The head of an HTTP request, as far as operators' requests need it."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

__all__ = ["Request", "RequestError", "parse_head"]

_METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})
_LONGEST_HEAD_BYTES = 1 << 16
_LONGEST_NUMBER = 18


@dataclass(slots=True)
class Request:
    """A request; its body follows the head."""

    method: str
    target: str
    headers: dict[str, str]
    """By names like ``Content-Type``."""
    body_bytes: int
    body: bytes = b""


class RequestError(Exception):
    """A request that is refused unread."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def parse_head(received: bytearray, body_limit_bytes: int) -> tuple[Request, int] | None:
    """Return a request without its body and the bytes of its head; None when more must come.

    Raises
    ------
    RequestError
        When it cannot be answered.
    """
    end = received.find(b"\r\n\r\n")
    if (len(received) if end < 0 else end) > _LONGEST_HEAD_BYTES:
        if b"\r\n" not in received[:_LONGEST_HEAD_BYTES]:
            raise RequestError(HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long")
        raise RequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too many headers")
    if end < 0:
        return None
    first, *lines = received[:end].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise RequestError(HTTPStatus.BAD_REQUEST, "not an HTTP request")
    if words[0] not in _METHODS:
        raise RequestError(HTTPStatus.NOT_IMPLEMENTED, f"there is no method {words[0]!r}")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise RequestError(HTTPStatus.BAD_REQUEST, "a header without a colon")
        headers[name.strip().title()] = value.strip()
    length = headers.get("Content-Length", "0")
    if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in headers:
        raise RequestError(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length")
    if len(length) > _LONGEST_NUMBER or int(length) > body_limit_bytes:
        raise RequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {body_limit_bytes} bytes"
        )
    return Request(words[0], words[1], headers, int(length)), end + 4
