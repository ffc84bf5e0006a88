"""Where a site lies on the earth is believed only if its authority stands behind it."""

from __future__ import annotations

import pytest

from nearcast.errors import TrustError
from nearcast.trust.signed import SigningKey
from nearcast.trust.site_plane import SitePlane, issue_plane, plane_of_extra, read_plane
from nearcast.trust.site_trust import SiteTrust

PLANE = SitePlane(48.1, 11.5, 1.0, 2.0)


def test_a_plane_of_another_authority_does_not_count() -> None:
    own, other = SigningKey(bytes(32)), SigningKey(b"x" * 32)
    trust = SiteTrust(own.public_key)
    assert read_plane(trust, issue_plane(own, PLANE)) == PLANE
    with pytest.raises(TrustError):
        read_plane(trust, issue_plane(other, PLANE))


@pytest.mark.parametrize(
    "extra", [5, {"latitude": 91, "longitude": 0}, {"latitude": 0}, {"latitude": 1, "x": 2}]
)
def test_a_projection_that_makes_no_sense_is_one_error(extra: object) -> None:
    with pytest.raises(TrustError, match='"projection"'):
        plane_of_extra(extra)
