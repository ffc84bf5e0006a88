"""Who may do what at this server: one rule for every path that a client's wish can take."""

from __future__ import annotations

from collections.abc import Mapping

from nearcast.errors import TrustError
from nearcast.trust.credentials import ClientCredential, Validity
from nearcast.trust.rights import EVERYTHING
from nearcast.wire.handshake_gate import Admit

__all__ = ["admit_enrolled"]


def admit_enrolled(keys: Mapping[bytes, str]) -> Admit:
    """Return what lets in the owners of keys, for everything: in a site without an authority."""

    def admit(_credential: bytes, public_key: bytes, _now: float) -> ClientCredential:
        client = keys.get(public_key)
        if client is None:
            raise TrustError("no client has this key")
        return ClientCredential(client, public_key, 1, Validity(0, 1 << 40), EVERYTHING)

    return admit
