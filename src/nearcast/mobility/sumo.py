"""Vehicles that SUMO drives, in this process by libsumo; the home of libsumo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from nearcast.errors import ConfigError
from nearcast.mobility.moment import Moment
from nearcast.mobility.sumo_tools import field_of, find_sumo, make_city, read_net, write_routes

__all__ = ["SumoMover"]


class SumoMover:
    """Vehicles on a network of SUMO. One at a time in a process.

    Parameters
    ----------
    vehicles
        They are all on the road from the beginning, as far as it has room.
    seconds
        How long they drive.
    net
        A ``.net.xml`` file of one's own; None: a city is made.
    blocks
        Along each side of that city, 200 m each.

    Raises
    ------
    ConfigError
        When SUMO is not installed, or the network cannot be used.
    """

    def __init__(
        self, vehicles: int, seconds: int, net: Path | None = None, blocks: int = 20, seed: int = 1
    ) -> None:
        if vehicles < 1 or seconds < 1 or blocks < 1:
            raise ConfigError("vehicles, blocks and seconds of a mover are at least 1")
        find_sumo()
        self._seconds, self._seed = seconds, seed
        self._net = b""
        """The network that was made; empty when the user has one."""
        if net is None:
            with TemporaryDirectory(prefix="nearcast-sumo-") as folder:
                made = Path(folder) / "city.net.xml"
                make_city(made, blocks, seed)
                self._net, self._roads = made.read_bytes(), read_net(made)
        else:
            self._roads = read_net(net)
        self.names: Sequence[str] = [f"v{number}" for number in range(vehicles)]
        self._file, self.field = net, field_of(self._roads)

    def moments(self) -> Iterator[Moment]:
        """Return the seconds; SUMO ends with them."""
        with TemporaryDirectory(prefix="nearcast-sumo-") as folder:
            yield from self._drive(Path(folder))

    def _drive(self, folder: Path) -> Iterator[Moment]:
        import libsumo

        net, routes = self._file or folder / "city.net.xml", folder / "routes.rou.xml"
        if self._net:
            net.write_bytes(self._net)
        write_routes(routes, self._roads, self.names, self._seconds, self._seed)
        options = {
            "--net-file": str(net),
            "--route-files": str(routes),
            "--seed": str(self._seed),
            "--step-length": "1",
            # who waits long is not carried away: positions would jump
            "--time-to-teleport": "-1",
            "--ignore-route-errors": "true",
            "--no-step-log": "true",
            "--no-warnings": "true",
            "--duration-log.disable": "true",
        }
        try:
            libsumo.start(["sumo", *(text for pair in options.items() for text in pair)])
        except Exception as error:  # libsumo raises several kinds, and RuntimeError
            raise ConfigError(f"SUMO does not start with {net}: {error!s:.200}") from None
        try:
            for second in range(self._seconds):
                libsumo.simulationStep()
                yield _moment(libsumo.vehicle, float(second))
        finally:
            libsumo.close()


def _moment(vehicle: object, time_s: float) -> Moment:
    get = vehicle.getIDList, vehicle.getPosition, vehicle.getSpeed, vehicle.getAngle  # type: ignore[attr-defined]
    names = sorted(get[0]())
    places = np.array([get[1](one) for one in names], dtype=np.float64).reshape(-1, 2) / 1000
    speeds = np.array([get[2](one) for one in names], dtype=np.float64)
    angles = np.array([get[3](one) for one in names], dtype=np.float64)
    return Moment(time_s, names, places[:, 0], places[:, 1], speeds, angles)
