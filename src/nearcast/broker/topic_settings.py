"""How a topic is managed on a server."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
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
    stand_ins: tuple[str, ...] = ()
    """Servers that say that they manage it, without any proof: asked for streams, sent no copies."""
    strangers: tuple[str, ...] = ()
    """Servers that may manage it for all that is known here: asked until they have answered, those
    too that were away when a claim was won without them."""
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
    def room(self) -> float:
        """Messages that may wait for the processor: one that runs here lets none wait."""
        return inf if self.inline else self.pending_limit

    @property
    def keepers(self) -> tuple[str, ...]:
        """All servers that get copies."""
        if self.level > 1 and not self.other_brokers and self.second:
            return (self.second,)
        return self.other_brokers

    @property
    def asked(self) -> tuple[str, ...]:
        """All servers that a stream has to be claimed from."""
        known = self.known
        return tuple(dict.fromkeys((*known, *self.strangers))) if self.strangers else known

    @property
    def known(self) -> tuple[str, ...]:
        """Those of them that manage the topic or did, by the orders or as was told."""
        return (*self.other_brokers, *self.past_brokers, *self.stand_ins)

    def with_strangers(self, servers: Iterable[str]) -> TopicSettings:
        """Return what holds when these servers may manage it as well."""
        return replace(self, strangers=tuple(dict.fromkeys((*self.strangers, *servers))))

    def without_strangers(self, answered: Iterable[Container[str]]) -> TopicSettings:
        """Return what holds when these have answered: they say by themselves if they manage it."""
        heard = tuple(answered)
        left = tuple(one for one in self.strangers if not any(one in some for some in heard))
        return replace(self, strangers=left)

    def as_managed(self) -> TopicSettings:
        """Return what a topic has to begin anew for when it changes."""
        return replace(
            self, other_brokers=(), past_brokers=(), stand_ins=(), strangers=(), version=0
        )

    def __post_init__(self) -> None:
        if not 1 <= len(self.topic.encode()) <= _LONGEST_TOPIC_BYTES:
            raise ConfigError(f"a topic's name has 1 to {_LONGEST_TOPIC_BYTES} bytes")
        if is_pattern(self.topic):
            raise ConfigError(f"{self.topic!r} is a pattern, not a topic")
        if min(self.batch_limit, self.pending_limit, self.stream_limit) < 1:
            raise ConfigError(f"the limits of topic {self.topic!r} must be positive")
