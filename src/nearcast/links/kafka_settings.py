"""How nearcast reaches Apache Kafka, and what its topics are called."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["KINDS", "KafkaSettings"]

KINDS = ("publications", "events", "reports", "notifications", "alerts")
"""Kafka's topics of a site, after the prefix and a dot."""


class KafkaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section ``[kafka]`` of a server's configuration, and what programs beside it are told."""

    bootstrap: Annotated[str, Meta(pattern=r"^[^\s,]+:[0-9]{1,5}(,[^\s,]+:[0-9]{1,5})*$")]
    """``HOST:PORT``, several with commas between them."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$")] = "nearcast"
    """Kafka's topics are called ``PREFIX.publications`` and so on."""
    events: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    """Patterns of topics whose publications go to ``PREFIX.events`` instead."""
    backlog_mb: Annotated[float, Meta(gt=0)] = 1_024.0
    """What waits on the disk for a Kafka that is away; beyond it new records are dropped."""
    options: dict[str, str] = {}
    """Further settings of librdkafka, such as ``security.protocol``."""

    def topic(self, kind: str) -> str:
        """Return what Kafka calls the topic of a kind of records."""
        return f"{self.prefix}.{kind}"
