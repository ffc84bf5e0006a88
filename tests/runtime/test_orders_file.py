from __future__ import annotations

import os
from pathlib import Path

import pytest

from nearcast.runtime.orders_file import OrdersFile


def test_orders_are_synced_with_their_name_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "orders"
    synced = list[tuple[str, bool]]()

    def sync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        synced.append((Path(name).name, path.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    assert OrdersFile(path).save(b"first")
    assert OrdersFile(path).load() == b"first"
    (content, is_named_early), (folder, is_named) = synced
    assert content.startswith(".orders")
    assert not is_named_early
    assert (folder, is_named) == (tmp_path.name, True)


def test_orders_that_could_not_be_kept_are_kept_as_soon_as_they_can_be(tmp_path: Path) -> None:
    orders = OrdersFile(tmp_path / "later" / "orders")
    assert not orders.save(b"first")
    orders.retry()
    assert orders.load() is None
    (tmp_path / "later").mkdir()
    orders.retry()
    assert orders.load() == b"first"
    (tmp_path / "later" / "orders").unlink()
    orders.retry()  # there is nothing left to keep
    assert orders.load() is None
