"""The event log of a running site, up to now: servers are asked to write what they hold."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from nearcast.errors import NearcastError
from nearcast.links import http_client

__all__ = ["flush_logs"]

_log = logging.getLogger(__name__)
_AT_ONCE = 16
_TIMEOUT_S = 10.0


def flush_logs(server_urls: Sequence[str]) -> int:
    """Have servers write their event logs; return how many did.

    Without one that does not answer the log lacks its last seconds, no more: nobody waits for it.
    """
    if not server_urls:
        return 0
    with ThreadPoolExecutor(min(_AT_ONCE, len(server_urls))) as pool:
        return sum(pool.map(_flush, server_urls))


def _flush(url: str) -> bool:
    try:
        http_client.ask(f"{url}/log/flush", {}, timeout_s=_TIMEOUT_S)
    except NearcastError as error:
        _log.info("a log is read as far as it is written: %s", error)
        return False
    return True
