"""How a topic is managed on a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nearcast.broker.guard import GuardSettings
from nearcast.errors import ConfigError
from nearcast.trust.topic_pattern import is_pattern

__all__ = ["TopicSettings"]

_LONGEST_TOPIC_BYTES = 1024


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How a topic is managed on this server."""

    topic: str
    spool: int
    """Messages that its spool keeps."""
    spool_bytes: int | None = None
    processor: str = "forward"
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the processor is made with."""
    notify_after_sync: bool = False
    """Notify only what is durable: later, but never about a message that a crash may undo."""
    other_brokers: tuple[str, ...] = ()
    """Servers that manage the topic as well."""
    past_brokers: tuple[str, ...] = ()
    """Servers that managed it once: they may have streams of it, and are asked for them."""
    strangers: tuple[str, ...] = ()
    """Servers that may manage it for all that is known here: asked until one claim was won."""
    level: int = 1
    """On how many servers a message is durable before it is acknowledged: 1 or 2."""
    second: str = ""
    """The server that gets copies at level 2 where no other broker is known."""
    version: int = 0
    """Of its assignment, see `TopicOrder`."""
    guard: GuardSettings = field(default_factory=GuardSettings)
    inline: bool = True
    """Whether the processor runs in the server's own loop; else a host process runs it."""
    batch_limit: int = 256
    """Messages that a host process gets at a time."""
    pending_limit: int = 2048
    """Messages that may wait for the host process; more are refused as busy."""
    stream_limit: int = 20_000
    """Publishers that are remembered, so that nothing of theirs is taken twice."""
    stream_idle_s: float = 86_400.0
    """Publishers that sent nothing for longer are forgotten when half of the room is taken."""

    @property
    def keepers(self) -> tuple[str, ...]:
        """All servers that get copies."""
        if self.level > 1 and not self.other_brokers and self.second:
            return (self.second,)
        return self.other_brokers

    @property
    def asked(self) -> tuple[str, ...]:
        """All servers that a stream has to be claimed from."""
        known = (*self.other_brokers, *self.past_brokers)
        return tuple(dict.fromkeys((*known, *self.strangers))) if self.strangers else known

    def __post_init__(self) -> None:
        if not 1 <= len(self.topic.encode()) <= _LONGEST_TOPIC_BYTES:
            raise ConfigError(f"a topic's name has 1 to {_LONGEST_TOPIC_BYTES} bytes")
        if is_pattern(self.topic):
            raise ConfigError(f"{self.topic!r} is a pattern, not a topic")
        if min(self.batch_limit, self.pending_limit, self.stream_limit) < 1:
            raise ConfigError(f"the limits of topic {self.topic!r} must be positive")
