"""Errors of the process that reads a plan arrive as what they were."""

from __future__ import annotations

import asyncio

import pytest

from nearcast.errors import NearcastError, PlanError, ScenarioError
from nearcast.runtime.pipe_frames import FrameBuffer
from nearcast.runtime.plan_frames import Failed, PlanTask, frame
from nearcast.runtime.plan_reader import PlanReader


@pytest.mark.parametrize(
    ("kind", "error"), [("ScenarioError", ScenarioError), ("OfAPlanner", PlanError)]
)
def test_an_error_is_raised_by_its_kind_or_as_one_of_the_plan(
    kind: str, error: type[NearcastError]
) -> None:
    async def main() -> None:
        reader = PlanReader(PlanTask("scenario", None, "ratio", "nearest"))
        reader._on_frames(FrameBuffer().feed(frame(Failed(kind, "what is wrong"))))
        with pytest.raises(error, match="what is wrong"):
            await reader.answer()

    asyncio.run(main())
