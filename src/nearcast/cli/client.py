"""``nearcast client``: a client for scripts, JSON lines in and out."""

from __future__ import annotations

import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearcast.cli.client_endpoint import endpoint
from nearcast.cli.client_options import (
    credentials_option,
    degrees_option,
    discover_option,
    lines_option,
    timeout_option,
)
from nearcast.cli.manager_access import find_authority, find_manager, find_standalone
from nearcast.errors import ConfigError, WireError

if TYPE_CHECKING:
    from nearcast.sdk.sync_client import SyncClient
    from nearcast.wire.cursors import SavedCursors

__all__ = ["client"]


@click.group()
def client() -> None:
    """Publish, subscribe, report and measure as a client of a site.

    \b
      nearcast client enrol --site city --id car --x-km 1 --y-km 1 --out car.json
      nearcast client enrol --site city --id sign --x-km 2 --y-km 2 --out sign.json
      nearcast client subscribe --credentials sign.json --topic alerts/north
    and in another terminal:
    \b
      echo '{"topic": "alerts/north", "payload": "ice"}' |
        nearcast client publish --credentials car.json
    """


@client.command()
@credentials_option
@discover_option
@click.option("--topic", help="Topic of lines that name none, and of --message.")
@click.option("--message", help="Publish this text instead of lines from standard input.")
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=VALUE",
    help="What subscribers' filters look at: a text, a number, true or false; repeatable.",
)
@click.option("--area", help="Who gets it: clients in this area; GeoJSON or WKT in km, or @FILE.")
@degrees_option
@click.option(
    "--valid-s",
    type=click.FloatRange(min=0, min_open=True),
    help="For how long it is worth telling.",
)
@click.option(
    "--class",
    "message_class",
    default="",
    metavar="CLASS",
    help="How urgent it is: emergency, control, lane_change, consumer or one of the site's own.",
)
@click.option("--not-durable", is_flag=True, help="Send once, without acknowledgement.")
@timeout_option
@lines_option
def publish(
    credentials: Path,
    discover: str,
    topic: str | None,
    message: str | None,
    attributes: tuple[str, ...],
    area: str | None,
    degrees: bool,
    valid_s: float | None,
    message_class: str,
    not_durable: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Publish JSON lines from standard input, or one message.

    \b
    A line: {"topic": "a/b", "payload": "any JSON", "x_km": 1.0, "y_km": 2.0,
             "attributes": {"kind": "fuel", "price": 1.75}, "area": "POLYGON (...)", "valid_s": 9,
             "message_class": "emergency"}
    A payload that is a text is sent as it is, all else as JSON; "payload_base64" holds raw bytes.
    With --json, each acknowledged publication is a line. Exit code 2 when one was not acknowledged.
    """
    from nearcast.cli.client_lines import read_area_option, read_attribute, read_batches
    from nearcast.cli.client_publish import Publisher
    from nearcast.sdk.client_lines import PublicationLine

    if message is not None:
        batches = iter([[(1, PublicationLine(payload=message))]])
    else:
        batches = read_batches(PublicationLine)
    given = dict(map(read_attribute, attributes))
    where = read_area_option(area)
    publisher = Publisher(topic, not not_durable, as_json, given, where, valid_s, message_class)
    sender = _connect(credentials, timeout_s, degrees=degrees, discover=discover)
    try:
        publisher.run(sender, batches)
    finally:
        what = "sent" if not_durable else "acknowledged"
        click.echo(f"published {publisher.published}, {what} {publisher.acknowledged}", err=True)


@client.command()
@credentials_option
@discover_option
@click.option("--topic", "topics", multiple=True, required=True, help="Topic; may be repeated.")
@click.option(
    "--where",
    default="",
    help="Only messages whose attributes match, such as 'kind = \"fuel\" and price < 1.80'.",
)
@click.option("--area", help="Only what happens in this area; GeoJSON or WKT in km, or @FILE.")
@click.option("--within-km", type=float, help="Only what happens so near to this client.")
@degrees_option
@click.option(
    "--resume",
    "cursor_file",
    type=click.Path(path_type=Path),
    help="Go on where an earlier run with this file was; it is written meanwhile.",
)
@click.option("--unordered", is_flag=True, help="Print each at once: none waits for one before it.")
@click.option("--count", type=click.IntRange(min=1), help="End after this many notifications.")
@click.option(
    "--for",
    "duration_s",
    type=click.FloatRange(min=0),
    help="End after this many seconds; exit code 2 when --count was not reached.",
)
@timeout_option
@click.option("--json", is_flag=True, expose_value=False, help="Always on: output is JSON lines.")
def subscribe(
    credentials: Path,
    discover: str,
    topics: tuple[str, ...],
    where: str,
    area: str | None,
    within_km: float | None,
    degrees: bool,
    cursor_file: Path | None,
    unordered: bool,
    count: int | None,
    duration_s: float | None,
    timeout_s: float,
) -> None:
    """Print each notification as a JSON line, with the delay of every stage.

    A topic may have wildcards: + for one level, # at the end for all that follow. A payload that is
    no UTF-8 is under "payload_base64". What was missed and is gone is told on stderr. Ends with
    --count, --for or Ctrl-C.
    """
    from nearcast.cli.client_lines import print_line, read_area_option
    from nearcast.cli.cursor_saving import saving
    from nearcast.sdk.client_lines import notification_line
    from nearcast.sdk.cursor_file import load_cursors
    from nearcast.sdk.failures import ClientError

    wanted = read_area_option(area)
    cursors = load_cursors(cursor_file) if cursor_file is not None else None
    connected = _connect(
        credentials,
        timeout_s,
        cursors,
        ordered=not unordered,
        degrees=degrees,
        discover=discover,
    )
    with connected as listener, saving(listener, cursor_file):
        listener.inner.on_event(_tell_missed)
        for topic in topics:
            listener.subscribe(topic, where=where, area=wanted, within_km=within_km)
        click.echo(f"subscribed to {', '.join(topics)}", err=True)
        end_s = float("inf") if duration_s is None else time.monotonic() + duration_s
        heard = 0
        while count is None or heard < count:
            left_s = end_s - time.monotonic()
            wait_s = None if duration_s is None else max(0.0, left_s)
            notification = listener.next_notification(wait_s)
            if notification is None:
                break
            print_line(notification_line(notification))
            heard += 1
        dropped = listener.dropped_notifications
    if dropped:
        click.echo(f"warning: {dropped} notifications came too fast and were dropped", err=True)
    if count is not None and heard < count:
        raise ClientError(f"heard {heard} of {count} notifications in {duration_s:g} s")


@client.command()
@credentials_option
@discover_option
@click.option("--x-km", type=float, help="Where the client is; without it, lines are read.")
@click.option("--y-km", type=float)
@click.option("--lon", type=float, help="With --degrees, instead of both.")
@click.option("--lat", type=float)
@degrees_option
@click.option("--direction-deg", type=float, default=0.0, help="Clockwise from north.")
@click.option("--speed-mps", type=float, default=0.0)
@timeout_option
@lines_option
def report(
    credentials: Path,
    discover: str,
    x_km: float | None,
    y_km: float | None,
    lon: float | None,
    lat: float | None,
    degrees: bool,
    direction_deg: float,
    speed_mps: float,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Report where the client is: by options, or JSON lines from standard input.

    \b
    A line: {"x_km": 1.0, "y_km": 2.0, "direction_deg": 90, "speed_mps": 13.9}
    With --degrees: {"lon": 11.57, "lat": 48.13, "direction_deg": 90, "speed_mps": 13.9}
    """
    from nearcast.cli.client_lines import print_line, read_batches
    from nearcast.sdk.client_lines import ReportLine

    if (x_km is None) != (y_km is None) or (lon is None) != (lat is None):
        raise click.UsageError("--x-km and --y-km go together, and so do --lon and --lat")
    if x_km is not None or lon is not None:
        one = ReportLine(x_km, y_km, direction_deg, speed_mps, lon, lat)
        batches = iter([[(1, one)]])
    else:
        batches = read_batches(ReportLine)
    reported = 0
    try:
        with _connect(credentials, timeout_s, degrees=degrees, discover=discover) as reporter:
            for number, line in chain.from_iterable(batches):
                try:
                    place = line.position(degrees)
                    reporter.report(*place, line.direction_deg, line.speed_mps)
                except (ConfigError, WireError) as error:
                    raise ConfigError(f"line {number}: {error}") from None
                reported += 1
                if as_json:
                    names = ("lon", "lat") if degrees else ("x_km", "y_km")
                    print_line({"line": number, **dict(zip(names, place, strict=True))})
            reporter.echo()  # the server is there and has seen what came before
    finally:
        click.echo(f"reported {reported}", err=True)


@client.command()
@credentials_option
@discover_option
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--size", "size_bytes", type=click.IntRange(min=0), default=0, show_default=True)
@timeout_option
@lines_option
def echo(
    credentials: Path,
    discover: str,
    count: int,
    size_bytes: int,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Measure the round trip to the home server."""
    from nearcast.cli.client_lines import print_line
    from nearcast.sdk.failures import NotConnectedError

    with _connect(credentials, timeout_s, discover=discover) as measurer:
        host, port = measurer.home.address
        lost = 0
        for number in range(1, count + 1):
            try:
                round_trip_ms = round(measurer.echo(bytes(size_bytes)) * 1000, 3)
            except NotConnectedError as error:
                lost += 1
                click.echo(f"echo {number}: {error}", err=True)
                continue
            if as_json:
                print_line({"echo": number, "round_trip_ms": round_trip_ms})
            else:
                click.echo(f"{host}:{port} answered in {round_trip_ms} ms")
    if lost == count:
        raise NotConnectedError(f"none of {count} echoes came back from {host}:{port}")


@client.command()
@click.argument("name", required=False)
@click.option("--data", type=click.Path(path_type=Path), help="Folder of a standalone server.")
@click.option(
    "--site",
    type=click.Path(path_type=Path),
    help="Instead of --data: folder of a site on this machine, or the scenario that `nearcast up` was given.",
)
@click.option("--manager", "manager_url", help="Instead of both: http://HOST:PORT")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="With --manager: file with its token."
)
@click.option(
    "--authority",
    help="With --manager: public key of the site's authority, 64 hex digits or a file with them.",
)
@click.option(
    "--publish", "publishes", multiple=True, metavar="PATTERN", help="Topics; repeatable."
)
@click.option("--subscribe", "subscribes", multiple=True, metavar="PATTERN", help="Topics.")
@click.option("--class", "classes", multiple=True, metavar="CLASS", help="Urgent ones it may use.")
@click.option("--days", type=float, help="How long the credential counts.  [default: as the site]")
@click.option("--id", "id_", help="The client's id, instead of NAME.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to write.")
@click.option("--overwrite", is_flag=True, help="Replace the file; the key in it is lost.")
@click.option("--x-km", type=float, help="Where the client is.")
@click.option("--y-km", type=float)
@timeout_option
@lines_option
def enrol(
    name: str | None,
    data: Path | None,
    site: Path | None,
    manager_url: str | None,
    token_file: Path | None,
    authority: str | None,
    publishes: tuple[str, ...],
    subscribes: tuple[str, ...],
    classes: tuple[str, ...],
    days: float | None,
    id_: str | None,
    out: Path,
    overwrite: bool,
    x_km: float | None,
    y_km: float | None,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Make a key, have the site sign it, and write the client's credentials.

    Without --publish and --subscribe it may do what the site grants everybody; at a standalone
    server all. A client that is not in the scenario of the site needs its place: --x-km and --y-km.
    What a manager answers is believed only if the site's authority has signed it. For a standalone
    server, which notices within a second:

    \b
      nearcast client enrol bus --data broker --out bus.json
    """
    from nearcast.cli.client_lines import print_line
    from nearcast.errors import OutputError
    from nearcast.sdk.credentials import save_credentials
    from nearcast.sdk.enrolment import enrol as enrol_client
    from nearcast.trust.credentials import CLIENT_DAYS
    from nearcast.trust.rights import EVERYTHING, Rights

    if (x_km is None) != (y_km is None):
        raise click.UsageError("--x-km and --y-km go together")
    if out.exists() and not overwrite:
        raise OutputError(f"{out}: exists already; --overwrite replaces it and the key in it")
    client_id = name or id_
    if client_id is None or (name and id_):
        raise click.UsageError("name the client once: NAME, or --id NAME")
    rights = Rights(publishes, subscribes, classes=classes) if publishes or subscribes else None
    folder = find_standalone(data, site, manager_url, token_file)
    if folder is not None:
        (found,) = folder.enrol([client_id], x_km, y_km, rights or EVERYTHING, days or CLIENT_DAYS)
    else:
        key = find_authority(site, authority)
        manager_url, token = find_manager(site, manager_url, token_file)
        found = enrol_client(
            manager_url,
            client_id,
            token,
            key,
            x_km=x_km,
            y_km=y_km,
            rights=rights,
            days=days,
            timeout_s=timeout_s,
        )
    save_credentials(found, out, overwrite=overwrite)
    host, port = found.home.address
    if as_json:
        print_line({"client": found.client, "credentials": str(out), "home": f"{host}:{port}"})
    else:
        click.echo(f"{found.client}: home is {host}:{port}; credentials: {out}")


def _connect(
    credentials: Path,
    timeout_s: float,
    cursors: SavedCursors | None = None,
    *,
    ordered: bool = True,
    degrees: bool = False,
    discover: str = "",
) -> SyncClient:
    from nearcast.sdk.sync_client import SyncClient

    return SyncClient.connect(
        credentials,
        timeout_s=timeout_s,
        cursors=cursors,
        ordered=ordered,
        degrees=degrees,
        discover=discover,
    )


def _tell_missed(event: object) -> None:
    from nearcast.wire.actions import Missed

    if isinstance(event, Missed):
        gone = f"{event.count} messages of {event.broker} are gone"
        click.echo(f"warning: {event.topic}: {gone}", err=True)


client.add_command(endpoint)
