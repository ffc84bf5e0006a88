"""How tests are spread: a file stays together, and all that use Spark or Kafka share one worker."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from nearcast.testing.local_kafka import LocalKafka

# how long an example takes says something of the machine only
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_configure() -> None:
    # a shell that starts the tests in the background has them, and all their children, ignore it
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        uses_spark = "spark" in getattr(item, "fixturenames", ())
        uses_kafka = "kafka" in getattr(item, "fixturenames", ())
        if uses_spark or uses_kafka:
            item.add_marker(pytest.mark.slow)  # the session alone takes many seconds
        group = "spark" if uses_spark or uses_kafka else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka]:
    """One real Kafka for all tests; who stops it starts it again."""
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with LocalKafka(properties=rights) as broker:
        yield broker
