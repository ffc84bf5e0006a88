"""The authority of a site as a folder: its key, what it has issued, and what it has revoked.

::

    authority.key       its private key, 64 hex digits; may be kept elsewhere
    authority.pub       its public key: what servers and clients need
    register.db         which credentials it has issued
    revocations.msgpack the signed list of what no longer counts; the manager reads it
    keys/ID.key         private keys of servers
    keys/ID.signing     the manager's signing key
    credentials/ID.hex  signed credentials of servers

Read `trust` for what a credential says.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from nearcast.errors import ConfigError, OutputError, TrustError
from nearcast.links.secret_file import write_secret
from nearcast.runtime.config_files import read_key_file
from nearcast.sdk.credentials import new_private_key
from nearcast.server.client_checks import check_client
from nearcast.site.credential_register import CredentialKind, CredentialRegister, Issued
from nearcast.site.secret_files import make_key
from nearcast.trust.credentials import (
    LONGEST_DAYS,
    SERVER_DAYS,
    ClientCredential,
    Role,
    ServerCredential,
    Signs,
    issue_client,
    issue_server,
    next_serial,
    validity,
)
from nearcast.trust.revocations import (
    Revocation,
    RevocationList,
    issue_revocations,
    revoke,
)
from nearcast.trust.rights import Rights
from nearcast.trust.signed import SigningKey
from nearcast.trust.site_trust import SiteTrust
from nearcast.wire.noise import public_key

__all__ = ["Authority"]

_DAY_S = 86_400
_MANAGER_SIGNS: tuple[Signs, ...] = ("clients", "orders", "revocations")


class Authority:
    """A site's authority in its folder.

    Parameters
    ----------
    key_file
        Its private key, where that is not in the folder.

    Raises
    ------
    ConfigError
        When there is no authority in the folder.
    """

    def __init__(self, folder: Path, key_file: Path | None = None) -> None:
        self.folder = folder
        self.key_file = key_file or folder / "authority.key"
        self.revocations_file = folder / "revocations.msgpack"
        self.register = CredentialRegister(folder / "register.db")
        public_file = folder / "authority.pub"
        if not public_file.exists():
            raise ConfigError(f"{public_file}: not there; `nearcast site init {folder}` makes it")
        self.public_key = read_key_file(public_file)

    @classmethod
    def create(cls, folder: Path) -> Authority:
        """Make an authority; ConfigError when the folder has one: its key would be lost."""
        if (folder / "authority.pub").exists():
            raise ConfigError(f"{folder}: has an authority already")
        return cls.open_or_create(folder)

    @classmethod
    def open_or_create(cls, folder: Path) -> Authority:
        """Return the authority of a folder, made if there is none."""
        if not (folder / "authority.pub").exists():
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"{folder}: {error.strerror or error}") from None
            key = SigningKey(make_key(folder / "authority.key"))
            write_secret(folder / "authority.pub", key.public_key.hex() + "\n")
        return cls(folder)

    def server_key_file(self, server: str) -> Path:
        """Return where the private key of a server is."""
        return self._file("keys", server, "key")

    def signing_key_file(self, server: str) -> Path:
        """Return where the signing key of the manager is."""
        return self._file("keys", server, "signing")

    def credential_file(self, server: str) -> Path:
        """Return where the signed credential of a server is."""
        return self._file("credentials", server, "hex")

    def has_key(self) -> bool:
        """Tell whether the private key is at hand."""
        return self.key_file.exists()

    def client(
        self, name: str, client_key: bytes, rights: Rights, days: float, now_s: float
    ) -> bytes:
        """Issue a credential of a client.

        With another key or other rights than before, the credentials before it no longer count.
        """
        return self.clients({name: client_key}, rights, days, now_s)[name]

    def clients(
        self, keys: Mapping[str, bytes], rights: Rights, days: float, now_s: float
    ) -> dict[str, bytes]:
        """Issue credentials of several clients, by name, all or none."""
        with self._locked():
            signer, span = self.signing_key(), validity(days, now_s)
            known = self.register.last_of("client", keys)
            issued, revoked = [], []
            for name, key in keys.items():
                check_client(name, key)
                before = known.get(name)
                serial = next_serial(before.serial if before else 0, now_s)
                credential = ClientCredential(name, key, serial, span, rights)
                document = issue_client(signer, credential)
                issued.append(Issued("client", name, serial, span.until_s, document))
                if before is not None:
                    last = before.client()
                    if (last.public_key, last.rights) != (key, rights):
                        revoked.append(Revocation("client", name, serial, before.until_s))
            if revoked:
                self._revoke(revoked, now_s)
            self.register.note(issued)
        return {one.name: one.document for one in issued}

    def server(
        self,
        name: str,
        role: Role,
        days: float,
        now_s: float,
        *,
        new_key: bool = False,
    ) -> ServerCredential:
        """Issue a credential of a server, and write it; its keys are made if there are none."""
        with self._locked():
            signer = self.signing_key()
            before = self.register.last("server", name)
            serial = next_serial(before.serial if before else 0, now_s)
            span = validity(days, now_s)
            if before is not None and new_key:
                self._revoke([Revocation("server", name, serial, before.until_s)], now_s)
            for part in ("keys", "credentials"):
                (self.folder / part).mkdir(mode=0o700, exist_ok=True)
            key = self._key(self.server_key_file(name), new_key)
            is_manager = role == "manager"
            signing = self._key(self.signing_key_file(name), new_key) if is_manager else b""
            credential = ServerCredential(
                name,
                role,
                public_key(key),
                serial,
                span,
                SigningKey(signing).public_key if is_manager else b"",
                _MANAGER_SIGNS if is_manager else (),
            )
            document = issue_server(signer, credential)
            self.register.note([Issued("server", name, serial, span.until_s, document)])
            write_secret(self.credential_file(name), document.hex() + "\n")
        return credential

    def ensure_server(self, name: str, role: Role, now_s: float) -> ServerCredential:
        """Return a server's credential, issued anew when there is none or it ends soon."""
        found = self.register.last("server", name)
        if found is not None and self.credential_file(name).exists():
            known = found.server()
            enough_s = now_s + SERVER_DAYS * _DAY_S / 2
            least = {(one.kind, one.name): one.least_serial for one in self.revocations().entries}
            counts = known.serial >= least.get(("server", name), 0)
            if known.role == role and known.validity.until_s > enough_s and counts:
                return known
        return self.server(name, role, SERVER_DAYS, now_s)

    def revoke(self, kind: CredentialKind, name: str, now_s: float) -> RevocationList:
        """Let no credential count that a client or server has got so far."""
        with self._locked():
            before = self.register.last(kind, name)
            serial = next_serial(before.serial if before else 0, now_s)
            until_s = before.until_s if before else int(now_s + LONGEST_DAYS * _DAY_S)
            return self._revoke([Revocation(kind, name, serial, until_s)], now_s)

    def revocations_document(self) -> bytes:
        """Return the signed list, empty while there is none; ConfigError when it is damaged."""
        try:
            data = self.revocations_file.read_bytes()
            SiteTrust(self.public_key).revoke(data)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ConfigError(f"{self.revocations_file}: {error.strerror or error}") from None
        except TrustError as error:
            raise ConfigError(f"{self.revocations_file}: {error}") from None
        return data

    def revocations(self) -> RevocationList:
        """Return what was revoked; ConfigError when the file is damaged."""
        trust, document = SiteTrust(self.public_key), self.revocations_document()
        if document:
            trust.revoke(document)
        return trust.revocations

    def _revoke(self, entries: Iterable[Revocation], now_s: float) -> RevocationList:
        found = revoke(self.revocations(), entries, int(now_s))
        write_secret(self.revocations_file, issue_revocations(self.signing_key(), found))
        return found

    def _key(self, path: Path, new: bool) -> bytes:
        if new:
            write_secret(path, new_private_key().hex() + "\n")
        return make_key(path)

    def signing_key(self) -> SigningKey:
        """Return its private key; ConfigError when that is not at hand."""
        if not self.has_key():
            raise ConfigError(
                f"{self.key_file}: the authority's private key is not here; say where it is by"
                " --authority-key FILE"
            )
        key = SigningKey(read_key_file(self.key_file))
        if key.public_key != self.public_key:
            raise ConfigError(f"{self.key_file}: is the key of another authority")
        return key

    def _file(self, part: str, name: str, suffix: str) -> Path:
        return self.folder / part / f"{quote(name, safe='')}.{suffix}"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One program at a time issues and revokes."""
        try:
            lock = open(self.folder / "authority.lock", "w")  # noqa: SIM115 - closed below
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot be written: {error.strerror}") from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
