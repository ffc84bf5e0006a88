"""What a manager and the process that reads or makes its plans say to each other, as MessagePack.

Any frame of the manager asks for the next answer. These come in the order in which they stand here:
`ScenarioRead`, `PlanRead`, `Topics` and `Clients` several times, `PlanEnd`; `Planning` at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from nearcast.runtime.next_plan import PlanRows
from nearcast.runtime.pipe_frames import pack_frame
from nearcast.server.orders_from_plan import PlannedTopic

__all__ = [
    "NEXT",
    "Answer",
    "Clients",
    "Failed",
    "PlanEnd",
    "PlanRead",
    "PlanTask",
    "Planning",
    "ScenarioRead",
    "ServerRow",
    "Topics",
    "decode_answer",
    "frame",
]

NEXT = pack_frame(b"next")


class PlanTask(msgspec.Struct, frozen=True):
    """What to read or to make."""

    scenario: str
    plan: str | None
    """The folder of the plan; None: make one."""
    model: str
    method: str


class _Answer(msgspec.Struct, array_like=True, tag=True):
    pass


class ServerRow(msgspec.Struct, array_like=True):
    """An edge server of the scenario."""

    server: str
    x_km: float
    y_km: float
    storage: float
    compute: float
    client_limit: float


class ScenarioRead(_Answer):
    """The scenario is read; the plan is not begun before the manager asks for it."""

    servers: Sequence[ServerRow]
    fingerprint: str


class Planning(_Answer):
    """How far the making of a plan is."""

    stage: str
    percent: int
    cost: float | None


class PlanRead(_Answer):
    """The plan is there: the content of its ``plan.json``."""

    report: dict[str, Any]


class Topics(_Answer):
    """Some topics of the plan."""

    topics: Sequence[PlannedTopic]


class Clients(_Answer):
    """Some clients of the plan."""

    rows: PlanRows


class PlanEnd(_Answer):
    """That was all of it."""


class Failed(_Answer):
    """An error of nearcast, by the name of its class."""

    kind: str
    reason: str


Answer = ScenarioRead | Planning | PlanRead | Topics | Clients | PlanEnd | Failed

_encode = msgspec.msgpack.Encoder().encode
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
decode_answer = _answers.decode


def frame(answer: Answer) -> bytes:
    """Return the bytes of an answer."""
    return pack_frame(_encode(answer))
