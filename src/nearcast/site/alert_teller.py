"""Alerts that were made outside of a site, told to its subscribers by a client with rights."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from nearcast.errors import ConfigError, NearcastError, WireError
from nearcast.links.kafka_records import AlertRecord
from nearcast.pipeline.stream.alert_records import KnownRecords
from nearcast.sdk.failures import NotAcknowledgedError
from nearcast.sdk.sync_client import SyncClient, SyncReceipt

__all__ = ["AlertTeller", "TellerCounts"]

_log = logging.getLogger(__name__)
_ACKNOWLEDGE_S = 30.0


class TellerCounts:
    """What became of the alerts."""

    def __init__(self) -> None:
        self.told = 0
        self.expired = 0
        """They no longer counted when they came."""
        self.repeated = 0
        self.malformed = 0
        self.refused = 0
        """The site did not let the client publish them."""


class AlertTeller:
    """Publishes alerts, each once while it lives.

    Parameters
    ----------
    before
        What is put before the topic of an alert: its own may have a processor that reads reports.
    clock
        Unix time.
    """

    def __init__(self, before: str, clock: Callable[[], float] = time.time) -> None:
        self._before, self._clock, self._known = before, clock, KnownRecords()
        self.counts = TellerCounts()

    def publish(self, client: SyncClient, identity: str, alert: AlertRecord) -> SyncReceipt | None:
        """Publish an alert, unless it is known, no longer counts or cannot be published."""
        if not self._known.is_new(identity):
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

    def wait(
        self,
        client: SyncClient,
        receipts: Sequence[SyncReceipt | None],
        stop: Callable[[], bool],
    ) -> bool:
        """Return whether the site has answered for all alerts; False: it was time to stop before."""
        for receipt in receipts:
            while receipt is not None:
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

    def _left_s(self, alert: AlertRecord) -> float | None:
        until_us = alert.valid_until_us
        return None if until_us is None else until_us / 1e6 - self._clock()
