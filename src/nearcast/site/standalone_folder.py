"""The folder of a standalone server: a little authority of its own, and where it listens.

::

    standalone.json     where it listens
    processors.json     rules: which processor serves which topics
    flows.json          flows that run, and the number of the last run of any
    authority.key, register.db, keys/, credentials/, ...    see `authority`
    orders.msgpack, spool/, log/    as in the data folder of any edge server

Each user who may write to the folder may enrol clients, change processors and run flows; the server
need not run.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from nearcast.errors import ConfigError, OutputError
from nearcast.flow.flow_orders import FlowOrder
from nearcast.links.secret_file import write_secret
from nearcast.sdk.credentials import Credentials, new_private_key
from nearcast.server.processor_rules import ProcessorRule, check_rules
from nearcast.site.authority import Authority
from nearcast.trust.credentials import CLIENT_DAYS
from nearcast.trust.rights import EVERYTHING, Rights
from nearcast.trust.site_plane import SitePlane
from nearcast.wire.actions import Home

__all__ = ["DEFAULT_HTTP_PORT", "DEFAULT_PORT", "LocalFlows", "StandaloneFolder", "StandalonePlace"]

_T = TypeVar("_T")

DEFAULT_PORT = 7400
DEFAULT_HTTP_PORT = 7480


class LocalFlows(msgspec.Struct, frozen=True):
    """The flows of a standalone server; the content of ``flows.json``."""

    last_number: int = 0
    """Of the last run of any flow: it never falls, so that no run is taken for an earlier one."""
    orders: tuple[FlowOrder, ...] = ()


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
    plane: SitePlane | None = None
    """Where on the earth its kilometres lie, which clients are told when they are enrolled."""

    @property
    def url(self) -> str:
        """Where health, status and metrics are asked for."""
        return f"http://127.0.0.1:{self.http_port}"


class StandaloneFolder:
    """The files of a standalone server; made when they are needed first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place_file = path / "standalone.json"
        self._processors_file = path / "processors.json"
        self._flows_file = path / "flows.json"

    def authority(self) -> Authority:
        """Return the server's own authority, made if there is none yet."""
        return Authority.open_or_create(self.path)

    def ensure_server(self, server: str) -> bytes:
        """Return the server's public key; key and credential are made if there are none yet."""
        with self.locked("files.lock", wait=True):
            return self._ensure_server(server)

    def _ensure_server(self, server: str) -> bytes:
        authority = self.authority()
        key_file = authority.server_key_file(server)
        if not key_file.exists() and self.has_place():
            last = authority.server_key_file(self.place().server)
            if last.exists():  # another name, the same server: clients know its key
                write_secret(key_file, last.read_text())
        return authority.ensure_server(server, "edge", time.time()).public_key

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
        """Write where the server listens, unless that is known: a full disk is no reason to fail."""
        if self.has_place() and self.place() == place:
            return
        with self.locked("files.lock", wait=True):
            self._write(self._place_file, msgspec.json.encode(place))

    def clients(self) -> dict[str, bytes]:
        """Return the public keys of the enrolled clients; ConfigError when a file is damaged."""
        issued = self.authority().register.all()
        return {one.name: one.client().public_key for one in issued if one.kind == "client"}

    def processors(self) -> tuple[ProcessorRule, ...]:
        """Return the rules by which topics get their processors.

        Raises
        ------
        ConfigError
            When the file is damaged.
        """
        return _read(self._processors_file, tuple[ProcessorRule, ...], ())

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

    def flows(self) -> LocalFlows:
        """Return the flows that run here; ConfigError when the file is damaged."""
        return _read(self._flows_file, LocalFlows, LocalFlows())

    def change_flows(self, change: Callable[[LocalFlows], LocalFlows]) -> LocalFlows:
        """Replace the flows, and return them; a server that runs takes them up soon.

        Raises
        ------
        ConfigError
            When the file is damaged, or `change` raises it; then nothing changed.
        OutputError
            When the folder cannot be written.
        """
        with self.locked("files.lock", wait=True):
            changed = change(self.flows())
            self._write(self._flows_file, msgspec.json.encode(changed))
        return changed

    def version(self) -> tuple[tuple[int, int], ...]:
        """Return something that changes whenever revocations, processors or flows do."""
        files = ("revocations.msgpack", self._processors_file.name, self._flows_file.name)
        return tuple(_file_version(self.path / name) for name in files)

    def enrol(
        self,
        names: Iterable[str],
        x_km: float | None = None,
        y_km: float | None = None,
        rights: Rights = EVERYTHING,
        days: float = CLIENT_DAYS,
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
            server = self.place().server if self.has_place() else StandalonePlace("").server
            key = self._ensure_server(server)
            if not self.has_place():
                self._write(self._place_file, msgspec.json.encode(StandalonePlace(key.hex())))
            place = self.place()
            home = Home((place.public_host, place.port), key)
            made = [
                Credentials(name, new_private_key(), home, x_km, y_km, plane=place.plane)
                for name in names
            ]
            authority = self.authority()
            keys = {one.client: one.public_key for one in made}
            documents = authority.clients(keys, rights, days, time.time())
        return [
            replace(one, credential=documents[one.client], authority=authority.public_key)
            for one in made
        ]

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
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
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


def _read(path: Path, kind: type[_T], default: _T) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return default
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: {error}") from None


def _file_version(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_ino
