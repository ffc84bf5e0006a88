"""``nearcast processors``: what brokers of a running site do with messages, by topic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from nearcast.cli.console import json_option, print_json, print_table
from nearcast.cli.manager_access import find_manager
from nearcast.cli.processor_options import notify_after_sync_option, read_rules
from nearcast.errors import ConfigError

__all__ = ["processors"]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_site_option: Decorator = click.option(
    "--site",
    type=click.Path(path_type=Path),
    help="Folder of a site on this machine, or the scenario that `nearcast up` was given.",
)
_manager_option: Decorator = click.option(
    "--manager", "manager_url", help="Instead of --site: http://HOST:PORT"
)
_token_option: Decorator = click.option(
    "--token-file", type=click.Path(path_type=Path), help="With --manager: file with its token."
)


@click.group()
def processors() -> None:
    """Show or change which processor serves which topics of a running site.

    The first rule whose pattern matches a topic counts; what no rule matches is forwarded. + in a
    pattern stands for one level, # at the end for all that follow.

    \b
      nearcast processors set --site city 'traffic/#=proximity' 'speed/+=speeding{"limit_kmh": 50}'
      nearcast processors show --site city
    """


@processors.command()
@_site_option
@_manager_option
@_token_option
@json_option
def show(
    site: Path | None, manager_url: str | None, token_file: Path | None, as_json: bool
) -> None:
    """Show the rules in force."""
    import json

    from nearcast.links.http_client import ask

    url, token = find_manager(site, manager_url, token_file)
    rules = ask(f"{url}/processors", token=token)
    if as_json:
        print_json({"processors": rules})
        return
    rows = [
        (
            one["pattern"],
            one["processor"],
            json.dumps(one["options"]) if one["options"] else "-",
            "after the sync" if one["notify_after_sync"] else "at once",
        )
        for one in rules
    ]
    print_table(["topics", "processor", "options", "notifies"], rows)
    if all(one["pattern"] != "#" for one in rules):
        click.echo("all other topics: forward")


@processors.command("set")
@click.argument("rules", nargs=-1, metavar="[PATTERN=NAME[JSON]]...")
@_site_option
@_manager_option
@_token_option
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path),
    help="Instead of RULES: a JSON list of objects with pattern, processor, options, "
    "notify_after_sync.",
)
@notify_after_sync_option
@json_option
def set_rules(
    rules: tuple[str, ...],
    site: Path | None,
    manager_url: str | None,
    token_file: Path | None,
    file: Path | None,
    notify_after_sync: bool,
    as_json: bool,
) -> None:
    """Replace all rules; none: every topic is forwarded.

    Topics whose processor changes keep their messages. The rules survive a restart of the manager,
    until its configuration names others.
    """
    import msgspec

    from nearcast.links.http_client import ask

    if file is not None and (rules or notify_after_sync):
        raise click.UsageError("give either rules or --file")
    url, token = find_manager(site, manager_url, token_file)
    # modules are checked where they run: the manager's machine may have others than this one
    body = (
        _read_file(file)
        if file is not None
        else msgspec.to_builtins(read_rules(rules, notify_after_sync=notify_after_sync, make=False))
    )
    answer = ask(f"{url}/processors", body, token, method="PUT")
    if as_json:
        print_json({"revision": answer["revision"], "processors": body})
    else:
        click.echo(f"{len(body)} rules in force with revision {answer['revision']}")


def _read_file(path: Path) -> Any:
    import json

    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: is not JSON: {error}") from None
