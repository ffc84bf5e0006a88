"""A processor that remembers, by key, what it processed: whether all, once, and in order."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence

from nearcast.broker.notifications import Notification
from nearcast.broker.topic_spool import SpoolView
from nearcast.wire.publication import Publication

__all__ = ["RECORDING", "RecordingProcessor"]

RECORDING = "nearcast.testing.recording_processor:RecordingProcessor"
"""Its name in flows."""


class RecordingProcessor:
    """Remembers payloads by their ``key`` and says each again; hangs or dies if one orders it."""

    def __init__(self) -> None:
        self.seen: dict[str, list[list[object]]] = {}
        """By key: publisher and number of each message, in the order of processing."""

    def process(self, batch: Sequence[Publication], spool: SpoolView) -> Iterator[Notification]:
        """Remember each message and say it again."""
        for message in batch:
            body = json.loads(message.payload)
            if body.get("order") == "die":
                os._exit(3)
            while body.get("order") == "hang":
                pass
            self.seen.setdefault(body["key"], []).append([body["publisher"], body["number"]])
            yield Notification(message.payload, cause=message)

    def state(self) -> bytes:
        """Return all that was seen."""
        return json.dumps(self.seen).encode()

    def restore(self, state: bytes) -> None:
        """Remember this."""
        self.seen = json.loads(state)

    def merge(self, state: bytes) -> None:
        """Remember what another one saw as well."""
        for key, seen in json.loads(state).items():
            self.seen[key] = seen + self.seen.get(key, [])

    def split(self, goes: Callable[[str], bool]) -> bytes:
        """Return what was seen of the keys that go, and forget it."""
        keys = [key for key in self.seen if goes(key)]
        return json.dumps({key: self.seen.pop(key) for key in keys}).encode()
