"""Filters, areas and events on a real server: sockets, spool and event log, the SDK and the commands of the page."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import shlex
import sys
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from shapely.geometry import Point

from nearcast.cli.main import nearcast
from nearcast.errors import AreaError, ConfigError, NearcastError, WireError
from nearcast.sdk import Client
from nearcast.sdk.credentials import Credentials, load_credentials, save_credentials
from nearcast.server.processor_rules import ProcessorRule
from nearcast.site.standalone_folder import StandaloneFolder
from nearcast.trust.site_plane import SitePlane
from small_site.standalone import with_server

DOCS = Path(__file__).parents[2] / "docs"


async def start(command: str, folder: Path) -> asyncio.subprocess.Process:
    """Start a command of the page."""
    program = Path(sys.executable).with_name("nearcast")
    return await asyncio.create_subprocess_exec(
        program, *shlex.split(command)[1:], cwd=folder, stdout=PIPE, stderr=PIPE
    )


def test_filters_work_on_a_real_server_and_over_its_restart(tmp_path: Path) -> None:
    folder = StandaloneFolder(tmp_path / "broker")
    heard: list[str] = []

    async def first(enrolled: list[Credentials]) -> None:
        car, sign = (Client(one, timeout_s=30) for one in enrolled)
        async with car, sign:
            await sign.subscribe("offers", where='kind = "fuel" and price < 1.80')
            for price in (1.7, 1.9, 1.6):
                await car.publish("offers", str(price), attributes={"kind": "fuel", "price": price})
            await car.publish_and_wait("offers", "food", attributes={"kind": "food", "price": 1})
            await car.publish_and_wait("offers", "last", attributes={"kind": "fuel", "price": 0.1})
            while "last" not in heard:
                notification = await sign.next_notification()
                assert notification is not None
                assert notification.attributes["kind"] == "fuel"
                heard.append(notification.text)
            cursors = sign.cursors
        later.append(cursors)

    later: list[object] = []

    async def second(enrolled: list[Credentials]) -> None:
        car, sign = enrolled
        async with Client(car, timeout_s=30) as again:
            for price in (1.2, 2.2):
                text = f"away {price}"
                attributes: dict[str, str | float] = {"kind": "fuel", "price": price}
                await again.publish_and_wait("offers", text, attributes=attributes)
        async with Client(sign, timeout_s=30, cursors=later[0]) as back:  # type: ignore[arg-type]
            await back.subscribe("offers", where='kind = "fuel" and price < 1.80')
            notification = await back.next_notification()
            while notification is not None and not notification.text.startswith("away"):
                notification = await back.next_notification()  # cursors are some seconds behind
            assert notification is not None
            assert notification.text == "away 1.2"
            assert await back.next_notification(timeout_s=0.3) is None

    asyncio.run(with_server(folder, ["car", "sign"], first))
    assert heard == ["1.7", "1.6", "last"]
    asyncio.run(with_server(folder, ["car", "sign"], second))


@pytest.mark.parametrize(
    ("page", "topic", "heard_of"),
    [
        ("filters.md", "offers", ("Main St", {"kind": "fuel", "price": 1.75})),
        ("areas.md", "alerts", ("ice on the bridge", None)),
    ],
)
def test_the_commands_of_the_page_work(
    tmp_path: Path, page: str, topic: str, heard_of: tuple[str, object]
) -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    subscribe, publish = block.strip().splitlines()
    lines: list[dict[str, object]] = []

    async def work(enrolled: list[Credentials]) -> None:
        for one in enrolled:
            there = replace(one, x_km=5.0, y_km=3.0)
            save_credentials(there, tmp_path / f"{one.client}.json")
        listener = await start(subscribe, tmp_path)
        assert listener.stderr is not None
        assert await listener.stderr.readline() == f"subscribed to {topic}\n".encode()
        publisher = await start(publish, tmp_path)
        _, said = await publisher.communicate()
        assert (publisher.returncode, said) == (0, b"published 1, acknowledged 1\n")
        heard, _ = await listener.communicate()
        assert listener.returncode == 0
        lines.extend(map(json.loads, heard.splitlines()))

    asyncio.run(with_server(StandaloneFolder(tmp_path / "broker"), ["car", "sign"], work))
    (line,) = lines
    assert (line["payload"], line.get("attributes")) == heard_of


def test_clients_may_count_in_degrees(tmp_path: Path) -> None:
    """Who is in an area of degrees hears it, whether it said where it is in degrees or in km."""
    corners = [[11.50, 48.10], [11.52, 48.10], [11.52, 48.12], [11.50, 48.12], [11.50, 48.10]]
    area = {"type": "Polygon", "coordinates": [corners]}
    heard: dict[str, list[str]] = {}

    async def work(enrolled: list[Credentials]) -> None:
        car, inside, outside, plain = enrolled
        save_credentials(inside, tmp_path / "inside.json")
        assert load_credentials(tmp_path / "inside.json").plane == plane
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(Client(one, timeout_s=30, degrees=one is not plain))
                for one in (inside, outside, plain)
            ]
            sender = await stack.enter_async_context(Client(car, timeout_s=30, degrees=True))
            assert sender.degrees is not None
            clients[0].report(11.51, 48.11, at_once=True)
            clients[1].report(11.53, 48.11, at_once=True)
            clients[2].report(*sender.degrees.place_km(11.501, 48.119), at_once=True)
            for one in clients:
                await one.echo()  # the report has arrived
                await one.subscribe("road", area=area if one is not clients[2] else None)
            there = (11.505, 48.105)
            await sender.publish_and_wait("road", "ice", position=there, area=area)
            await sender.publish_and_wait("road", "far", position=(11.6, 48.2))
            await sender.publish_and_wait("road", "all", position=there)
            for one in clients:
                texts = heard.setdefault(one.name, [])
                while "all" not in texts:
                    found = await one.next_notification()
                    assert found is not None
                    texts.append(found.text)
            x_km, y_km = sender.degrees.place_km(*there)
            assert sender.degrees.degrees(x_km, y_km) == pytest.approx(there)
            with pytest.raises(WireError, match="from the site's centre"):
                sender.report(20.0, 48.0)

    plane = SitePlane(48.0, 11.4)
    folder = StandaloneFolder(tmp_path / "broker")
    names = ["car", "inside", "outside", "plain"]
    asyncio.run(with_server(folder, names, work, plane=plane))
    assert heard == {
        "inside": ["ice", "all"],
        "outside": ["all"],
        "plain": ["ice", "far", "all"],
    }


def test_without_a_plane_there_are_no_degrees(tmp_path: Path) -> None:
    folder = StandaloneFolder(tmp_path / "broker")
    (car,) = folder.enrol(["car"])
    with pytest.raises(ConfigError, match="no plane"):
        Client(car, degrees=True)


def invoke(command: list[str]) -> str:
    """Run a command that fails; return the error, which is one of the user's."""
    error = CliRunner().invoke(nearcast, command, standalone_mode=False).exception
    assert isinstance(error, NearcastError)
    return str(error)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--attribute", "kind"], "--attribute 'kind': is NAME=VALUE"),
        (["--attribute", "9=x"], "line 1: '9' is not the name of an attribute"),
    ],
)
def test_a_bad_attribute_is_named(tmp_path: Path, options: list[str], problem: str) -> None:
    found: list[str] = []

    async def work(enrolled: list[Credentials]) -> None:
        save_credentials(enrolled[0], tmp_path / "car.json")
        command = ["client", "publish", "--credentials", str(tmp_path / "car.json")]
        command += ["--topic", "t", "--message", "x", *options]
        found.append(await asyncio.to_thread(invoke, command))

    asyncio.run(with_server(StandaloneFolder(tmp_path / "broker"), ["car"], work))
    assert found == [problem]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--where", "price <"], "t: filter, character 8: a value is wanted"),
        (["--area", "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"], "t: area, "),
        (["--area", "@nowhere"], "--area @nowhere: "),
        (["--area", "POINT (1 1)", "--within-km", "1"], "t: an area or a distance, not both"),
    ],
)
def test_terms_with_a_mistake_are_named(tmp_path: Path, options: list[str], problem: str) -> None:
    found: list[str] = []

    async def work(enrolled: list[Credentials]) -> None:
        save_credentials(enrolled[0], tmp_path / "car.json")
        command = ["client", "subscribe", "--credentials", str(tmp_path / "car.json")]
        command += ["--topic", "t", *options]
        found.append(await asyncio.to_thread(invoke, command))

    asyncio.run(with_server(StandaloneFolder(tmp_path / "broker"), ["car"], work))
    assert found[0].startswith(problem)


def test_areas_work_on_a_real_server_while_clients_move(tmp_path: Path) -> None:
    square = {"type": "Polygon", "coordinates": [[[2, 2], [6, 2], [6, 6], [2, 6], [2, 2]]]}

    async def work(enrolled: list[Credentials]) -> None:
        car, bus, bike = (Client(one, timeout_s=30) for one in enrolled)
        async with car, bus, bike:
            await bus.subscribe("alerts")
            await bike.subscribe("alerts", within_km=1.0)
            heard: dict[str, list[str]] = {"bus": [], "bike": []}
            for number, (bus_at, bike_at, at) in enumerate(
                [
                    ((3.0, 3.0), (3.0, 3.5), (3.0, 4.0)),
                    ((9.0, 9.0), (3.0, 3.5), (3.0, 9.0)),
                    ((9.0, 9.0), (5.0, 5.0), (5.5, 5.5)),
                    ((5.9, 5.9), (9.0, 9.0), (9.0, 9.0)),
                ]
            ):
                for client, place in ((bus, bus_at), (bike, bike_at)):
                    client.report(*place, at_once=True)
                    await client.echo()  # its home has seen the report
                await car.publish("alerts", str(number), area=square, position=at, valid_s=60)
                await car.publish_and_wait("alerts", "over", area=square, valid_s=1e-6)
            await car.publish_and_wait("alerts", "end", position=(9.0, 9.0))
            for client in (bus, bike):
                while "end" not in heard[client.name]:
                    notification = await client.next_notification()
                    assert notification is not None
                    heard[client.name].append(notification.text)
        assert heard == {"bus": ["0", "3", "end"], "bike": ["0", "2", "end"]}

    asyncio.run(with_server(StandaloneFolder(tmp_path / "broker"), ["car", "bus", "bike"], work))


def around(corners: int) -> dict[str, Any]:
    """Return a polygon with many corners."""
    turns = [2 * math.pi * number / corners for number in range(corners)]
    ring = [[round(math.cos(one), 6), round(math.sin(one), 6)] for one in turns]
    return {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}


def corridor(*route: tuple[float, float]) -> dict[str, Any]:
    geometry = {"type": "LineString", "coordinates": route}
    return {"type": "Feature", "geometry": geometry, "properties": {"width_km": 0.1}}


BAD_AREAS = (
    ("POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))", "crosses itself"),
    ("POLYGON EMPTY", "the POLYGON is empty"),
    ({"type": "Polygon", "coordinates": [[[0, 0], [1, math.nan], [1, 1]]]}, "is nan"),
    (corridor((1, 1)), "two different points"),
    (corridor((1, 1), (1, 1)), "two different points"),
    (around(10_000), "at most"),
)
BAD_DEGREES = (
    ("POLYGON ((11 89, 12 89, 11 89.5))", "too near to a pole"),
    ("POLYGON ((179 48, -179 48, 179 49))", "crosses the date line"),
    ("POLYGON ((11 48, 200 48, 11 49))", "is not a longitude and a latitude"),
)
BAD_FILTERS = (
    *("price <", 'kind = "fuel', "kind == 3", "price < 1 price", "(a = 1", "a = 1)", "1 = a"),
    *("not", "kind in ()", "has 3", "a = nan", "import os", "a = 1 and", "\0", "a = 1 or " * 64),
    *("not " * 20 + "a = 1", 'a = "' + "x" * 3_000 + '"'),
)


def test_each_mistake_is_one_error_to_its_sender_and_a_live_server_goes_on(tmp_path: Path) -> None:
    """Nothing of it reaches the topic, and the sender's session is as before."""
    heard: list[str] = []

    async def work(enrolled: list[Credentials]) -> None:
        car, degrees, bus = enrolled
        async with AsyncExitStack() as stack:
            sender = await stack.enter_async_context(Client(car, timeout_s=30))
            far = await stack.enter_async_context(Client(degrees, timeout_s=30, degrees=True))
            listener = await stack.enter_async_context(Client(bus, timeout_s=30))
            await listener.subscribe("t")
            for client, area, problem in (
                *((sender, *one) for one in BAD_AREAS),
                *((far, *one) for one in BAD_DEGREES),
            ):
                with pytest.raises((AreaError, WireError), match=problem):
                    await client.subscribe("t", area=area)
                with pytest.raises((AreaError, WireError), match=problem):
                    await client.publish("t", "bad", area=area)
            for where in BAD_FILTERS:
                with pytest.raises(WireError, match=r"^t: filter, |^\d"):
                    await sender.subscribe("t", where=where)
            for place in ((math.nan, 1.0), (1e12, 0.0), (math.inf, 0.0)):
                with pytest.raises(WireError):
                    await sender.publish("t", "bad", position=place)
                with pytest.raises(WireError):
                    sender.report(*place)
            await sender.publish_and_wait("t", "end", area=circle(0.0, 0.0, nearest=2))
            while "end" not in heard:
                found = await listener.next_notification()
                assert found is not None
                heard.append(found.text)

    folder = StandaloneFolder(tmp_path / "broker")
    names, plane = ["car", "far", "bus"], SitePlane(48.0, 11.4)
    asyncio.run(with_server(folder, names, work, plane=plane))
    assert heard == ["end"]


def circle(x_km: float, y_km: float, **properties: object) -> dict[str, Any]:
    geometry = {"type": "Point", "coordinates": [x_km, y_km]}
    return {"type": "Feature", "geometry": geometry, "properties": {"radius_km": 9, **properties}}


def test_the_nearest_are_told_on_a_real_server_while_they_move(tmp_path: Path) -> None:
    heard: dict[str, list[str]] = {}

    async def work(enrolled: list[Credentials]) -> None:
        async with AsyncExitStack() as stack:
            people = [
                await stack.enter_async_context(Client(one, timeout_s=30)) for one in enrolled
            ]
            sender, *taxis = people
            for one in taxis:
                await one.subscribe("taxis")
            for number, places in enumerate(((1, 2, 3), (3, 1, 2), (5, 4, 20))):
                for one, x_km in zip(taxis, places, strict=True):
                    one.report(float(x_km), 0.5, at_once=True)
                    await one.echo()  # its home has seen the report
                area = circle(0.5, 0.5, nearest=2)
                await sender.publish_and_wait("taxis", str(number), area=area)
            await sender.publish_and_wait("taxis", "end")
            for one in taxis:
                texts = heard.setdefault(one.name, [])
                while "end" not in texts:
                    found = await one.next_notification()
                    assert found is not None
                    texts.append(found.text)

    names = ["car", "a", "b", "c"]
    asyncio.run(with_server(StandaloneFolder(tmp_path / "broker"), names, work))
    assert heard == {"a": ["0", "2", "end"], "b": ["0", "1", "2", "end"], "c": ["1", "end"]}


def test_a_collision_alerts_vehicles_in_its_area_on_a_real_server(tmp_path: Path) -> None:
    """With sockets, spool and the processor's own process; shapely says who is inside."""
    rng = random.Random(0)
    places = {f"v{n}": (rng.uniform(0, 10), rng.uniform(0, 6)) for n in range(20)}
    collision = {"sensed_km": 2, "reach_km": 2, "least_radius_km": 2, "margin_km": 0, "period_s": 3}
    options = {"field_km": [0, 0, 10, 10], "kinds": {"collision": collision}}
    heard: dict[str, list[dict[str, Any]]] = {name: [] for name in places}

    async def work(enrolled: list[Credentials]) -> None:
        async with AsyncExitStack() as stack:
            cars = {
                one.client: await stack.enter_async_context(Client(one, timeout_s=30))
                for one in enrolled
            }
            for name, place in places.items():
                await cars[name].subscribe("road")
                cars[name].report(*place, at_once=True)
            is_witness = {name: Point(5, 2).distance(Point(at)) <= 2 for name, at in places.items()}
            sensed = {"event": "collision", "at": [5, 2]}
            for name, place in places.items():
                said = {"position": place, **(sensed if is_witness[name] else {})}
                await cars[name].publish("road", said)
            far = next(name for name, is_near in is_witness.items() if not is_near)
            near = next(name for name, is_near in is_witness.items() if is_near)
            first = None
            while first is None:  # the period passes while vehicles report
                await cars[far].publish_and_wait("road", {"position": places[far]})
                first = await cars[near].next_notification(timeout_s=0.05)
            heard[near].append(first.json())
            for car in cars.values():
                await car.echo()  # what was sent before has come
                while (notification := car.take_notification()) is not None:
                    heard[car.name].append(notification.json())

    rules = [ProcessorRule("road", "events", options)]
    folder = StandaloneFolder(tmp_path / "broker")
    asyncio.run(with_server(folder, list(places), work, rules))
    (alert,) = {json.dumps(one) for some in heard.values() for one in some}
    read = json.loads(alert)
    assert (read["alert"], read["position"], read["radius_km"]) == ("collision", [5, 2], 2)
    inside = {name for name, at in places.items() if Point(5, 2).distance(Point(at)) <= 2}
    assert {name: len(some) for name, some in heard.items()} == {
        name: int(name in inside) for name in places
    }
    assert len(inside) == 7
