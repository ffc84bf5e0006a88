"""How tests are spread: a file stays together, and all that use Spark share one worker."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        uses_spark = "spark" in getattr(item, "fixturenames", ())
        if uses_spark:
            item.add_marker(pytest.mark.slow)  # the session alone takes many seconds
        group = "spark" if uses_spark else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
