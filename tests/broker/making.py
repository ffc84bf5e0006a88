"""Messages and brokers for tests, made in few words."""

from __future__ import annotations

import json
from typing import Any

from nearcast.broker.audiences import SubscriberTable
from nearcast.broker.broker import Broker
from nearcast.broker.messages import Message, Origin
from nearcast.broker.processor import Processor
from nearcast.broker.topic_settings import TopicSettings


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
) -> Message:
    """A message whose payload is a JSON object of the values."""
    payload = json.dumps(values).encode()
    return Message(
        topic,
        publisher,
        epoch,
        sequence,
        round(at_s * 1e6),
        round(at_s * 1e6),
        x_km,
        y_km,
        payload,
        origin,
    )


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
