"""Speeding: who drives faster than the limit, told once until they slow down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from nearcast.broker.notifications import AllSubscribers, NamedClients, Notification
from nearcast.broker.payloads import read_number, read_object, write_object
from nearcast.broker.topic_spool import SpoolView
from nearcast.errors import ConfigError
from nearcast.wire.publication import Publication

__all__ = ["Speeding"]


class Speeding:
    """Alerts when a publisher's ``speed`` rises above a limit.

    Parameters
    ----------
    limit_kmh
        The limit; exactly so fast is allowed.
    tell
        ``subscribers`` tells the topic's other subscribers, ``driver`` the one who speeds.
    """

    def __init__(
        self, limit_kmh: float, tell: Literal["subscribers", "driver"] = "subscribers"
    ) -> None:
        if not limit_kmh > 0 or tell not in ("subscribers", "driver"):
            raise ConfigError("speeding needs limit_kmh > 0 and tell = subscribers or driver")
        self._limit_kmh, self._tell = limit_kmh, tell
        self._speeding: set[str] = set()
        self._seen = 0
        self.malformed = 0
        """Messages without a speed."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Return an alert for each publisher of the batch that begins to speed."""
        for message in spool.until(spool.end - len(batch)).since(self._seen):
            self._read(message)
        self._seen = spool.end
        for message in batch:
            was_speeding = message.publisher in self._speeding
            speed = self._read(message)
            if speed is not None and speed > self._limit_kmh and not was_speeding:
                driver = message.publisher
                yield Notification(
                    write_object(
                        alert="speeding", client=driver, speed=speed, limit=self._limit_kmh
                    ),
                    NamedClients((driver,)) if self._tell == "driver" else AllSubscribers(),
                    message,
                )

    def _read(self, message: Publication) -> float | None:
        found = read_object(message.payload)
        speed = read_number(found.get("speed")) if found is not None else None
        if speed is None:
            self.malformed += 1
        elif speed > self._limit_kmh:
            self._speeding.add(message.publisher)
        else:
            self._speeding.discard(message.publisher)
        return speed
