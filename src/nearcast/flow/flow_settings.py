"""Limits and timers of running flows."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from nearcast.broker.guard import GuardSettings
from nearcast.errors import ConfigError

__all__ = ["FlowSettings"]


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """Limits and timers; all tables that others can grow have one."""

    outbox_messages: int = 4096
    """Messages that an outbox holds; then its topic takes no more."""
    in_flight: int = 1024
    """Messages of an outbox that are sent and not done."""
    work_items: int = 256
    """Messages that travel together."""
    work_bytes: int = 256 << 10
    """And their bytes."""
    queue_messages: int = 8192
    """Messages that wait for an instance's processor; more are left to their outbox."""
    queue_bytes: int = 64 << 20
    taken_numbers: int = 8192
    """Numbers above an outbox's floor that an instance remembers."""
    batch: int = 256
    """Messages that a processor gets at a time."""
    batch_s: float = 0.02
    """How long a batch may take, judged by the last ones: others wait for it."""
    retry_s: float = 1.0
    """After which a message that is not done is sent again; doubles until something is done."""
    longest_retry_s: float = 16.0
    redirects: int = 16
    """Times that a message follows another server's word at once."""
    ledger_parts: int = 256
    inherited_parts: int = 64
    """Parts taken from others of which some outbox has not said yet how far it is done."""
    hand_overs: int = 16
    """Under way from an instance at a time."""
    hand_over_bytes: int = 32 << 20
    nets: int = 1024
    """Of which it is remembered that messages came from them."""
    owners: int = 1024
    """Ranges of other servers that are remembered for each component."""
    guard: GuardSettings = field(default_factory=lambda: GuardSettings(budget_s=inf, kills=6))
    """When a processor that ends the host process has to rest: not for two messages, which count
    twice each. Its messages wait meanwhile; each may take as long as the host lets it."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if name != "guard" and getattr(self, name) <= 0:
                raise ConfigError(f"flows: {name} must be positive")
