"""What can fail for a client while its input is right: no server, no answer, a refusal.

::

    NearcastError
    └── ClientError
        ├── NotConnectedError      there is no session, or none in time
        ├── NotAcknowledgedError   publications that may not be safe
        └── RequestRefusedError    the server said no
"""

from __future__ import annotations

from nearcast.errors import NearcastError

__all__ = ["ClientError", "NotAcknowledgedError", "NotConnectedError", "RequestRefusedError"]


class ClientError(NearcastError):
    """Base of what a client's calls raise beside errors in their arguments."""


class NotConnectedError(ClientError):
    """There is no session with the home, it ended, or the home did not answer in time."""


class NotAcknowledgedError(ClientError):
    """Durable publications were not acknowledged; they may have arrived all the same."""

    def __init__(self, message: str, unacknowledged: int) -> None:
        self.unacknowledged = unacknowledged
        """How many."""
        super().__init__(message)


class RequestRefusedError(ClientError):
    """The server refused a request and said why."""

    def __init__(self, message: str, reason: str) -> None:
        self.reason = reason
        """The server's words."""
        super().__init__(message)
