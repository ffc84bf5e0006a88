"""How tests are spread over processes, so that the last ones end together.

All that use Spark or Kafka share one process and come first; slow tests that share no fixture come
next, each for itself; a file of others stays together.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from nearcast.testing.local_kafka import LocalKafka

# how long an example takes says something of the machine only
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_configure() -> None:
    os.environ["SPARK_CONF_DIR"] = str(Path(__file__).with_name("spark_conf"))
    # a shell that starts the tests in the background has them, and all their children, ignore it
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        uses_service = {"spark", "kafka"} & set(getattr(item, "fixturenames", ()))
        if uses_service:
            item.add_marker(pytest.mark.slow)  # to start one takes many seconds
        is_slow = item.get_closest_marker("slow") is not None
        alone = item.nodeid if is_slow and not _shares_fixtures(item) else str(item.path)
        item.add_marker(pytest.mark.xdist_group("service" if uses_service else alone))
        item.stash[_RANK] = 0 if uses_service else 1 if is_slow else 2
    items.sort(key=lambda item: item.stash[_RANK])


_RANK = pytest.StashKey[int]()


def pytest_collection_finish() -> None:
    # thousands of tests and all libraries stay: not to be looked through again and again
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def _shares_fixtures(item: pytest.Item) -> bool:
    """Tell whether a test uses a fixture of ours that lasts longer than the test."""
    assert isinstance(item, pytest.Function)
    found = item._fixtureinfo.name2fixturedefs.values()
    return any(one[-1].baseid and one[-1].scope != "function" for one in found)


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka]:
    """One real Kafka for all tests; who stops it starts it again."""
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with LocalKafka(properties=rights) as broker:
        yield broker
