"""Producers, consumers and topics of Apache Kafka: the one home of confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol

from nearcast.errors import ConfigError
from nearcast.links.kafka_settings import KINDS, KafkaSettings

__all__ = [
    "Producer",
    "answering",
    "check_topics",
    "commit",
    "consume_soon",
    "create_topics",
    "ends_of_topic",
    "open_consumer",
    "open_producer",
]

_ANSWER_S = 10.0
_SESSION_MS = 10_000
"""After it a member of a group that was killed is given up, and others have its topics."""
_PASSING = frozenset({"_MAX_POLL_EXCEEDED"})
"""Kafka or the site was away for long: the consumer joins its group again by itself."""
_NO_LEADER = frozenset({"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"})
_PAUSE_S = 0.1
_QUIET = {"log_level": "0"}
"""librdkafka writes each try to reconnect to stderr; `error_cb` hears of it too."""


class Producer(Protocol):
    """What is used of confluent-kafka's producer."""

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        *,
        headers: list[tuple[str, bytes]],
        on_delivery: Callable[[Any, Any], None],
    ) -> None:
        """Take a message; `on_delivery` is called in `poll` with an error or None."""

    def poll(self, timeout: float) -> int:
        """Call what is due."""

    def purge(self) -> None:
        """Give up what is not sent."""

    def flush(self, timeout: float = -1) -> int:
        """Wait until all is sent or given up; return how many messages are neither in time."""


def open_producer(
    settings: KafkaSettings, on_error: Callable[[str], None], message_timeout_s: float = 0.0
) -> Producer:
    """Return a producer that sends each record once while it lives, and tries for ever.

    Parameters
    ----------
    message_timeout_s
        After it a record that Kafka did not take is given up; 0: never.

    Raises
    ------
    ConfigError
        When confluent-kafka is not installed or refuses a setting.
    """
    kafka = _library()
    made: Producer = _made(
        kafka.Producer,
        settings,
        {
            "enable.idempotence": "true",
            "linger.ms": "5",
            "message.timeout.ms": str(int(1e3 * message_timeout_s)),
            "error_cb": lambda error: on_error(error.str()),
        },
    )
    return made


def open_consumer(settings: KafkaSettings, group: str, **more: object) -> Any:
    """Return a consumer of a group that begins with what is retained, and commits when told to.

    Raises
    ------
    ConfigError
        When confluent-kafka is not installed or refuses a setting.
    """
    kafka = _library()
    own = {
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": _SESSION_MS,
    }
    return _made(kafka.Consumer, settings, {**own, **more})


def consume_soon(consumer: Any, most: int, wait_s: float) -> list[Any]:
    """Return messages as soon as there is one; `consume` itself waits until there are `most`."""
    first: list[Any] = consumer.consume(1, wait_s)
    found = first + consumer.consume(most - 1, 0) if first else []
    return [one for one in found if one.error() is None or one.error().name() not in _PASSING]


def commit(consumer: Any, batch: Sequence[Any], on_error: Callable[[str], None]) -> None:
    """Note in Kafka that the messages of a batch are done.

    It may fail when Kafka goes away, or when others have the partitions meanwhile: the messages then
    come again, here or there, unless those after them are committed.
    """
    kafka = _library()
    after = {(one.topic(), one.partition()): one.offset() + 1 for one in batch}
    positions = [kafka.TopicPartition(*which, offset) for which, offset in after.items()]
    try:
        consumer.commit(offsets=positions, asynchronous=False)
    except kafka.KafkaException as error:
        on_error(_said(error))


def create_topics(
    settings: KafkaSettings, partitions: int = 1, copies: int = 1, keep_hours: float | None = None
) -> list[str]:
    """Make the topics of a site that are not there; return those.

    Raises
    ------
    ConfigError
        When Kafka does not answer or refuses.
    """
    from confluent_kafka.cimpl import NewTopic

    there, admin = _topics(settings)
    wanted = [name for name in map(settings.topic, KINDS) if name not in there]
    config = {} if keep_hours is None else {"retention.ms": str(int(keep_hours * 3_600_000))}
    new = [NewTopic(name, partitions, copies, config=config) for name in wanted]
    for name, made in (admin.create_topics(new) if new else {}).items():
        try:
            made.result(_ANSWER_S)
        except _library().KafkaException as error:
            raise ConfigError(f"Kafka does not make topic {name!r}: {_said(error)}") from None
    limit = time.monotonic() + _ANSWER_S
    while new and not there.issuperset(wanted) and time.monotonic() < limit:
        there, _ = _topics(settings)  # what was made is shown a moment later
    return wanted


def check_topics(settings: KafkaSettings, names: tuple[str, ...]) -> None:
    """Raise ConfigError when Kafka does not answer, or lacks one of these topics."""
    there, _ = _topics(settings)
    if missing := [name for name in names if name not in there]:
        raise ConfigError(
            f"Kafka at {settings.bootstrap} has no topic {missing[0]!r}; "
            f"`nearcast kafka topics --bootstrap {settings.bootstrap}` makes it"
        )


def ends_of_topic(settings: KafkaSettings, topic: str) -> dict[int, int]:
    """Return the offset after the last record of each partition of a topic.

    Raises
    ------
    ConfigError
        When Kafka does not answer, or lacks the topic.
    """
    kafka = _library()
    consumer = open_consumer(settings, "nearcast-ends")
    with closing(consumer), answering(settings):
        found = consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic]
        if found.error is not None:
            raise ConfigError(f"Kafka, topic {topic!r}: {found.error.str()}")
        return {
            number: _end_of(consumer, kafka.TopicPartition(topic, number))
            for number in found.partitions
        }


def _end_of(consumer: Any, partition: Any) -> int:
    """Return the offset after the last record; a partition without a leader gets one soon."""
    limit = time.monotonic() + _ANSWER_S
    while True:
        try:
            return int(consumer.get_watermark_offsets(partition, timeout=_ANSWER_S)[1])
        except _library().KafkaException as error:
            if error.args[0].name() not in _NO_LEADER or time.monotonic() > limit:
                raise
            time.sleep(_PAUSE_S)


@contextmanager
def answering(settings: KafkaSettings) -> Iterator[None]:
    """Turn an error of Kafka into a ConfigError with one sentence."""
    kafka = _library()
    try:
        yield
    except kafka.KafkaException as error:
        raise ConfigError(f"Kafka at {settings.bootstrap}: {_said(error)}") from None


def _topics(settings: KafkaSettings) -> tuple[set[str], Any]:
    from confluent_kafka.admin import AdminClient

    admin = _made(AdminClient, settings, {})
    try:
        return set(admin.list_topics(timeout=_ANSWER_S).topics), admin
    except _library().KafkaException as error:
        raise ConfigError(f"no Kafka answers at {settings.bootstrap}: {_said(error)}") from None


def _made(kind: Callable[..., Any], settings: KafkaSettings, own: Mapping[str, object]) -> Any:
    config = {"bootstrap.servers": settings.bootstrap, **_QUIET, **own, **settings.options}
    try:
        return kind(config)
    except (_library().KafkaException, TypeError, ValueError) as error:
        raise ConfigError(f"Kafka's client refuses its settings: {_said(error)}") from None


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise ConfigError(
            "confluent-kafka is not installed; `pip install nearcast[kafka]` brings it"
        ) from None
    return confluent_kafka


def _said(error: Exception) -> str:
    """Return the words of an error of Kafka, without codes."""
    inner = error.args[0] if error.args else error
    return str(inner.str() if hasattr(inner, "str") else inner)
