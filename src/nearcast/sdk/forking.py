"""A client does not survive `os.fork`: the child would seal with the nonces of its parent."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["end_in_children"]


class _Ends(Protocol):
    def abandon(self, reason: str) -> None:
        """End without a word to anybody."""
        ...


_alive: WeakSet[_Ends] = WeakSet()


def end_in_children(one: _Ends) -> None:
    """Have something abandoned in each process that is forked from this one."""
    _alive.add(one)


def _abandon_all() -> None:
    for one in list(_alive):
        one.abandon("this process was forked after the client was made; make a new one here")


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_abandon_all)
