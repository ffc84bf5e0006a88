"""A site of real processes: health, its event log, and service without the manager."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nearcast.domain.scenario_files import read_scenario
from nearcast.errors import NearcastError
from nearcast.links.http_client import ask
from nearcast.runtime.event_log_tables import read_notifications, read_publications
from nearcast.runtime.metrics import STAGES
from nearcast.sdk import NotConnectedError, Notification, SyncClient
from nearcast.site.layout import lay_out_site
from nearcast.site.live_site import LiveSite, run_site
from nearcast.site.processes import SiteProcesses
from small_site.making import (
    health,
    is_running,
    metrics_of,
    output_of,
    quick,
    until,
    write_small_scenario,
)

pytestmark = pytest.mark.slow

NAMES = ["car", "sign", "bike", "lamp"]
"""Car and bike live at e1, the other two at e2."""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("running") / "small"
    return write_small_scenario(folder, edges=2, clients=NAMES, topics=["road", "air"])


@pytest.fixture(scope="module")
def live(scenario: Path) -> Iterator[LiveSite]:
    # slow to miss a server: on a busy machine clients would come again and repeat what is logged
    options = quick(scenario)
    options = replace(options, wire=replace(options.wire, report_interval_s=2.0))
    with run_site(scenario, scenario.parent / "site", options) as site:
        site.enrol_clients()
        yield site


def _open(live: LiveSite, name: str) -> SyncClient:
    try:
        return SyncClient.connect(live.site.credentials_file(name), timeout_s=60)
    except NotConnectedError as error:
        home = "e1" if NAMES.index(name) % 2 == 0 else "e2"
        os.kill(live.processes.pid(home), signal.SIGUSR1)
        until(lambda: "Current thread" in output_of(live, home), "it says where it is", 5)
        error.add_note(f"{home}: {health(live, home)}\n{output_of(live, home)[-6000:]}")
        raise


def _next(client: SyncClient) -> Notification:
    notification = client.next_notification(timeout_s=30.0)
    assert notification is not None
    return notification


def _heard_soon(live: LiveSite, car: SyncClient, sign: SyncClient, text: str) -> None:
    """Publish until the subscriber hears: brokers learn of a subscription a moment after it."""

    def once() -> bool:
        assert live.processes.watch() == []  # as `nearcast up` does
        car.publish("road", text).wait(30)
        return any(one.text == text for one in sign.notifications(timeout_s=0.3))

    until(once, f"{text!r} is heard")


def test_metrics_are_prometheus_text_with_a_histogram_for_each_stage(live: LiveSite) -> None:
    for server in ("e1", "e2", "cloud"):
        metrics = metrics_of(live.site.place(server).http_port)
        shown = {labels.split()[0] for labels in metrics["nearcast_stage_seconds_count"]}
        assert shown == set(STAGES)
        infinite = {f"+Inf {stage}" for stage in STAGES}
        assert infinite <= set(metrics["nearcast_stage_seconds_bucket"])
        assert "nearcast_publications_total" in metrics
        assert metrics["nearcast_mesh_dropped_total"] == {"": 0.0}
        assert metrics["nearcast_mesh_links"][""] >= 1
    assert "nearcast_manager_servers_up" in metrics_of(live.site.servers[0].http_port)


def test_status_of_a_server_tells_what_it_runs(live: LiveSite) -> None:
    told = ask(f"http://127.0.0.1:{live.site.place('e1').http_port}/status")
    assert (told["server"], told["role"], told["plan_version"]) == ("e1", "edge", 1)
    until(lambda: live.status()["counts"]["servers_up"] == 3, "the manager sees all three")


def test_the_event_log_holds_exactly_what_clients_did(live: LiveSite) -> None:
    heard: list[Notification] = []
    published = {"bike": [], "lamp": [f"lamp {n}" * (n + 1) for n in range(30)]}
    with _open(live, "bike") as bike, _open(live, "lamp") as lamp:
        lamp.subscribe("air")

        def is_known() -> bool:
            published["bike"].append("are you there")
            bike.publish("air", "are you there", position=(2.5, 3.5)).wait(30)
            heard.extend(lamp.notifications(timeout_s=0.3))
            return bool(heard)

        until(is_known, "the broker knows the subscriber")
        for number in range(30):
            published["bike"].append(f"bike {number}" * (number + 1))
            bike.publish("air", published["bike"][-1], position=(2.5, 3.5))
        for text in published["lamp"]:
            lamp.publish("road", text)
        while heard[-1].text != published["bike"][-1]:
            heard.append(_next(lamp))
        lamp.unsubscribe("air")

    def rows(table: pa.Table, client: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = table.filter(pc.equal(table["client"], client)).to_pylist()
        return found

    def done(client: str, *actions: str) -> list[dict[str, Any]]:
        found = rows(read_publications(live.site.event_log), client)
        chosen = [one for one in found if one["action"] in actions]
        return sorted(chosen, key=lambda one: (one["time"], one["sequence"]))

    def told() -> list[dict[str, Any]]:
        return rows(read_notifications(live.site.event_log), "lamp")

    until(lambda: done("lamp", "unsubscribe"), "e2 has written all")
    until(lambda: len(told()) >= len(heard), "of notifications as well")
    until(lambda: len(done("bike", "publish")) >= len(published["bike"]), "and e1")
    for client, topic, server in (("bike", "air", "e1"), ("lamp", "road", "e2")):
        found = done(client, "publish")
        texts = published[client]
        assert [one["sequence"] for one in found] == list(range(1, len(texts) + 1))
        assert [one["size_bytes"] for one in found] == list(map(len, texts))
        assert {(one["topic"], one["server"], one["durable"]) for one in found} == {
            (topic, server, True)
        }
    assert {(one["x_km"], one["y_km"]) for one in done("bike", "publish")} == {(2.5, 3.5)}
    changes = done("lamp", "subscribe", "unsubscribe")
    assert [(one["action"], one["topic"]) for one in changes] == [
        ("subscribe", "air"),
        ("unsubscribe", "air"),
    ]
    assert sorted((one["publisher"], one["sequence"], one["size_bytes"]) for one in told()) == (
        sorted((one.publisher, one.sequence, len(one.payload)) for one in heard)
    )


def test_without_the_manager_clients_connect_publish_and_are_notified(live: LiveSite) -> None:
    live.processes.kill("manager")
    with pytest.raises(NearcastError, match="does not answer"):
        live.status()
    with _open(live, "car") as car, _open(live, "sign") as sign:
        sign.subscribe("road")
        _heard_soon(live, car, sign, "no manager")
        live.processes.kill("e1")
        live.processes.start("e1")  # by the orders on its disk
        until(lambda: health(live, "e1") == "ok", "e1 is back")
        _heard_soon(live, car, sign, "e1 began anew")
        live.processes.kill("e2")
        live.processes.start("e2")
        until(lambda: health(live, "e2") == "ok", "e2 is back")
        _heard_soon(live, car, sign, "e2 began anew")
    live.processes.start("manager")
    until(lambda: health(live, "manager") == "ok", "the manager is back")
    until(lambda: live.status()["counts"]["servers_up"] == 3, "it sees all servers again")
    with _open(live, "car") as car, _open(live, "sign") as sign:
        sign.subscribe("road")
        _heard_soon(live, car, sign, "all is well")


def test_health_is_503_until_there_are_orders(scenario: Path) -> None:
    content = read_scenario(scenario)
    site = lay_out_site(content, scenario, scenario.parent / "late", quick(scenario))
    processes = SiteProcesses(site)
    late = LiveSite(site, content, processes)
    try:
        processes.start("e1")
        until(lambda: health(late, "e1"), "e1 answers")
        said = health(late, "e1")
        assert "answered 503" in said
        assert "no orders from the manager yet" in said
        processes.start("manager")
        processes.start("cloud")
        until(lambda: health(late, "e1") == "ok", "it has orders")
        pids = [processes.pid(one) for one in ("e1", "cloud", "manager")]
    finally:
        processes.stop_all()
    assert not any(map(is_running, pids))


def test_a_server_that_dies_by_itself_is_started_again(live: LiveSite) -> None:
    pid, restarted = live.processes.pid("cloud"), live.processes.restarted
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid), "the cloud server is gone")
    until(lambda: live.processes.watch() == [] and live.processes.pid("cloud") != pid, "restarted")
    assert live.processes.restarted == restarted + 1
    until(lambda: health(live, "cloud") == "ok", "it is back")


def test_what_a_site_writes_is_its_users_alone(live: LiveSite) -> None:
    """Messages, orders, configurations and the manager's database among it."""
    folder = live.site.folder
    written = [one for one in folder.rglob("*") if one.is_file() and one.suffix != ".lock"]
    written = [*written, *(folder / "data").rglob("*")]
    names = {"spool", "manager.db", "orders.msgpack", "e1.toml", "site.json", "token"}
    assert names <= {path.name for path in written}
    opened = [path for path in written if path.stat().st_mode & 0o077]
    assert opened == [folder / "lock"]
