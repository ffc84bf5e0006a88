"""Where the servers of a site stand in a mobile network, and what that leaves of each deadline.

Three are shipped, those of seed 003: ``deployments/NAME.toml`` beside this file. One of the user's
own is a file of the same form.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from nearcast.errors import ConfigError

__all__ = ["SHIPPED", "Budget", "Deployment", "load_deployment"]

SHIPPED = ("metropolitan", "carrier", "edge")
_FOLDER = Path(__file__).parent / "deployments"
_Ms = Annotated[float, Meta(ge=0, le=60_000)]


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the way of a message of one class may take, from vehicle to vehicle."""

    network_ms: _Ms
    system_ms: _Ms
    """In servers."""

    @property
    def deadline_ms(self) -> float:
        """Both together."""
        return self.network_ms + self.system_ms


class Deployment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where servers are; the content of a file."""

    meaning: Annotated[str, Meta(min_length=1, max_length=200)]
    one_way_ms: Annotated[dict[str, _Ms], Meta(min_length=1)]
    """From a vehicle to its server, by parts of the way."""
    budget: dict[str, Budget] = {}
    """By message class."""
    geometry: bool = True
    """Whether the distance of the scenario from client to server comes in addition."""
    between_servers_ms: _Ms | None = None
    """One way; None: by the scenario's distances."""
    cloud_ms: _Ms | None = None
    """To the cloud server; None: as the scenario says."""
    roaming: bool = False
    """Whether each client has its home where it is."""

    def __post_init__(self) -> None:
        for name, one in self.budget.items():
            if one.network_ms < self.network_ms:
                raise ValueError(
                    f"budget.{name}: {one.network_ms:g} ms are less than the network takes,"
                    f" {self.network_ms:g} ms from vehicle to vehicle"
                )

    @property
    def access_ms(self) -> float:
        """From a vehicle to its server."""
        return sum(self.one_way_ms.values())

    @property
    def network_ms(self) -> float:
        """From one vehicle to its server and from there to another one."""
        return 2 * self.access_ms

    def deadline_ms(self, message_class: str, otherwise_ms: float) -> float:
        """Return the deadline of a class: its budget's, or that of the class itself."""
        found = self.budget.get(message_class)
        return otherwise_ms if found is None else found.deadline_ms

    def client_delays_ms(self, legs_ms: Mapping[str, float]) -> dict[str, float]:
        """Return a client's delays to servers, by what the scenario's distances make them."""
        return {
            name: self.access_ms + (leg_ms if self.geometry else 0.0)
            for name, leg_ms in legs_ms.items()
        }


def load_deployment(name: str) -> Deployment:
    """Return a deployment that is shipped, or the one of a file.

    Raises
    ------
    ConfigError
        When there is none of this name, or the file cannot be used.
    """
    path = _FOLDER / f"{name}.toml" if name in SHIPPED else Path(name)
    if name not in SHIPPED and path.suffix != ".toml":
        known = ", ".join(SHIPPED)
        raise ConfigError(f"there is no deployment {name!r:.80}; there are: {known}, or FILE.toml")
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), Deployment)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {error}") from None
