"""Where on the earth a site's plane lies, as its authority signed it: kilometres from degrees."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from nearcast.errors import TrustError
from nearcast.trust.credentials import read_body
from nearcast.trust.signed import Kind, SigningKey
from nearcast.trust.site_trust import SiteTrust

__all__ = ["SitePlane", "issue_plane", "plane_of_extra", "read_plane"]

_Km = Annotated[float, Meta(ge=-1e5, le=1e5)]


class SitePlane(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `geo.projection.LocalProjection` needs; the bounds rule out what is not finite."""

    latitude: Annotated[float, Meta(ge=-85, le=85)]
    longitude: Annotated[float, Meta(ge=-180, le=180)]
    west_km: _Km = 0.0
    south_km: _Km = 0.0


def plane_of_extra(extra: object) -> SitePlane | None:
    """Return what ``projection`` of a scenario says; None: nothing. TrustError: it makes no sense."""
    if extra is None:
        return None
    try:
        return msgspec.convert(extra, SitePlane)
    except msgspec.ValidationError as error:
        raise TrustError(f'"projection": {error}') from None


def issue_plane(key: SigningKey, plane: SitePlane) -> bytes:
    """Return a site's plane, signed."""
    return key.sign(Kind.PLANE, msgspec.msgpack.encode(plane))


def read_plane(trust: SiteTrust, data: bytes) -> SitePlane:
    """Return a site's plane; TrustError when the authority does not stand behind it."""
    return read_body(trust.open(Kind.PLANE, data), SitePlane)
