"""One pass of a server with all that follows, for tests that look at the server alone."""

from __future__ import annotations

from collections.abc import Sequence

from nearcast.server.outputs import Outputs
from nearcast.server.server import Server
from nearcast.wire.settings import Address

__all__ = ["whole_pass"]


def whole_pass(
    server: Server,
    batch: Sequence[tuple[bytes, Address]],
    now: float,
    queue_age_s: float | None = 0.0,
) -> Outputs:
    """Have a server take datagrams; return what it tells at once together with the rest."""
    told = server.on_datagrams(batch, now, queue_age_s)
    out = server.finish(now)
    out.datagrams, out.mesh = told.datagrams + out.datagrams, told.mesh + out.mesh
    return out
