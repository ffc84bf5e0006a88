"""Places and areas in WGS84 degrees, for a client of a site that knows where on the earth it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.errors import AreaError, ConfigError, WireError
from nearcast.trust.site_plane import SitePlane
from nearcast.wire.areas import check_places

if TYPE_CHECKING:  # a client that counts in km needs no projection
    from nearcast.geo.projection import LocalProjection

__all__ = ["Degrees", "place_km"]


def place_km(degrees: Degrees | None, x: float, y: float) -> tuple[float, float]:
    """Return a place in km that a client counts in degrees, if it does; WireError: it is none."""
    place = (x, y) if degrees is None else degrees.place_km(x, y)
    check_places((place,))  # the client's home would not take it, however often it is sent
    return place


class Degrees:
    """From longitude and latitude to the site's kilometres and back.

    Parameters
    ----------
    plane
        Of the client's credential file.

    Raises
    ------
    ConfigError
        When the file says nothing of a plane.
    """

    def __init__(self, plane: SitePlane | None) -> None:
        if plane is None:
            raise ConfigError(
                "the credential file has no plane: the site does not know where on the earth it is"
            )
        self._plane = plane

    def place_km(self, longitude: float, latitude: float) -> tuple[float, float]:
        """Return (x_km, y_km); WireError when the place cannot be on the site's plane."""
        from nearcast.geo.area_text import place_in_km

        try:
            return place_in_km(longitude, latitude, self._projection())
        except AreaError as error:
            raise WireError(f"position, {error}") from None

    def area_km(self, area: str) -> str:
        """Return an area as GeoJSON in km; WireError when it cannot be on the site's plane."""
        from nearcast.geo.area_text import area_in_km

        try:
            return area_in_km(area, self._projection())
        except AreaError as error:
            raise WireError(f"area, {error}") from None

    def degrees(self, x_km: float, y_km: float) -> tuple[float, float]:
        """Return longitude and latitude of a place, such as the one in an alert."""
        import numpy as np

        latitude, longitude = self._projection().to_degrees(np.array([x_km]), np.array([y_km]))
        return float(longitude[0]), float(latitude[0])

    def _projection(self) -> LocalProjection:
        from nearcast.geo.projection import LocalProjection

        one = self._plane
        return LocalProjection(one.latitude, one.longitude, one.west_km, one.south_km)
