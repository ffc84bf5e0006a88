"""The query of alerts: events by topic, through the live event broker, each batch out once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from nearcast.links.kafka_records import AlertRecord, alert_record
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.stream.alert_topic import AlertTopic
from nearcast.pipeline.stream.batch_files import BatchFiles
from nearcast.pipeline.stream.sources import read_events
from nearcast.pipeline.stream.stream_folder import StreamFolder
from nearcast.pipeline.stream.stream_settings import AlertSettings, StreamSettings
from nearcast.pipeline.stream.topic_events import Arrived, TopicEvents, TopicOutput

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

__all__ = ["ALERTS", "AlertSink", "alerts_frame"]

ALERTS = pa.schema(
    [
        ("topic", pa.string()),
        ("id", pa.string()),
        ("cause", pa.string()),
        ("time_us", pa.int64()),
        ("valid_until_us", pa.int64()),
        ("alert", pa.string()),
        ("payload", pa.binary()),
        ("area", pa.string()),
        ("attributes", pa.string()),
        ("batch", pa.int64()),
    ]
)
_QUARANTINE = pa.schema(
    [
        ("topic", pa.string()),
        ("id", pa.string()),
        ("reason", pa.string()),
        ("value", pa.binary()),
        ("batch", pa.int64()),
    ]
)
_OUTPUT = "kind string, topic string, id string, part int, value binary, reason string"
_CLOCK_BACK = "10 minutes"
"""How far this machine's clock may go back; rows of a later time would be passed over then."""
_decode = msgspec.json.Decoder(AlertRecord).decode


def alerts_frame(spark: SparkSession, settings: StreamSettings) -> DataFrame:
    """Return the stream of what events cause: alerts, refused records, counts by topic."""
    assert settings.alerts is not None
    rows = read_events(spark, settings)
    return (
        # by arrival, not by the time of events: no record is passed over because it is late, and
        # topics that are silent are forgotten
        rows.withWatermark("arrived", _CLOCK_BACK)
        .groupBy("topic")
        .applyInPandasWithState(
            _by_topic(settings.alerts), _OUTPUT, "packed binary", "append", "EventTimeTimeout"
        )
    )


def _by_topic(
    settings: AlertSettings,
) -> Callable[[tuple[Any, ...], Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]:
    options, late_s = dict(settings.options), settings.late_s
    forget_ms = round(settings.forget_s * 1e3)

    def take(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        topic = "" if key[0] is None else key[0]
        if state.hasTimedOut:
            output = TopicEvents.unpacked(state.get[0]).end()
            state.remove()
            yield _rows(topic, output)
            return
        events = (
            TopicEvents.unpacked(state.get[0])
            if state.exists
            else TopicEvents(topic, options, late_s)
        )
        rows = pd.concat(frames).sort_values(["file", "position", "id"])
        output = events.take(map(Arrived, rows["version"], rows["id"].fillna(""), rows["value"]))
        state.update((events.packed(),))
        arrived_ms = int(rows["arrived"].max().timestamp() * 1e3)
        state.setTimeoutTimestamp(max(arrived_ms, state.getCurrentWatermarkMs()) + forget_ms)
        yield _rows(topic, output)

    return take


def _rows(topic: str, output: TopicOutput) -> pd.DataFrame:
    import pandas as pd

    encode = msgspec.json.encode
    rows = [("counts", topic, "", 0, json.dumps(output.counts).encode(), "")]
    rows += [("alert", topic, one.cause, part, encode(one), "") for part, one in output.alerts]
    rows += [("refused", topic, one.identity, 0, one.value, one.reason) for one in output.refused]
    return pd.DataFrame(rows, columns=["kind", "topic", "id", "part", "value", "reason"])


class AlertSink:
    """Where batches of `alerts_frame` go: two tables, and Kafka if there is one.

    Parameters
    ----------
    kafka
        None: alerts are in the table only.
    """

    def __init__(self, folder: StreamFolder, kafka: KafkaSettings | None) -> None:
        self._alerts = BatchFiles(folder.folder / "alerts", ALERTS)
        self._quarantine = BatchFiles(folder.folder / "quarantine", _QUARANTINE)
        note = folder.folder / "alert-topic.json"
        self._topic = None if kafka is None else AlertTopic(kafka, note)
        self._settings = kafka or KafkaSettings("none:0")
        self.counts: Counter[str] = Counter()
        """Since this process began."""

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Take a batch, perhaps once more: it is there once afterwards."""
        # a batch is bounded by --most-rows, and alerts are a small part of the events
        found = frame.toArrow().to_pylist()
        records, alerts, refused = [], [], []
        for row in found:
            if row["kind"] == "counts":
                self.counts.update(json.loads(row["value"]))
            elif row["kind"] == "refused":
                refused.append({**row, "batch": batch})
            else:
                alert = _decode(row["value"])
                record = alert_record(alert, row["part"], self._settings)
                records.append(record)
                alerts.append(
                    {
                        "topic": alert.topic,
                        "id": record.identity,
                        "cause": alert.cause,
                        "time_us": alert.time_us,
                        "valid_until_us": alert.valid_until_us,
                        "alert": str(alert.attributes.get("alert", "")),
                        "payload": alert.data,
                        "area": alert.area,
                        "attributes": json.dumps(alert.attributes),
                        "batch": batch,
                    }
                )
        # who is to be told is told first; the tables are for later
        if self._topic is not None:
            self.counts["sent before"] += self._topic.write(batch, records)
        self._alerts.write(batch, alerts)
        self._quarantine.write(batch, refused)
