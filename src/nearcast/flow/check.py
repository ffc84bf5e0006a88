"""What is wrong with a flow: everything at once, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module

from nearcast.broker.processing import CAUGHT
from nearcast.broker.processor import StatefulProcessor
from nearcast.broker.registry import make_processor
from nearcast.errors import ProcessorError
from nearcast.flow.flow import Component, ContentMapping, Flow
from nearcast.trust.topic_pattern import is_pattern

__all__ = ["check_flow", "find_cycle", "is_stateful"]

_LONGEST_TOPIC_BYTES = 1024
_NAME = re.compile(r"[\w.-]{1,80}", re.ASCII)
"""Ids of publishers are made of them."""
_MOST_COMPONENTS = 100


def check_flow(flow: Flow) -> list[str]:
    """Return all mistakes; processors and mapping functions are loaded, nothing is run."""
    mistakes = list(_topic_mistakes(flow))
    for name, component in flow.components.items():
        where = f"component {name!r}"
        mistakes += [f"{where}: {what}" for what in _component_mistakes(flow, component)]
    cycle = find_cycle(flow)
    if cycle:
        mistakes.append("cycle: " + " -> ".join(cycle))
    return mistakes


def is_stateful(component: Component) -> bool:
    """Tell whether a component's processor keeps a state.

    Raises
    ------
    ProcessorError
        When the processor is unknown or refuses its options.
    """
    return isinstance(make_processor(component.processor, component.options), StatefulProcessor)


def find_cycle(flow: Flow) -> list[str]:
    """Return components and topics in turn, the first one again at the end; empty: no cycle."""
    done: set[str] = set()
    for start in flow.components:
        path: list[str] = []
        to_visit = [(start, 0)]  # depth first without recursion: a flow may be long
        while to_visit:
            name, depth = to_visit.pop()
            del path[depth:]
            if name in path:
                return _with_topics(flow, [*path[path.index(name) :], name])
            if name in done:
                continue
            path.append(name)
            done.add(name)
            following = flow.readers(flow.components[name].output)
            to_visit += [(one, depth + 1) for one in following]
    return []


def _with_topics(flow: Flow, names: list[str]) -> list[str]:
    parts = [part for name in names[:-1] for part in (name, flow.components[name].output)]
    return [*parts, names[-1]]


def _topic_mistakes(flow: Flow) -> Iterator[str]:
    if not flow.name:
        yield "name: is empty"
    for name in (flow.name, *flow.components):
        if name and not _NAME.fullmatch(name):
            yield (
                f"name {name[:80]!r}: names of flows and components have letters, digits, '-', '_'"
                " and '.', 80 at most"
            )
    if len(flow.components) > _MOST_COMPONENTS:
        yield f"components: there are more than {_MOST_COMPONENTS}"
    if not flow.components:
        yield "components: there is none"
    made = {one.output for one in flow.components.values()}
    read = {topic for one in flow.components.values() for topic in one.inputs}
    for topic in flow.sources:
        if what := _topic_mistake(topic):
            yield f"sources: {what}"
        elif topic in made:
            yield f"sources: {topic!r} is the output of a component as well"
        elif topic not in read:
            yield f"sources: no component reads {topic!r}"
    for topic in _repeated(flow.sources):
        yield f"sources: {topic!r} is there twice"


def _component_mistakes(flow: Flow, component: Component) -> Iterator[str]:
    if not component.inputs:
        yield "inputs: there is none"
    made = {one.output for one in flow.components.values()} | set(flow.sources)
    for topic in component.inputs:
        if what := _topic_mistake(topic):
            yield f"inputs: {what}"
        elif topic not in made:
            yield f"inputs: {topic!r} is neither a source nor the output of a component"
    for topic in _repeated(component.inputs):
        yield f"inputs: {topic!r} is there twice"
    if what := _topic_mistake(component.output):
        yield f"output: {what}"
    try:
        stateful = is_stateful(component)
    except ProcessorError as error:
        yield f"processor: {error}"
        return
    if stateful and component.mapping in (None, "shuffle"):
        yield (
            f"mapping: processor {component.processor!r} keeps a state, so say which messages"
            ' belong together: mapping = { field = "..." } or { function = "module:name" }'
        )
    yield from _mapping_mistakes(component)


def _mapping_mistakes(component: Component) -> Iterator[str]:
    match component.mapping:
        case ContentMapping(None, None) | ContentMapping(str(), str()):
            yield "mapping: give either a field or a function"
        case ContentMapping("") | ContentMapping(None, ""):
            yield "mapping: the name is empty"
        case ContentMapping(None, str(function)):
            yield from _function_mistakes(function)


def _function_mistakes(function: str) -> Iterator[str]:
    module, _, name = function.partition(":")
    if not module or not name:
        yield f"mapping: function {function!r} is not of the form module:name"
        return
    try:
        found = getattr(import_module(module), name)
    except CAUGHT as error:
        yield f"mapping: function {function!r} cannot be loaded: {error}"
        return
    if not callable(found):
        yield f"mapping: {function!r} is no function"


def _topic_mistake(topic: str) -> str:
    if not 1 <= len(topic.encode()) <= _LONGEST_TOPIC_BYTES:
        return f"a topic's name has 1 to {_LONGEST_TOPIC_BYTES} bytes"
    if is_pattern(topic):
        return f"{topic!r} is a pattern; the topics of a flow are named one by one"
    return ""


def _repeated(topics: tuple[str, ...]) -> list[str]:
    return sorted({topic for topic in topics if topics.count(topic) > 1})
