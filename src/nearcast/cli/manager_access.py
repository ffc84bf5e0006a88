"""How a verb finds what it changes: a standalone server's folder, or the manager of a site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.errors import ConfigError

if TYPE_CHECKING:
    from nearcast.site.standalone_folder import StandaloneFolder

__all__ = ["find_authority", "find_manager", "find_standalone"]


def find_standalone(
    data: Path | None, site: Path | None, url: str | None, token_file: Path | None
) -> StandaloneFolder | None:
    """Return the folder of a standalone server, or None when it is a site that was named."""
    if data is None:
        return None
    if site is not None or url is not None or token_file is not None:
        raise click.UsageError("give either --data, --site, or --manager and --token-file")
    from nearcast.site.standalone_folder import StandaloneFolder

    return StandaloneFolder(data)


def find_authority(site: Path | None, authority: str | None) -> bytes:
    """Return the public key of a site's authority, from the site's folder or as it was given."""
    from nearcast.runtime.config_files import read_key_file

    if authority is None and site is not None:
        from nearcast.site.layout import SiteFolder

        return SiteFolder.find(site).authority
    if authority is None:
        raise click.UsageError("with --manager, --authority is needed: its public key")
    if len(authority) == 64 and all(digit in "0123456789abcdefABCDEF" for digit in authority):
        return bytes.fromhex(authority)
    return read_key_file(Path(authority))


def find_manager(site: Path | None, url: str | None, token_file: Path | None) -> tuple[str, str]:
    """Return the manager's address and token, from a site's folder or as they were given."""
    if site is not None and url is None and token_file is None:
        from nearcast.site.layout import SiteFolder

        folder = SiteFolder.find(site)
        return folder.manager_url, folder.token
    if site is not None or url is None or token_file is None:
        raise click.UsageError("give --data, --site, or --manager and --token-file")
    try:
        return url.rstrip("/"), token_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{token_file}: cannot be read: {error}") from None
