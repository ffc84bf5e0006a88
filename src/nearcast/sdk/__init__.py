"""The client's side for applications: publish, subscribe, report, from asyncio or from threads.

Read `client.py` first, then `driver.py` (the client without a loop), `pump.py` and `udp_port.py`
(what drives it in one), `credentials.py` (who the client is and where its home is). The main names
load when they are first used::

    from nearcast.sdk import Client, SyncClient, load_credentials
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearcast.sdk.client import Client
    from nearcast.sdk.credentials import (
        Credentials,
        load_credentials,
        new_private_key,
        save_credentials,
    )
    from nearcast.sdk.cursor_file import load_cursors, save_cursors
    from nearcast.sdk.driver import ClientDriver, Redirected
    from nearcast.sdk.enrolment import enrol
    from nearcast.sdk.failures import (
        ClientError,
        NotAcknowledgedError,
        NotConnectedError,
        RequestRefusedError,
    )
    from nearcast.sdk.outcome import Receipt
    from nearcast.sdk.sync_client import SyncClient
    from nearcast.wire.actions import Connected, Disconnected, Home, HomeUnreachable, Missed
    from nearcast.wire.cursors import SavedCursors
    from nearcast.wire.notification import Notification

_HOMES = {
    "nearcast.sdk.client": ("Client",),
    "nearcast.sdk.credentials": (
        "Credentials",
        "load_credentials",
        "new_private_key",
        "save_credentials",
    ),
    "nearcast.sdk.driver": ("ClientDriver", "Redirected"),
    "nearcast.sdk.enrolment": ("enrol",),
    "nearcast.sdk.failures": (
        "ClientError",
        "NotAcknowledgedError",
        "NotConnectedError",
        "RequestRefusedError",
    ),
    "nearcast.sdk.outcome": ("Receipt",),
    "nearcast.sdk.sync_client": ("SyncClient",),
    "nearcast.sdk.cursor_file": ("load_cursors", "save_cursors"),
    "nearcast.wire.actions": ("Connected", "Disconnected", "Home", "HomeUnreachable", "Missed"),
    "nearcast.wire.cursors": ("SavedCursors",),
    "nearcast.wire.notification": ("Notification",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Client",
    "ClientDriver",
    "ClientError",
    "Connected",
    "Credentials",
    "Disconnected",
    "Home",
    "HomeUnreachable",
    "Missed",
    "NotAcknowledgedError",
    "NotConnectedError",
    "Notification",
    "Receipt",
    "Redirected",
    "RequestRefusedError",
    "SavedCursors",
    "SyncClient",
    "enrol",
    "load_credentials",
    "load_cursors",
    "new_private_key",
    "save_credentials",
    "save_cursors",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'nearcast.sdk' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
