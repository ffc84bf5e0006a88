"""The garbage collector rests while delays are measured, and only then."""

from __future__ import annotations

import gc

import pytest

from nearcast.links.garbage import without_gc


def measure_in_vain() -> None:
    with without_gc():
        with without_gc():
            pass
        assert not gc.isenabled()  # as the inner one found it
        raise ValueError("measured")


def test_nothing_is_collected_while_delays_are_measured() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="measured"):
        measure_in_vain()
    assert gc.isenabled()
