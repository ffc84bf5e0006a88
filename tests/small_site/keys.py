"""Keys and credentials of small sites."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nearcast.site.authority import Authority

__all__ = ["make_keys"]

_NOW_S = 1.7e9


def make_keys(folder: Path, edges: Iterable[str]) -> Authority:
    """Return an authority that has issued credentials to a manager, a cloud server and edges."""
    authority = Authority.open_or_create(folder)
    authority.server("manager", "manager", 3_650, _NOW_S)
    authority.server("cloud", "cloud", 3_650, _NOW_S)
    for name in edges:
        authority.server(name, "edge", 3_650, _NOW_S)
    return authority
