"""Reading from Kafka: nothing that has come waits for more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException

from nearcast.errors import ConfigError
from nearcast.links import kafka_client
from nearcast.links.kafka_client import commit, consume_soon, ends_of_topic
from nearcast.links.kafka_settings import KafkaSettings


class Message(NamedTuple):
    """As Kafka gives it."""

    said: str
    place: int = 0
    code: int | None = None

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)

    def topic(self) -> str:
        return "events"

    def partition(self) -> int:
        return len(self.said)

    def offset(self) -> int:
        return self.place


class FakeConsumer:
    """Has some messages; notes how long it was to wait for how many, and what is committed."""

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)
        self.asked: list[tuple[int, float]] = []
        self.committed: dict[int, int] = {}
        self.refuses: KafkaException | None = None

    def consume(self, most: int, wait_s: float) -> list[Message]:
        self.asked.append((most, wait_s))
        found, self._messages = self._messages[:most], self._messages[most:]
        return found

    def commit(self, *, offsets: list[object], asynchronous: bool) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.committed = {one.partition: one.offset for one in offsets}  # type: ignore[attr-defined]


A, B, C, D = (Message(one) for one in "abcd")


def test_messages_that_are_there_come_at_once_and_together() -> None:
    consumer = FakeConsumer(A, B, C, D)
    assert consume_soon(consumer, 3, 0.5) == [A, B, C]
    # only the first one is waited for
    assert consumer.asked == [(1, 0.5), (2, 0)]
    assert consume_soon(consumer, 3, 0.5) == [D]


def test_without_messages_it_waits_once() -> None:
    consumer = FakeConsumer()
    assert consume_soon(consumer, 3, 0.5) == []
    assert consumer.asked == [(1, 0.5)]


def test_a_consumer_that_was_held_up_for_long_goes_on_and_other_errors_are_told() -> None:
    held_up = Message("x", code=KafkaError._MAX_POLL_EXCEEDED)
    refused = Message("x", code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    consumer = FakeConsumer(held_up, A, refused)
    assert consume_soon(consumer, 9, 0.5) == [A, refused]


def test_what_is_done_is_committed_and_a_kafka_that_does_not_take_it_ends_nothing() -> None:
    consumer, said = FakeConsumer(), list[str]()
    batch = [Message("a", 3), Message("bb", 7), Message("a", 4)]
    commit(consumer, batch, said.append)
    assert (consumer.committed, said) == ({1: 5, 2: 8}, [])
    consumer.refuses = KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
    commit(consumer, batch, said.append)
    assert len(said) == 1
    assert "generation" in said[0].lower()


class Partitions:
    """A topic of two partitions, the second of which has other problems at first."""

    def __init__(self, *problems: int) -> None:
        self._problems = list(problems)
        self.is_closed = False

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=[0, 1])})

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        if partition.partition and self._problems:
            raise KafkaException(KafkaError(self._problems.pop(0)))
        return 3, 7 + partition.partition

    def close(self) -> None:
        self.is_closed = True


def test_a_partition_that_changes_its_leader_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changing = Partitions(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    monkeypatch.setattr(kafka_client, "open_consumer", lambda *_: changing)
    assert ends_of_topic(KafkaSettings("none:1"), "t") == {0: 7, 1: 8}
    refusing = Partitions(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    monkeypatch.setattr(kafka_client, "open_consumer", lambda *_: refusing)
    with pytest.raises(ConfigError, match="authoriz"):
        ends_of_topic(KafkaSettings("none:1"), "t")
    assert (changing.is_closed, refusing.is_closed) == (True, True)
