"""An edge server on loopback for the SDK's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sdk.edge import Edge


@pytest.fixture
def edge() -> Iterator[Edge]:
    """A server that acknowledges and forwards."""
    with Edge() as server:
        yield server
