"""The times and limits of a Suzaku peer."""

from __future__ import annotations

from dataclasses import dataclass, fields

from nearcast.errors import ConfigError

__all__ = ["SuzakuParams"]


@dataclass(frozen=True, slots=True)
class SuzakuParams:
    """Times in seconds and sizes of tables; infinity switches a period off."""

    ping_s: float = 10.0
    """Between checks of a node's left link."""
    finger_s: float = 60.0
    """Between forward steps of a node's finger tables."""
    reply_s: float = 4.0
    """After it a request, or a forwarded message, counts as lost: two or three round trips."""
    lookup_s: float = 8.0
    """After it a lookup that has no answer is sent again, twice at most."""
    range_retry_s: float = 10.0
    """After it the parts of a range that did not answer are sent again, twice at most."""
    repair_wait_s: float = 1.0
    """Between two tries to repair a link, and of a message that meets a dead responsible node."""
    suspicion_s: float = 120.0
    """For this long a node that did not answer is passed over."""
    tombstone_s: float = 30.0
    """For this long a peer re-routes what arrives for a node that left."""
    join_wait_s: float = 0.05
    """Before a refused join is tried again: one to two of it, then longer by half each time."""
    join_tries: int = 10
    neighbours: int = 4
    """Left neighbours that a node knows."""
    forward_tries: int = 12
    """How often a message is forwarded by one peer before it is given up."""
    hop_limit: int = 1024
    buffer_limit: int = 256
    """Messages that wait for a node while it joins or leaves."""
    pending_limit: int = 4096
    """Forwarded messages of a peer that wait for their acknowledgement."""
    reverse_limit: int = 1024
    """Reverse pointers of a node."""
    seen_limit: int = 4096
    """Messages that a peer remembers so as not to deliver them twice."""
    range_limit: int = 100_000
    """Nodes in the answer to one range."""
    trace: bool = False
    """Whether messages carry the nodes that they pass."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "trace" and not getattr(self, field.name) > 0:
                raise ConfigError(f"overlay: {field.name} has to be above 0")
