"""What running flows use of servers: a plan must not give it away a second time.

A component counts as one more broker of what it reads, for its share of the indexes: it uses the
spool size of the sources that its messages come from as storage, and spool size x publishers as
compute, in the units of the scenario (equations of the ratio model). Where components are is what
servers said last, so the next plan begins from what they have divided by themselves.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from nearcast.domain.scenario import Scenario
from nearcast.errors import ConfigError

__all__ = ["ShownFlows", "decode_shown_flows", "read_shown_flows", "without_flow_use"]

_END = 1 << 62
"""Indexes of components are below it."""


class ShownPart(msgspec.Struct, frozen=True):
    """A range of indexes."""

    low: Annotated[int, Meta(ge=0, le=_END)]
    high: Annotated[int, Meta(ge=0, le=_END)]
    net: str | None = None
    """Only messages from this net; None: from all."""


class ShownPlace(msgspec.Struct, frozen=True):
    """What a server has of a component."""

    server: str
    parts: list[ShownPart] = []


class ShownComponent(msgspec.Struct, frozen=True):
    """A component, and where it is."""

    inputs: list[str]
    output: str
    places: list[ShownPlace] = []


class ShownFlow(msgspec.Struct, frozen=True):
    """A flow that runs."""

    name: str
    sources: list[str]
    components: dict[str, ShownComponent]


class ShownFlows(msgspec.Struct, frozen=True):
    """What ``nearcast flow show --json`` says."""

    flows: list[ShownFlow]


def read_shown_flows(path: Path) -> ShownFlows:
    """Return the flows of a file; ConfigError when it is none."""
    try:
        return decode_shown_flows(msgspec.json.decode(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: not what `nearcast flow show --json` says: {error}") from None


def decode_shown_flows(value: object) -> ShownFlows:
    """Return the flows of a decoded JSON value; MsgspecError when it is none."""
    return msgspec.convert(value, ShownFlows)


def without_flow_use(scenario: Scenario, shown: ShownFlows) -> Scenario:
    """Return the scenario with what is left of its servers; the cloud server has no limits.

    Raises
    ------
    ConfigError
        When the components of a flow make a circle.
    """
    servers = scenario.servers
    index = {str(name): at for at, name in enumerate(servers.ids.to_pylist())}
    storage, compute = servers.storage.copy(), servers.compute.copy()
    needs = _needs_of_topics(scenario)
    for flow in shown.flows:
        for name, component in flow.components.items():
            need = _need(flow, name, needs, ())
            for place in component.places:
                if place.server in index:
                    used = _share(place, len(servers)) * need
                    storage[index[place.server]] -= used[0]
                    compute[index[place.server]] -= used[1]
    left = replace(servers, storage=np.maximum(storage, 0.0), compute=np.maximum(compute, 0.0))
    return replace(scenario, servers=left)


def _needs_of_topics(scenario: Scenario) -> dict[str, NDArray[np.float64]]:
    """Return storage and compute that a broker of a whole topic uses, by topic."""
    members, topics = scenario.members, scenario.topics
    publishers = np.bincount(members.topic[members.publishes], minlength=len(topics))
    spool = topics.spool.astype(np.float64)
    return {
        str(name): np.array([spool[at], spool[at] * publishers[at]])
        for at, name in enumerate(topics.ids.to_pylist())
    }


def _need(
    flow: ShownFlow, component: str, needs: dict[str, NDArray[np.float64]], above: tuple[str, ...]
) -> NDArray[np.float64]:
    """Return what a component uses that has all indexes: that of the sources it works for."""
    if component in above:
        raise ConfigError(f"flow {flow.name!r}: the components make a circle at {component!r}")
    total = np.zeros(2)
    for topic in flow.components[component].inputs:
        if topic in flow.sources:
            total += needs.get(topic, np.zeros(2))
        for name, other in flow.components.items():
            if other.output == topic:
                total += _need(flow, name, needs, (*above, component))
    return total


def _share(place: ShownPlace, servers: int) -> float:
    """Return the share of all messages; of one net's it is as if all nets had as many."""
    return sum(
        max(0, part.high - part.low) / _END / (1 if part.net is None else max(1, servers))
        for part in place.parts
    )
