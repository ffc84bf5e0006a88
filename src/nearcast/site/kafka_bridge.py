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

from nearcast.errors import ConfigError, NearcastError, WireError
from nearcast.links.kafka_client import check_topics, open_consumer
from nearcast.links.kafka_records import AlertRecord, read_alert
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.stream.alert_records import KnownRecords
from nearcast.sdk.failures import NotAcknowledgedError
from nearcast.sdk.sync_client import SyncClient, SyncReceipt
from nearcast.site.kafka_events import header, positions

__all__ = ["AlertBridge", "BridgeCounts"]

_log = logging.getLogger(__name__)
_AT_ONCE = 100
_WAIT_S = 0.02
_ACKNOWLEDGE_S = 30.0


class BridgeCounts:
    """What became of the alerts."""

    def __init__(self) -> None:
        self.told = 0
        self.expired = 0
        """They no longer counted when they came."""
        self.repeated = 0
        self.malformed = 0
        self.refused = 0
        """The site did not let the bridge publish them."""


class AlertBridge:
    """Reads alerts and publishes them to the site's topics; `run` it.

    Parameters
    ----------
    credentials
        File of a client that may publish to the topics of the alerts.
    before
        What is put before the topic of an alert: its own may have a processor that reads reports.
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
        self._before, self._clock, self._known = before, clock, KnownRecords()
        self.counts = BridgeCounts()

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
                    batch = consumer.consume(_AT_ONCE, _WAIT_S)
                    if batch and self._tell(client, batch, stop):
                        consumer.commit(offsets=positions(batch), asynchronous=False)
        finally:
            consumer.close()

    def _tell(self, client: SyncClient, batch: list[Any], stop: Callable[[], bool]) -> bool:
        """Publish alerts; True when the site has acknowledged all of them."""
        receipts = [one for message in batch if (one := self._publish(client, message))]
        for receipt in receipts:
            while True:
                try:
                    receipt.wait(_ACKNOWLEDGE_S)
                    self.counts.told += 1
                    break
                except NotAcknowledgedError:
                    if stop():
                        return False
                    client.inner.check_open()  # complains when it has ended
                    _log.warning("the site does not acknowledge alerts; trying on")
                except NearcastError as error:
                    self.counts.refused += 1
                    _log.warning("the site refused an alert: %s", error)
                    break
        return True

    def _publish(self, client: SyncClient, message: Any) -> SyncReceipt | None:
        if message.error() is not None:
            raise ConfigError(f"Kafka: {message.error().str()}")
        try:
            alert = read_alert(header(message, "v"), message.value())
        except WireError as error:
            self.counts.malformed += 1
            _log.warning("partition %d, %s", message.partition(), error)
            return None
        if not self._known.is_new((header(message, "id") or b"").decode(errors="replace")):
            self.counts.repeated += 1
            return None
        left_s = self._left_s(alert)
        if left_s is not None and left_s <= 0:
            self.counts.expired += 1
            return None
        try:
            return client.publish(
                self._before + alert.topic,
                alert.data,
                attributes=alert.attributes,
                area=alert.area or None,
                valid_s=left_s,
            )
        except (ConfigError, WireError, ValueError) as error:
            self.counts.malformed += 1
            _log.warning("an alert cannot be published: %s", error)
            return None

    def _left_s(self, alert: AlertRecord) -> float | None:
        until_us = alert.valid_until_us
        return None if until_us is None else until_us / 1e6 - self._clock()
