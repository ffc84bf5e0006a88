"""The process that reads or makes a plan, so that its manager can go on answering.

Started by `plan_reader` as ``python -m nearcast.runtime.plan_process``. It ends with the stream
from the manager.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from nearcast.domain.fingerprint import scenario_fingerprint
from nearcast.domain.plan import Model, Plan
from nearcast.domain.plan_files import read_plan, report_to_json
from nearcast.domain.scenario import Scenario
from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import ConfigError, NearcastError
from nearcast.planning.request import PlanRequest, Progress
from nearcast.runtime.helper_scheduling import yield_to_server
from nearcast.runtime.next_plan import plan_rows
from nearcast.runtime.pipe_frames import FrameReader
from nearcast.runtime.plan_frames import (
    Answer,
    Clients,
    Failed,
    PlanEnd,
    Planning,
    PlanRead,
    PlanTask,
    ScenarioRead,
    ServerRow,
    Topics,
    frame,
)
from nearcast.server.orders_from_plan import name_plan, names_of

__all__ = ["serve"]

_TOPICS_AT_ONCE = 2_000
_NICENESS = 5
"""A plan can wait; messages cannot."""


def serve(sock: socket.socket, task: PlanTask) -> None:
    """Answer each frame of the manager with the next part of the plan."""
    reader = FrameReader(sock)
    answers = _answers(sock, task)
    asked = 0
    while True:
        while not asked:
            size, frames = reader.read()
            if not size:
                return
            asked += len(frames)
        try:
            answer = next(answers, None)
        except NearcastError as error:
            answer = Failed(type(error).__name__, str(error))
        if answer is None:
            return
        sock.sendall(frame(answer))
        asked -= 1


def _answers(sock: socket.socket, task: PlanTask) -> Iterator[Answer]:
    scenario = read_scenario(Path(task.scenario))
    table = scenario.servers
    columns = (table.x_km, table.y_km, table.storage, table.compute, table.client_limit)
    yield ScenarioRead(
        [
            ServerRow(name, *(float(column[index]) for column in columns))
            for index, name in enumerate(names_of(table.ids, "server"))
        ],
        scenario_fingerprint(scenario),
    )
    if task.plan is not None:
        plan, report = read_plan(Path(task.plan), scenario)
    else:
        plan, report = _make(sock, task, scenario)
    named = name_plan(scenario, plan)
    yield PlanRead(report)
    for start in range(0, len(named.topics), _TOPICS_AT_ONCE):
        yield Topics(named.topics[start : start + _TOPICS_AT_ONCE])
    for rows in plan_rows(named.clients):
        yield Clients(rows)
    yield PlanEnd()


def _make(
    sock: socket.socket, task: PlanTask, scenario: Scenario
) -> tuple[Plan, dict[str, object]]:
    from nearcast.planning.solve import make_plan

    if task.model not in list(Model):
        raise ConfigError(
            f"site.model: there is no model {task.model!r}; there are: {', '.join(Model)}"
        )
    tenths: dict[str, int] = {}

    def on_progress(progress: Progress) -> None:
        tenth = int(progress.fraction * 10)
        if tenths.get(progress.stage) != tenth:
            tenths[progress.stage] = tenth
            sock.sendall(frame(Planning(progress.stage, tenth * 10, progress.cost)))

    outcome = make_plan(
        scenario, PlanRequest(Model(task.model), task.method, on_progress=on_progress)
    )
    return outcome.plan, report_to_json(outcome.report)


def main(descriptor: int, task_json: str) -> None:
    """Read or make a plan for the manager at the other end of a socket."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the manager decides when all ends
        signal.signal(number, signal.SIG_IGN)
    yield_to_server()
    os.nice(_NICENESS)
    with socket.socket(fileno=descriptor) as sock:
        serve(sock, msgspec.json.decode(task_json, type=PlanTask))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
