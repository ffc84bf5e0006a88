"""What servers hold in a growing site: a small one, measured as the large ones are."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearcast.errors import NearcastError
from nearcast.experiments import site_scale


def test_an_edge_is_told_its_own_clients_only() -> None:
    small, large = site_scale.run([2_000, 8_000])
    assert (small.edges, large.edges) == (2, 8)
    # four times the clients: the orders of an edge grow by six servers, not by their clients
    assert large.orders_kb < 1.3 * small.orders_kb
    assert small.orders_kb < 100
    assert small.manager_mb > 1
    assert large.edge_mb < 16
    assert min(large.adopt_s, large.orders_s, large.stall_ms) > 0
    # three for each of its 1,000 clients, and some of neighbours to its topics, however many
    # clients there are elsewhere
    assert 3_000 < large.edge_subscriptions == small.edge_subscriptions < 3_500
    # other homes ask it once for each topic, and tell it of subscribers to its own topics only
    assert large.subscription_messages - small.subscription_messages < 50 * 6


def test_a_measurement_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(NearcastError, match=r"edge at 10 clients failed: .*No such file"):
        site_scale._in_process("edge", 10, 2, tmp_path)
