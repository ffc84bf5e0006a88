"""Records go through the backlog to Kafka: none is lost, whatever Kafka does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nearcast.errors import ConfigError
from nearcast.links.kafka_records import Record
from nearcast.links.kafka_settings import KafkaSettings
from nearcast.links.kafka_sink import KafkaSink

SETTINGS = KafkaSettings("localhost:1", backlog_mb=0.001)


class KafkaError:
    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return f"because {self._name}"


class FakeProducer:
    """Keeps what it is given until the test says what becomes of it."""

    def __init__(self) -> None:
        self.given: list[tuple[bytes, Callable[[Any, Any], None]]] = []
        self.stored: list[bytes] = []
        self.answers: list[KafkaError | None] = []

    def produce(
        self, topic: str, value: bytes, key: bytes, *, headers: Any, on_delivery: Any
    ) -> None:
        assert dict(headers)["v"] == b"1"
        self.given.append((value, on_delivery))

    def poll(self, timeout: float) -> int:
        while self.answers and self.given:
            value, answer = self.given.pop(0)
            error = self.answers.pop(0)
            if error is None:
                self.stored.append(value)
            answer(error, None)
        return 0

    def purge(self) -> None:
        self.given.clear()

    def flush(self, timeout: float = -1) -> int:
        return 0


class World:
    def __init__(self, folder: Path) -> None:
        self.folder, self.now_s = folder, 0.0
        self.producer = FakeProducer()
        self.problem: str | None = None
        self.sink = self.open()

    def open(self) -> KafkaSink:
        return KafkaSink(SETTINGS, self.folder, self._producer, lambda: self.now_s)

    def _producer(self, settings: KafkaSettings, on_error: Callable[[str], None]) -> FakeProducer:
        if self.problem is not None:
            raise ConfigError(self.problem)
        return self.producer


def records(*numbers: int) -> list[Record]:
    return [Record("t", b"k", b"%d" % number, str(number)) for number in numbers]


def test_what_kafka_has_acknowledged_leaves_the_backlog(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.sink.take(records(1, 2, 3))
    world.sink.advance()
    assert world.sink.counts.waiting == 3
    world.producer.answers = [None, None]
    world.sink.advance()
    assert (world.sink.counts.sent, world.sink.counts.waiting) == (2, 1)
    world.producer.answers = [None]
    world.sink.advance()
    assert not world.sink.is_busy
    assert world.producer.stored == [b"1", b"2", b"3"]


def test_after_an_error_all_is_sent_again_in_order(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.sink.take(records(1, 2, 3))
    world.sink.advance()
    world.producer.answers = [None, KafkaError("TOPIC_AUTHORIZATION_FAILED"), None]
    world.sink.advance()
    assert world.sink.counts.last_error == "because TOPIC_AUTHORIZATION_FAILED"
    world.producer.answers = [None, None]
    world.sink.advance()
    assert world.sink.counts.waiting == 2  # not yet tried again
    world.now_s += 10.0
    world.sink.advance()
    world.sink.advance()
    assert not world.sink.is_busy
    assert world.producer.stored == [b"1", b"3", b"2", b"3"]
    assert world.sink.counts.last_error is None


def test_a_record_that_kafka_never_takes_is_dropped_and_the_others_go_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.sink.take(records(1, 2))
    world.sink.advance()
    world.producer.answers = [KafkaError("MSG_SIZE_TOO_LARGE"), None]
    world.sink.advance()
    assert (world.sink.counts.dropped, world.sink.counts.sent) == (1, 1)
    assert not world.sink.is_busy


def test_another_process_sends_what_the_first_one_left(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.sink.take(records(1, 2))
    world.sink.advance()
    world.producer.answers = [None]
    world.sink.advance()
    world.sink.close(within_s=0.0)
    world.producer = FakeProducer()
    world.producer.answers = [None, None]
    again = world.open()
    again.advance()
    again.advance()
    assert world.producer.stored[-1] == b"2"
    assert not again.is_busy


def test_a_full_backlog_and_settings_that_are_refused_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.problem = "no such setting"
    world.sink.take(records(*range(200)))
    world.sink.advance()
    counts = world.sink.counts
    assert counts.last_error == "no such setting"
    assert counts.waiting + counts.dropped == 200
    assert 0 < counts.dropped < 200
    world.problem, world.now_s = None, 10.0
    world.producer.answers = [None] * 200
    world.sink.advance()
    world.sink.advance()
    assert world.sink.counts.waiting == 0
