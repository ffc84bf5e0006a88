"""The client for programs without asyncio, against a real server on loopback."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from nearcast.sdk import (
    NotAcknowledgedError,
    NotConnectedError,
    RequestRefusedError,
    SyncClient,
    new_private_key,
    save_credentials,
)
from nearcast.wire.messages import Report
from sdk.edge import Edge


def _client_threads() -> list[str]:
    return [item.name for item in threading.enumerate() if item.name.startswith("nearcast ")]


def test_it_publishes_and_hears(edge: Edge, tmp_path: Path) -> None:
    save_credentials(edge.enrol("car"), tmp_path / "car.json")
    with SyncClient.connect(tmp_path / "car.json") as car:
        assert car.home == edge.home
        car.subscribe("a")
        receipts = [car.publish("a", str(number)) for number in range(50)]
        for receipt in receipts:
            receipt.wait()
        assert receipts[-1].sequence == 50
        heard = [item.text for _, item in zip(range(50), car.notifications(5.0), strict=False)]
        assert sorted(map(int, heard)) == list(range(50))
        car.unsubscribe("a")
        assert car.next_notification(timeout_s=0) is None
        assert list(car.notifications(timeout_s=0)) == []
        car.publish("a", "x", durable=False).wait()
        assert car.echo() > 0
        assert car.dropped_notifications == 0
        edge.heard.clear()
        car.report(1.0, 2.0, 3.0, 4.0)
        edge.heard.wait()
    assert edge.site.reports[-1] == Report(1.0, 2.0, 3.0, 4.0)
    assert not _client_threads()


def test_errors_reach_the_caller_and_the_thread_ends(edge: Edge) -> None:
    with (
        pytest.raises(RequestRefusedError, match="no such topic"),
        SyncClient.connect(edge.enrol("car")) as car,
    ):
        car.subscribe("forbidden")
    with pytest.raises(NotConnectedError, match="closed"):
        car.publish("a", "late")
    car.close()
    unknown = replace(edge.enrol("x"), private_key=new_private_key())
    with pytest.raises(NotConnectedError, match="enrolled"):
        SyncClient(unknown, timeout_s=0.01)
    assert not _client_threads()


def test_a_receipt_tells_that_it_is_still_open(edge: Edge) -> None:
    edge.acknowledges = False
    car = SyncClient.connect(edge.enrol("car"))
    receipt = car.publish("a", "x")
    with pytest.raises(NotAcknowledgedError, match="a, publication 1: not acknowledged yet"):
        receipt.wait(timeout_s=0.01)
    with pytest.raises(NotAcknowledgedError, match="1 publications"):
        car.close(timeout_s=0.01)
    with pytest.raises(NotAcknowledgedError, match="closed"):
        receipt.wait()
    assert not _client_threads()
