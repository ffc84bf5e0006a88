"""Alerts of Kafka to the subscribers of a site: a consumer that is a client with rights.

An alert is committed in Kafka after the site has acknowledged it. So what was produced while the
bridge or the site was away is told later, as long as Kafka retains it and the alert still counts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nearcast.errors import ConfigError, WireError
from nearcast.links.kafka_client import check_topics, commit, consume_soon, open_consumer
from nearcast.links.kafka_records import read_alert, read_identity
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.sdk.sync_client import SyncClient, SyncReceipt
from nearcast.site.alert_teller import AlertTeller
from nearcast.site.kafka_events import header

__all__ = ["AlertBridge"]

_log = logging.getLogger(__name__)
_AT_ONCE = 100
_WAIT_S = 0.02


class AlertBridge:
    """Reads alerts and publishes them to the site's topics; `run` it.

    Parameters
    ----------
    credentials
        File of a client that may publish to the topics of the alerts.
    before
        What is put before the topic of an alert.
    group
        Kafka's name of the group: what it has committed, it does not tell again.
    clock
        Unix time.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        credentials: Path,
        *,
        before: str = "alerts/",
        group: str = "nearcast-bridge",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._credentials, self._group = settings, credentials, group
        self._teller = AlertTeller(before, clock)
        self.counts = self._teller.counts

    def run(self, stop: Callable[[], bool]) -> None:
        """Work until `stop` says so.

        Raises
        ------
        ConfigError
            When Kafka does not answer, lacks the topic, or refuses.
        NearcastError
            When the site does not let the client in.
        """
        topic = self._settings.topic("alerts")
        check_topics(self._settings, (topic,))
        consumer = open_consumer(self._settings, self._group)
        try:
            consumer.subscribe([topic])
            with SyncClient.connect(self._credentials) as client:
                while not stop():
                    batch = consume_soon(consumer, _AT_ONCE, _WAIT_S)
                    receipts = [self._publish(client, message) for message in batch]
                    if batch and self._teller.wait(client, receipts, stop):
                        commit(consumer, batch, lambda said: _log.warning("kafka: %s", said))
        finally:
            consumer.close()

    def _publish(self, client: SyncClient, message: Any) -> SyncReceipt | None:
        if message.error() is not None:
            raise ConfigError(f"Kafka: {message.error().str()}")
        try:
            alert = read_alert(header(message, "v"), message.value())
            identity = read_identity(header(message, "id"))
        except WireError as error:
            self.counts.malformed += 1
            _log.warning("partition %d, %s", message.partition(), error)
            return None
        return self._teller.publish(client, identity, alert)
