"""``nearcast client endpoint``: one session for all programs of a vehicle."""

from __future__ import annotations

from pathlib import Path

import click

from nearcast.cli.client_options import credentials_option, degrees_option, discover_option
from nearcast.cli.console import json_option

__all__ = ["endpoint"]


@click.command()
@credentials_option
@discover_option
@degrees_option
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, show_default=True, help="0: any free one."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="Where the token goes that programs show.  [default: beside the credentials, .token]",
)
@json_option
def endpoint(
    credentials: Path,
    port: int,
    token_file: Path | None,
    degrees: bool,
    discover: str,
    as_json: bool,
) -> None:
    """Hold a client's session, and let programs on this machine use it by HTTP and JSON lines.

    It listens on 127.0.0.1 only. Requests show the token of the file: Authorization: Bearer TOKEN.

    \b
      POST /publish              lines as `nearcast client publish` reads them; a line for each
      GET  /subscribe?topic=a/%23&where=price%20%3C%202
                                 a line per notification, until the program closes
      POST /report               {"x_km": 1, "y_km": 2, "direction_deg": 90, "speed_mps": 14}
                                 with --degrees: {"lon": 11.57, "lat": 48.13}
      GET  /status               the session
    """
    import asyncio

    from nearcast.sdk.credentials import load_credentials

    found = load_credentials(credentials)
    tokens = token_file or credentials.with_suffix(".token")
    try:
        asyncio.run(_run(found, tokens, port, degrees, discover, as_json))
    finally:
        tokens.unlink(missing_ok=True)


async def _run(
    credentials: object,
    token_file: Path,
    port: int,
    degrees: bool,
    discover: str,
    as_json: bool,
) -> None:
    import asyncio
    import secrets
    import signal

    from nearcast.cli.client_lines import print_line
    from nearcast.links.secret_file import write_secret
    from nearcast.sdk.client import Client
    from nearcast.sdk.credentials import Credentials
    from nearcast.site.client_endpoint import ClientEndpoint

    assert isinstance(credentials, Credentials)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Client.connect(credentials, degrees=degrees, discover=discover) as client:
        token = secrets.token_urlsafe(32)
        local = ClientEndpoint(client, token, port)
        await local.start()
        try:
            write_secret(token_file, token + "\n")
            host, taken = local.address
            if as_json:
                print_line({"url": f"http://{host}:{taken}", "token_file": str(token_file)})
            else:
                click.echo(f"http://{host}:{taken}, token in {token_file}; Ctrl-C ends it")
            await stop.wait()
        finally:
            await local.close()
