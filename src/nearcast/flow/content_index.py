"""The index mapping of a component, made of what its flow declares."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from nearcast.broker.payloads import read_object
from nearcast.broker.processing import CAUGHT
from nearcast.broker.processor import ProcessorWatch
from nearcast.errors import ConfigError
from nearcast.flow.flow import Component, ContentMapping
from nearcast.routing import index_mapping

__all__ = ["make_mapping"]


def make_mapping(
    component: Component, watch: ProcessorWatch | None = None
) -> index_mapping.IndexMapping:
    """Return the mapping of a component; ConfigError when its function cannot be loaded.

    The watch is told when a function runs, as of processors in the server's loop.
    """
    match component.mapping:
        case ContentMapping(field=str(field)):
            return index_mapping.ContentMapping(lambda body: (read_object(body) or {})[field])
        case ContentMapping(function=str(function)):
            module, _, name = function.partition(":")
            try:
                found = getattr(import_module(module), name)
            except CAUGHT as error:
                raise ConfigError(f"mapping {function!r} cannot be loaded: {error}") from error
            if watch is None:
                return index_mapping.ContentMapping(found)
            return index_mapping.ContentMapping(_watched(found, watch, component.output, function))
    return index_mapping.ShuffleMapping()


def _watched(
    function: Callable[[bytes], object], watch: ProcessorWatch, topic: str, name: str
) -> Callable[[bytes], object]:
    def call(body: bytes) -> object:
        watch.enter(topic, name)
        try:
            return function(body)
        finally:
            watch.leave()

    return call
