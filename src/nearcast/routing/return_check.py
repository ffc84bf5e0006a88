"""Whether what a replica says it returns is what it was given."""

from __future__ import annotations

from nearcast.routing.keys import UNIQUE_MAX
from nearcast.routing.route_messages import Return

__all__ = ["is_whole_return"]

_HIGHEST = UNIQUE_MAX - (1 << 32)
"""Above it an original could not put its own key behind a replica's."""


def is_whole_return(message: Return, low: int, high: int) -> bool:
    """Return whether what is held and what children hold makes up a range, each part once."""
    parts = sorted(
        [(one.low, one.high, one.unique_id) for one in message.held]
        + [(one.low, one.high, one.unique_id) for one in message.children]
    )
    at = low
    for start, end, unique_id in parts:
        if start != at or end <= start or not 0 < unique_id < _HIGHEST:
            return False
        at = end
    return at == high
