"""Who listens to the topic of alerts: which came, how often, and how long after their cause."""

from __future__ import annotations

import threading
import time
from collections import Counter
from uuid import uuid4

from nearcast.links.kafka_client import consume_soon, open_consumer
from nearcast.links.kafka_records import read_alert
from nearcast.links.kafka_settings import KafkaSettings

__all__ = ["AlertWatch"]

_AT_ONCE = 500
_WAIT_S = 0.01


class AlertWatch:
    """A thread that reads alerts; use it with ``with``."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.seen: Counter[str] = Counter()
        """How often each alert is in the topic."""
        self.delays: list[tuple[int, float]] = []
        """Of each: when its cause was sent, in microseconds, and the delay in ms."""

    def __enter__(self) -> AlertWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def delays_ms(self, since_us: int) -> list[float]:
        """Return the delays of alerts whose cause was sent since then."""
        return [delay_ms for sent_us, delay_ms in list(self.delays) if sent_us >= since_us]

    def _read(self) -> None:
        consumer = open_consumer(self._settings, uuid4().hex, **{"fetch.wait.max.ms": 10})
        consumer.subscribe([self._settings.topic("alerts")])
        try:
            while not self._stop.is_set():
                batch = consume_soon(consumer, _AT_ONCE, _WAIT_S)
                now_us = time.time_ns() // 1000
                for message in batch:
                    if message.error() is not None:
                        continue
                    said = dict(message.headers() or ())
                    alert = read_alert(said.get("v"), message.value())
                    self.seen[said["id"].decode()] += 1
                    self.delays.append((alert.time_us, (now_us - alert.time_us) / 1e3))
        finally:
            consumer.close()
