"""The processors by name: the built-in ones, those that users plug in, and ``module:Class``."""

from __future__ import annotations

from collections.abc import Container, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nearcast.broker.processing import CAUGHT
from nearcast.broker.processor import Processor
from nearcast.errors import ProcessorError

__all__ = [
    "ENTRY_POINT_GROUP",
    "SHIPPED",
    "check_allowed",
    "load_processor",
    "make_processor",
    "processor_names",
]

ENTRY_POINT_GROUP = "nearcast.processors"

_BUILT_IN = {
    "forward": "nearcast.broker.processors.forward:Forward",
    "echo": "nearcast.broker.processors.echo:Echo",
    "events": "nearcast.broker.processors.events:Events",
    "person-count": "nearcast.broker.processors.people:PersonCount",
    "person-features": "nearcast.broker.processors.people:PersonFeatures",
    "person-match": "nearcast.broker.processors.people:PersonMatch",
    "person-region": "nearcast.broker.processors.people:PersonRegion",
    "proximity": "nearcast.broker.processors.proximity:Proximity",
    "speeding": "nearcast.broker.processors.speeding:Speeding",
    "threshold": "nearcast.broker.processors.threshold:Threshold",
}

SHIPPED = frozenset(_BUILT_IN)
"""Processors that every server may run."""


def check_allowed(name: str, allowed: Container[str] | None) -> None:
    """Raise ProcessorError when a processor is neither shipped nor allowed; None: any is.

    Nothing is imported.
    """
    if allowed is not None and name not in SHIPPED and name not in allowed:
        raise ProcessorError(
            f"processor {name!r} is not allowed here: its name must stand in the configuration of"
            " this server, [processors] allowed"
        )


def _plugged_in() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def processor_names() -> list[str]:
    """Return all known processors, the built-in ones first."""
    return [*_BUILT_IN, *sorted(set(_plugged_in()) - set(_BUILT_IN))]


def make_processor(name: str, options: Mapping[str, Any] | None = None) -> Processor:
    """Return a new processor, made with options.

    Parameters
    ----------
    name
        Of a built-in processor or of one of the entry points ``nearcast.processors``; or
        ``module:Class`` for any class that can be imported.

    Raises
    ------
    ProcessorError
        When there is none, it cannot be loaded, or it refuses the options.
    """
    factory = load_processor(name)
    try:
        processor: Processor = factory(**(options or {}))
        processor.process  # noqa: B018  (asks early whether it is a processor at all)
    except CAUGHT as error:
        raise ProcessorError(f"processor {name!r} cannot be made: {error}") from error
    return processor


def load_processor(name: str) -> Any:
    """Import what makes a processor, and return it.

    Raises
    ------
    ProcessorError
        When there is none, or it cannot be loaded.
    """
    if name in _BUILT_IN:
        module, attribute = _BUILT_IN[name].split(":")
        return getattr(import_module(module), attribute)
    point = EntryPoint(name, name, ENTRY_POINT_GROUP) if ":" in name else _plugged_in().get(name)
    if point is None:
        known = ", ".join(processor_names())
        raise ProcessorError(
            f"there is no processor {name!r}; there are: {known}; or give module:Class"
        )
    try:
        return point.load()
    except CAUGHT as error:
        place = "" if point.value == name else f" ({point.value}) of {ENTRY_POINT_GROUP}"
        raise ProcessorError(f"processor {name!r}{place} cannot be loaded: {error}") from error
