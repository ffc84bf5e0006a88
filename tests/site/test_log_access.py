"""Servers of a site are asked for their logs; one that does not answer holds nobody up."""

from __future__ import annotations

from typing import Any

import pytest

from nearcast.errors import NearcastError
from nearcast.links import http_client
from nearcast.site.log_access import flush_logs


def test_all_servers_are_asked_and_one_that_is_away_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def ask(url: str, body: Any = None, **_: Any) -> Any:
        asked.append(url)
        assert body is not None  # else it would be a GET
        if "//e2" in url:
            raise NearcastError("http://e2 does not answer")
        return {"rows_written": 1}

    monkeypatch.setattr(http_client, "ask", ask)
    assert flush_logs([f"http://e{number}:1" for number in (1, 2, 3)]) == 2
    assert sorted(asked) == [f"http://e{number}:1/log/flush" for number in (1, 2, 3)]
    assert flush_logs([]) == 0
