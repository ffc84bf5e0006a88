"""How a verb finds the manager of a site and the token that it wants to see."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.errors import ConfigError

__all__ = ["find_manager"]


def find_manager(site: Path | None, url: str | None, token_file: Path | None) -> tuple[str, str]:
    """Return the manager's address and token, from a site's folder or as they were given."""
    if site is not None and url is None and token_file is None:
        from nearcast.site.layout import SiteFolder

        folder = SiteFolder.find(site)
        return folder.manager_url, folder.token
    if site is not None or url is None or token_file is None:
        raise click.UsageError("give --site, or --manager and --token-file")
    try:
        return url.rstrip("/"), token_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{token_file}: cannot be read: {error}") from None
