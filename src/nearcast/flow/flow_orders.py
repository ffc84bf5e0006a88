"""A flow that runs, as the orders of every server have it."""

from __future__ import annotations

import msgspec

from nearcast.flow.flow import Flow

__all__ = ["FlowOrder"]


class FlowOrder(msgspec.Struct, frozen=True):
    """A flow, and where its components begin."""

    flow: Flow
    number: int
    """Rises with each run of the flow: another number begins anew, without the old states.

    So does a change of `begins_at`: give it a new number.
    """
    begins_at: dict[str, str]
    """By component: the server that has all of its indexes at first."""
