"""What a stream remembers of a topic: batches may be cut anyhow, bad and late records are told."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from nearcast.errors import PipelineError
from nearcast.links.kafka_records import Record, alert_record
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.pipeline.stream.topic_events import Arrived, TopicEvents, TopicOutput
from pipeline.event_records import FIELD, expected_alerts, random_events, to_records

SETTINGS = KafkaSettings("none:1", events=("road/#",))
ROWS = random_events(800, topics=1)


def arrived(record: Record, version: bytes | None = b"1") -> Arrived:
    return Arrived(version, record.identity, record.value)


def values(outputs: list[TopicOutput]) -> dict[str, bytes]:
    records = [alert_record(alert, part, SETTINGS) for one in outputs for part, alert in one.alerts]
    assert len({one.identity for one in records}) == len(records)
    return {one.identity: one.value for one in records}


def test_batches_cut_anyhow_make_the_alerts_of_the_live_event_broker() -> None:
    rng, records = Random(2), to_records(ROWS, SETTINGS)
    topic, outputs = TopicEvents("road/0", FIELD), []
    while records:
        cut = rng.randrange(1, 60)
        outputs.append(topic.take(map(arrived, records[:cut])))
        topic = TopicEvents.unpacked(topic.packed())  # as between batches, and after a kill
        again = topic.take(map(arrived, records[:cut]))
        assert (again.counts["repeated"], again.alerts) == (len(records[:cut]), [])
        del records[:cut]
    expected = expected_alerts(ROWS, SETTINGS)
    assert len(expected) > 50
    assert values(outputs) == expected


def test_records_that_come_late_count_in_time_and_those_that_come_too_late_are_refused() -> None:
    rng, records = Random(3), to_records(ROWS, SETTINGS)
    near = sorted(records, key=lambda one: records.index(one) + rng.uniform(0, 19))
    topic = TopicEvents("road/0", FIELD, late_s=1.0)  # 20 messages
    outputs = [topic.take(map(arrived, near[at : at + 50])) for at in range(0, len(near), 50)]
    outputs.append(topic.end())
    assert values(outputs) == expected_alerts(ROWS, SETTINGS)
    assert sum(one.counts["late"] for one in outputs) == 0
    other = to_records(random_events(1, topics=1, seed=9), SETTINGS)[0]
    told = topic.take([arrived(other._replace(identity="another"))])
    assert told.counts == {"late": 1, "refused": 1}
    assert told.refused[0].reason == "the record is late"


@pytest.mark.parametrize(
    ("version", "value", "reason"),
    [
        (None, b"{}", "no version"),
        (b"2", b"{}", "version b'2'; this nearcast reads 1"),
        (b"1", None, "malformed"),
        (b"1", b'{"topic": 3}', "malformed"),
        (b"1", b"\xff\xfe", "malformed"),
        (b"1", to_records(random_events(1, topics=9, seed=4), SETTINGS)[0].value, "key"),
    ],
)
def test_a_record_that_is_not_one_is_refused_with_its_reason(
    version: bytes | None, value: bytes | None, reason: str
) -> None:
    topic = TopicEvents("road/0", FIELD)
    told = topic.take([Arrived(version, "x", value)])
    assert told.counts == {"refused": 1}
    assert reason in told.refused[0].reason
    assert msgspec.json.encode(told.refused[0].value)


def test_a_checkpoint_of_another_version_is_one_sentence() -> None:
    with pytest.raises(PipelineError, match="of another version of nearcast"):
        TopicEvents.unpacked(b"nonsense")
