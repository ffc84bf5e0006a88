"""The folder of a standalone server: its key, where it listens, and which clients may connect.

::

    server.key          its private key
    standalone.json     where it listens
    clients.json        public keys of the enrolled clients, by name
    processors.json     rules: which processor serves which topics
    orders.msgpack, spool/, log/    as in the data folder of any edge server

Each user who may write to the folder may enrol clients and change processors; the server need not
run.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from nearcast.errors import ConfigError, OutputError
from nearcast.links.secret_file import write_secret
from nearcast.sdk.credentials import Credentials, new_private_key
from nearcast.server.client_checks import check_client
from nearcast.server.processor_rules import ProcessorRule, check_rules
from nearcast.site.secret_files import make_key
from nearcast.wire.actions import Home
from nearcast.wire.noise import public_key

__all__ = ["DEFAULT_HTTP_PORT", "DEFAULT_PORT", "StandaloneFolder", "StandalonePlace"]

DEFAULT_PORT = 7400
DEFAULT_HTTP_PORT = 7480


class StandalonePlace(msgspec.Struct, frozen=True):
    """Where a standalone server listens; the content of ``standalone.json``."""

    public_key: str
    server: str = "standalone"
    host: str = "127.0.0.1"
    """The address at which it listens."""
    public_host: str = "127.0.0.1"
    """The address that clients are told."""
    port: int = DEFAULT_PORT
    """UDP, for clients."""
    http_port: int = DEFAULT_HTTP_PORT

    @property
    def url(self) -> str:
        """Where health, status and metrics are asked for."""
        return f"http://127.0.0.1:{self.http_port}"


class StandaloneFolder:
    """The files of a standalone server; made when they are needed first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key_file = path / "server.key"
        self._place_file = path / "standalone.json"
        self._clients_file = path / "clients.json"
        self._processors_file = path / "processors.json"

    def make_key(self) -> bytes:
        """Return the server's private key, which is made if there is none yet."""
        with self.locked("files.lock", wait=True):
            return make_key(self.key_file)

    def place(self) -> StandalonePlace:
        """Return where the server listens, or will listen by default.

        Raises
        ------
        ConfigError
            When the folder is not one of a standalone server, or the file is damaged.
        """
        try:
            return msgspec.json.decode(self._place_file.read_bytes(), type=StandalonePlace)
        except OSError as error:
            raise ConfigError(
                f"{self._place_file}: {error.strerror or error};"
                f" `nearcast serve standalone --data {self.path}` makes it"
            ) from None
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{self._place_file}: {error}") from None

    def has_place(self) -> bool:
        """Tell whether it is known where the server listens."""
        return self._place_file.exists()

    def save_place(self, place: StandalonePlace) -> None:
        """Write where the server listens."""
        with self.locked("files.lock", wait=True):
            self._write(self._place_file, msgspec.json.encode(place))

    def clients(self) -> dict[str, bytes]:
        """Return the public keys of the enrolled clients.

        Raises
        ------
        ConfigError
            When the file is damaged.
        """
        try:
            found = msgspec.json.decode(self._clients_file.read_bytes(), type=dict[str, str])
            clients = {client: bytes.fromhex(key) for client, key in found.items()}
            for client, key in clients.items():
                check_client(client, key)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self._clients_file}: {error.strerror or error}") from None
        except (ValueError, msgspec.MsgspecError, ConfigError) as error:
            raise ConfigError(f"{self._clients_file}: {error}") from None
        return clients

    def processors(self) -> tuple[ProcessorRule, ...]:
        """Return the rules by which topics get their processors.

        Raises
        ------
        ConfigError
            When the file is damaged.
        """
        try:
            content = self._processors_file.read_bytes()
            return msgspec.json.decode(content, type=tuple[ProcessorRule, ...])
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ConfigError(f"{self._processors_file}: {error.strerror or error}") from None
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{self._processors_file}: {error}") from None

    def save_processors(self, rules: Sequence[ProcessorRule]) -> None:
        """Replace the rules; a server that runs takes them up soon.

        Raises
        ------
        ConfigError, ProcessorError
            When a rule cannot be followed; then nothing changed.
        OutputError
            When the folder cannot be written.
        """
        check_rules(rules)
        with self.locked("files.lock", wait=True):
            self._write(self._processors_file, msgspec.json.encode(rules))

    def version(self) -> tuple[tuple[int, int], ...]:
        """Return something that changes whenever clients or processors do."""
        return tuple(_file_version(one) for one in (self._clients_file, self._processors_file))

    def enrol(
        self, names: Iterable[str], x_km: float | None = None, y_km: float | None = None
    ) -> list[Credentials]:
        """Make keys for clients and let them in; one that is enrolled already gets a new key.

        Raises
        ------
        ConfigError
            When a client cannot have its name or place; then nothing changed.
        OutputError
            When the folder cannot be written.
        """
        with self.locked("files.lock", wait=True):
            key = public_key(make_key(self.key_file))
            if not self.has_place():
                self._write(self._place_file, msgspec.json.encode(StandalonePlace(key.hex())))
            place = self.place()
            home = Home((place.public_host, place.port), key)
            made = [Credentials(name, new_private_key(), home, x_km, y_km) for name in names]
            for one in made:
                check_client(one.client, one.public_key)
            keys = self.clients() | {one.client: one.public_key for one in made}
            text = msgspec.json.encode({client: one.hex() for client, one in keys.items()})
            self._write(self._clients_file, text)
        return made

    @contextmanager
    def locked(self, name: str = "server.lock", *, wait: bool = False) -> Iterator[None]:
        """Keep others out until the block or the process ends.

        Raises
        ------
        ConfigError
            When somebody else is in it, and `wait` is not set.
        OutputError
            When the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / name, "w")  # noqa: SIM115 - closed below
        except OSError as error:
            raise self._unwritable(self.path, error) from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except OSError:
                raise ConfigError(
                    f"{self.path}: another server uses this folder; end it, or choose another one"
                ) from None
            yield

    def _write(self, path: Path, content: bytes) -> None:
        write_secret(path, msgspec.json.format(content, indent=2) + b"\n")

    def _unwritable(self, path: Path, error: OSError) -> OutputError:
        return OutputError(f"{path}: cannot be written: {error.strerror or error}")


def _file_version(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_ino
