"""Alerts of a stream's table to the subscribers of a site, for those who have no Kafka.

`told.json` in the stream's folder names the last batch that the site has acknowledged as a whole.
"""

from __future__ import annotations

import base64
import fcntl
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from nearcast.errors import ConfigError
from nearcast.links.kafka_records import AlertRecord
from nearcast.pipeline.stream.batch_files import rows_after
from nearcast.pipeline.stream.stream_folder import disk_errors, replace_file
from nearcast.sdk.sync_client import SyncClient
from nearcast.site.alert_teller import AlertTeller

__all__ = ["AlertTableBridge"]

_AT_ONCE = 100
_LOOK_S = 0.2
_TOLD = "told.json"


class AlertTableBridge:
    """Follows the table of alerts and publishes its rows to the site's topics; `run` it.

    Parameters
    ----------
    out
        Folder of a stream with alerts.
    credentials
        File of a client that may publish to the topics of the alerts.
    before
        What is put before the topic of an alert.
    """

    def __init__(
        self,
        out: Path,
        credentials: Path,
        *,
        before: str = "alerts/",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._out, self._credentials = out, credentials
        self._teller = AlertTeller(before, clock)
        self.counts = self._teller.counts

    def run(self, stop: Callable[[], bool], once: bool = False) -> None:
        """Work until `stop` says so, or until all that is there now was told.

        Raises
        ------
        ConfigError
            When there is no such stream, or another process tells its alerts.
        OutputError
            When its folder cannot be read or written.
        NearcastError
            When the site does not let the client in.
        """
        table = self._out / "alerts"
        if not table.is_dir():
            raise ConfigError(f"{self._out}: there is no stream with alerts")
        with self._alone(), SyncClient.connect(self._credentials) as client:
            told = self._told()
            while not stop():
                rows = rows_after(table, told)
                for batch, some in groupby(rows, key=lambda row: row["batch"]):
                    if not self._tell(client, list(some), stop):
                        return
                    told = batch
                    with disk_errors(self._out):
                        replace_file(self._out / _TOLD, json.dumps({"batch": told}).encode())
                if once:
                    return
                time.sleep(_LOOK_S)

    def _tell(
        self, client: SyncClient, rows: list[dict[str, Any]], stop: Callable[[], bool]
    ) -> bool:
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            receipts = [self._teller.publish(client, row["id"], _alert(row)) for row in some]
            if not self._teller.wait(client, receipts, stop):
                return False
        return True

    def _told(self) -> int:
        note = self._out / _TOLD
        with disk_errors(note):
            if not note.exists():
                return -1
            text = note.read_text()
        try:
            return int(json.loads(text)["batch"])
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{note}: is not what this writes there") from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with disk_errors(self._out):
            lock = (self._out / "told.lock").open("a")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(f"{self._out}: another process tells these alerts") from None
            yield


def _alert(row: Mapping[str, Any]) -> AlertRecord:
    return AlertRecord(
        row["topic"],
        base64.b64encode(row["payload"]).decode(),
        row["time_us"],
        row["cause"],
        json.loads(row["attributes"]),
        row["area"],
        row["valid_until_us"],
    )
