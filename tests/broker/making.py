"""Messages and brokers for tests, made in few words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec import structs

from nearcast.broker.actions import Actions
from nearcast.broker.audiences import SubscriberTable
from nearcast.broker.broker import Broker
from nearcast.broker.processor import Processor
from nearcast.broker.topic_settings import TopicSettings
from nearcast.wire.publication import Origin, Publication


def message(
    publisher: str = "car",
    sequence: int = 1,
    *,
    epoch: int = 1,
    topic: str = "t",
    at_s: float = 0.0,
    x_km: float = 0.0,
    y_km: float = 0.0,
    origin: Origin = Origin.DIRECT,
    **values: Any,
) -> Publication:
    """A message whose payload is a JSON object of the values."""
    payload = json.dumps(values).encode()
    at_us = round(at_s * 1e6)
    return Publication(
        topic,
        publisher,
        epoch,
        sequence,
        at_us,
        at_us,
        x_km,
        y_km,
        payload,
        origin,
        arrived_us=at_us,
    )


def handle(broker: Broker, batch: Iterable[Publication], now_s: float) -> Actions:
    """A pass with publications of clients, whose streams the broker owns."""
    for one in batch:
        topic = broker.topics.get(one.topic)
        if topic is not None and topic.settings.other_brokers:
            topic._gate.begin(one.publisher, 0).is_owned = True
        broker.admit(one, None, now_s)
    return broker.run(now_s)


def handle_copies(
    broker: Broker, batch: Iterable[Publication], copied_by: str, now_s: float
) -> Actions:
    """A pass with copies from another broker."""
    for one in batch:
        broker.admit_copy(one, copied_by)
    return broker.run(now_s)


def handle_once(broker: Broker, batch: Iterable[Publication], now_s: float) -> Actions:
    """A pass with publications that want no acknowledgement."""
    for one in batch:
        broker.admit_once(structs.replace(one, origin=Origin.ONCE))
    return broker.run(now_s)


def advance(
    broker: Broker, topic: str, publisher: str, epoch: int, through: int, now_s: float
) -> Actions:
    """A pass that stops waiting for messages."""
    broker.advance(topic, publisher, epoch, through)
    return broker.run(now_s)


def broker_with(
    *settings: TopicSettings, subscribers: tuple[str, ...] = ("sub",), **processors: Processor
) -> Broker:
    """A broker of topics, with ready-made processors by name where they are given."""
    table = SubscriberTable()
    for one in settings:
        for subscriber in subscribers:
            table.subscribe(one.topic, subscriber)

    def make(one: TopicSettings) -> Processor:
        from nearcast.broker.registry import make_processor

        return processors.get(one.processor) or make_processor(one.processor, one.options)

    broker = Broker(table, lambda: 0.0, make)
    for one in settings:
        broker.add_topic(one)
    return broker
