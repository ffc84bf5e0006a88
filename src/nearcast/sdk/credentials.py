"""Who a client is and where its home is: one small secret file.

::

    {"client": "car-7", "private_key": "<64 hex digits>",
     "home": {"host": "10.0.0.5", "port": 7000, "server_key": "<64 hex digits>"},
     "credential": "<hex digits>", "authority": "<64 hex digits>",
     "servers": [{"host": "10.0.0.6", "port": 7000, "server_key": "<64 hex digits>",
                  "credential": "<hex digits>"}],
     "x_km": 1.5, "y_km": 2.0, "delays_ms": {"10.0.0.5:7000": 0.8}, "datagram_limit": 1200}

`credential` is what the site's authority signed, `authority` its public key, `servers` other ways
into the site, each with what the authority signed about it. The last four are optional. `delays_ms`
holds one-way delays to emulate, by server. `plane`, where the site has one, says where on the earth
its kilometres lie: {"latitude": 48.1, "longitude": 11.5, "west_km": 0, "south_km": 0}. A client that is saved may add `revoked`: pages of the
list of servers that no longer count, each with the credential of its signer.
"""

from __future__ import annotations

import logging
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from nearcast.errors import ConfigError, OutputError, TrustError, WireError
from nearcast.links.secret_file import write_secret
from nearcast.trust.revoked_servers import SignedPage
from nearcast.trust.site_plane import SitePlane
from nearcast.wire.actions import Home
from nearcast.wire.areas import is_place
from nearcast.wire.framing import check_credential_fits
from nearcast.wire.noise import KEY_BYTES, public_key
from nearcast.wire.server_check import ServerCheck
from nearcast.wire.settings import Address, WireSettings

__all__ = [
    "Credentials",
    "load_credentials",
    "new_private_key",
    "save_credentials",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Credentials:
    """A client, its key and its home."""

    client: str
    private_key: bytes = field(repr=False)
    """X25519, 32 bytes; it is the client's identity."""
    home: Home
    x_km: float | None = None
    y_km: float | None = None
    delays_ms: Mapping[str, float] = field(default_factory=dict)
    """One-way delays to emulate, by "host:port" of a server."""
    datagram_limit: int | None = None
    """Most bytes per datagram, when the site differs from the default."""
    credential: bytes = b""
    """Signed by the site's authority: who the client is, and what it may do."""
    authority: bytes = b""
    """The authority's Ed25519 public key."""
    servers: tuple[Home, ...] = ()
    """Other ways into the site, for when the home is away; the best first."""
    plane: SitePlane | None = None
    """Where on the earth the site's kilometres lie."""
    revoked: tuple[SignedPage, ...] = ()
    """Pages of the list of revoked servers, as the client has heard them."""

    def __post_init__(self) -> None:
        if not self.client:
            raise ConfigError("client: must not be empty")
        if len(self.private_key) != KEY_BYTES:
            raise ConfigError(f"private_key: must have {2 * KEY_BYTES} hex digits")
        numbers = {"x_km": self.x_km, "y_km": self.y_km}
        for name, value in numbers.items():
            if value is not None and not is_place(value, 0.0):
                raise ConfigError(f"{name}: must be a finite number of km on earth, not {value}")
        for server, delay_ms in self.delays_ms.items():
            _read_address(server)
            if not 0 <= delay_ms < math.inf:
                raise ConfigError(f"delays_ms: {server!r} must be 0 or more, not {delay_ms}")
        # whether one was revoked does not make the file wrong: the client goes elsewhere
        servers = ServerCheck(self.authority)
        for home in (self.home, *self.servers):
            try:
                if home.credential:  # else the file's author stands for it
                    servers.check(home, 0.0)  # its time is looked at when it is told again
            except TrustError as error:
                raise ConfigError(f"server {home.address[0]}:{home.address[1]}: {error}") from None
        try:
            check_credential_fits(len(self.credential), self.settings().datagram_limit)
        except WireError as error:
            raise ConfigError(f"credential: {error}") from None

    @property
    def public_key(self) -> bytes:
        """The key that servers know the client by."""
        return public_key(self.private_key)

    def settings(self) -> WireSettings:
        """Return the settings of the client's sessions."""
        if self.datagram_limit is None:
            return WireSettings()
        return WireSettings(datagram_limit=self.datagram_limit)

    def delays_s(self) -> dict[Address, float]:
        """Return the delays to emulate, in seconds by address."""
        return {_read_address(name): delay / 1000 for name, delay in self.delays_ms.items()}


class _HomeFile(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    host: str
    port: int
    server_key: str
    credential: str = ""


class _CredentialsFile(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    client: str
    private_key: str
    home: _HomeFile
    x_km: float | None = None
    y_km: float | None = None
    delays_ms: dict[str, float] = {}
    datagram_limit: int | None = None
    credential: str = ""
    authority: str = ""
    servers: list[_HomeFile] = []
    plane: SitePlane | None = None
    revoked: list[tuple[str, str]] = []


def new_private_key() -> bytes:
    """Return a new X25519 private key."""
    return X25519PrivateKey.generate().private_bytes_raw()


def load_credentials(path: str | Path) -> Credentials:
    """Read a credential file.

    Raises
    ------
    ConfigError
        When it cannot be read, or something in it is missing, unknown or wrong.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    if os.name == "posix" and mode & 0o077:
        _log.warning("%s holds a private key, and others may read it: chmod 600 it", path)
    try:
        file = msgspec.json.decode(content, type=_CredentialsFile)
        return Credentials(
            client=file.client,
            private_key=_key("private_key", file.private_key),
            home=_home(file.home),
            x_km=file.x_km,
            y_km=file.y_km,
            delays_ms=file.delays_ms,
            datagram_limit=file.datagram_limit,
            credential=_hex("credential", file.credential),
            authority=_key("authority", file.authority) if file.authority else b"",
            servers=tuple(map(_home, file.servers)),
            plane=file.plane,
            revoked=tuple(
                (_hex("revoked", page), _hex("revoked", signer)) for page, signer in file.revoked
            ),
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from None


def save_credentials(
    credentials: Credentials, path: str | Path, *, overwrite: bool = False
) -> None:
    """Write a credential file that only its owner may read; OutputError when that fails."""
    path = Path(path)
    if path.exists() and not overwrite:
        raise OutputError(f"{path}: exists already, and the key in it would be lost")
    file = _CredentialsFile(
        client=credentials.client,
        private_key=credentials.private_key.hex(),
        home=_home_file(credentials.home),
        x_km=credentials.x_km,
        y_km=credentials.y_km,
        delays_ms=dict(credentials.delays_ms),
        datagram_limit=credentials.datagram_limit,
        credential=credentials.credential.hex(),
        authority=credentials.authority.hex(),
        servers=[_home_file(one) for one in credentials.servers],
        plane=credentials.plane,
        revoked=[(page.hex(), signer.hex()) for page, signer in credentials.revoked],
    )
    content = msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"
    write_secret(path, content, sync=False)  # one that is lost is made again


def _home(file: _HomeFile) -> Home:
    try:
        key = _key("home.server_key", file.server_key)
        return Home((file.host, file.port), key, _hex("home.credential", file.credential))
    except WireError as error:
        raise ConfigError(f"home: {error}") from None


def _home_file(home: Home) -> _HomeFile:
    return _HomeFile(*home.address, home.server_key.hex(), home.credential.hex())


def _key(name: str, digits: str) -> bytes:
    if len(digits) != 2 * KEY_BYTES:
        raise ConfigError(f"{name}: must have {2 * KEY_BYTES} hex digits")
    return _hex(name, digits)


def _hex(name: str, digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise ConfigError(f"{name}: must have {len(digits)} hex digits") from None


def _read_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise ConfigError(f"delays_ms: {text!r} is no host:port")
    return host.strip("[]"), int(port)
