"""``nearcast processors``: what brokers do with messages, by topic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearcast.cli.console import json_option, print_json, print_table
from nearcast.cli.manager_access import find_manager, find_standalone
from nearcast.cli.processor_options import notify_after_sync_option, read_rules
from nearcast.errors import ConfigError

if TYPE_CHECKING:
    from nearcast.server.processor_rules import Acknowledge, ProcessorRule

__all__ = ["processors"]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_data_option: Decorator = click.option(
    "--data", type=click.Path(path_type=Path), help="Folder of a standalone server."
)
_site_option: Decorator = click.option(
    "--site",
    type=click.Path(path_type=Path),
    help="Instead of --data: folder of a site on this machine, or the scenario that `nearcast up` was given.",
)
_manager_option: Decorator = click.option(
    "--manager", "manager_url", help="Instead of --site: http://HOST:PORT"
)
_token_option: Decorator = click.option(
    "--token-file", type=click.Path(path_type=Path), help="With --manager: file with its token."
)


@click.group()
def processors() -> None:
    """Show or change which processor serves which topics, also while a site or server runs.

    The first rule whose pattern matches a topic counts; what no rule matches is forwarded. + in a
    pattern stands for one level, # at the end for all that follow.

    \b
      nearcast processors set --site city 'traffic/#=proximity' 'speed/+=speeding{"limit_kmh": 50}'
      nearcast processors show --site city
      nearcast processors set --data broker 'speed/+=speeding{"limit_kmh": 50}'
      nearcast processors show --data broker
    """


@processors.command()
@_data_option
@_site_option
@_manager_option
@_token_option
@json_option
def show(
    data: Path | None,
    site: Path | None,
    manager_url: str | None,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Show the rules in force."""
    import json

    import msgspec

    from nearcast.links.http_client import ask

    folder = find_standalone(data, site, manager_url, token_file)
    if folder is not None:
        folder.place()  # complains about a folder that is not a server's
        rules = msgspec.to_builtins(folder.processors())
    else:
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
            f"{one['acknowledge']} server{'s' * (one['acknowledge'] == 'two')}",
        )
        for one in rules
    ]
    print_table(["topics", "processor", "options", "notifies", "acknowledges on"], rows)
    if all(one["pattern"] != "#" for one in rules):
        click.echo("all other topics: forward")


@processors.command("set")
@click.argument("rules", nargs=-1, metavar="[PATTERN=NAME[JSON]]...")
@_data_option
@_site_option
@_manager_option
@_token_option
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path),
    help="Instead of RULES: a JSON list of objects with pattern, processor, options, "
    "notify_after_sync, acknowledge.",
)
@notify_after_sync_option
@click.option(
    "--acknowledge",
    type=click.Choice(["one", "two"]),
    default="one",
    show_default=True,
    help="Acknowledge messages when they are durable on this many servers.",
)
@json_option
def set_rules(
    rules: tuple[str, ...],
    data: Path | None,
    site: Path | None,
    manager_url: str | None,
    token_file: Path | None,
    file: Path | None,
    notify_after_sync: bool,
    acknowledge: Acknowledge,
    as_json: bool,
) -> None:
    """Replace all rules; none: every topic is forwarded.

    Topics whose processor changes keep their messages. The rules survive a restart of the manager,
    until its configuration names others, or of the standalone server, until its options do.
    """
    import msgspec

    from nearcast.links.http_client import ask

    if file is not None and (rules or notify_after_sync or acknowledge != "one"):
        raise click.UsageError("give either rules or --file")
    # modules are checked where they run: the manager's machine may have others than this one
    wanted = (
        _read_file(file)
        if file is not None
        else read_rules(
            rules, notify_after_sync=notify_after_sync, acknowledge=acknowledge, make=False
        )
    )
    body = msgspec.to_builtins(wanted)
    folder = find_standalone(data, site, manager_url, token_file)
    if folder is not None:
        folder.place()  # complains about a folder that is not a server's
        folder.save_processors(wanted)
        revision, when = None, "; a server that runs takes them up within a second"
    else:
        url, token = find_manager(site, manager_url, token_file)
        revision = ask(f"{url}/processors", body, token, method="PUT")["revision"]
        when = f" in force with revision {revision}"
    if as_json:
        print_json({"revision": revision, "processors": body})
    else:
        click.echo(f"{len(body)} rules{when}")


def _read_file(path: Path) -> list[ProcessorRule]:
    import msgspec

    from nearcast.server.processor_rules import ProcessorRule

    try:
        return msgspec.json.decode(path.read_bytes(), type=list[ProcessorRule])
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: {error}") from None
