"""Kill -9 of edge servers under load: what was acknowledged is there, once and in order."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from nearcast.broker.notices import decode_entry
from nearcast.links.real_disk import RealDisk
from nearcast.sdk import Client, Connected, Credentials, Notification, Receipt
from nearcast.site.layout import SiteFolder
from nearcast.site.live_site import LiveSite, run_site
from nearcast.spool.log import SpoolLog
from nearcast.wire.publication import Origin, Publication
from small_site.making import output_of, quick, write_small_scenario

pytestmark = pytest.mark.slow

KILLS = 10
LEAST_ACKNOWLEDGED = 5_000
PUBLISHERS = [f"p{one}" for one in range(6)]
SUBSCRIBERS = ["s0", "s1"]
TOPICS = ["road", "air"]
EDGES = ["e1", "e2"]
"""Homes of the publishers in turn."""
PAUSE_S = 0.008
"""Of each publisher between two publications: some hundred per second in all."""

Identity = tuple[str, str, int, int]
"""Topic, publisher, epoch, sequence."""


@dataclass
class Load:
    """What clients did and heard."""

    acknowledged: list[Identity] = field(default_factory=list)
    attempted: int = 0
    heard: Counter[tuple[str, str, str, int, int]] = field(default_factory=Counter)
    reconnects: int = 0
    is_over: bool = False
    waiting: asyncio.Future[str] | None = None
    """Gets the name of a publisher as soon as `waits_for` publications are acknowledged."""
    waits_for: int = 0

    def acknowledge(self, one: Identity) -> None:
        """Note that a publication is safe, and who should be told of it."""
        self.acknowledged.append(one)
        is_enough = len(self.acknowledged) >= self.waits_for
        if is_enough and self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(one[1])

    def hear(self, subscriber: str, one: Notification) -> None:
        """Count a notification; one that says to be a copy may be a second one."""
        if not one.is_copy:
            self.heard[subscriber, one.topic, one.publisher, one.sequence, one.part] += 1


def test_ten_kills_under_load_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    names = [*PUBLISHERS, *SUBSCRIBERS]
    scenario = write_small_scenario(tmp_path / "small", edges=2, clients=names, topics=TOPICS)
    load, seed = Load(), 11
    # what a server that is given up had not yet acknowledged may be processed twice: give up none
    patient = replace(quick(scenario), takeover_s=60.0)
    with run_site(scenario, tmp_path / "site", patient) as live:
        kills = asyncio.run(_kill_under_load(live, load, random.Random(seed)))
        said = "".join(output_of(live, edge) for edge in EDGES)
    spooled = list(_spooled(live.site))
    direct = [one for one in spooled if one.origin is Origin.DIRECT]
    found = Counter(map(_identity, direct))
    lost = set(load.acknowledged) - set(found)
    twice = [one for one, count in found.items() if count > 1]
    heard_twice = [one for one, count in load.heard.items() if count > 1]
    print(
        f"\nseed {seed}: {kills} kills, {load.attempted} published, "
        f"{len(load.acknowledged)} acknowledged, {len(found)} in the spools, {len(lost)} lost, "
        f"{len(twice)} twice, {load.reconnects} sessions, {len(load.heard)} notifications, "
        f"{len(heard_twice)} of them twice"
    )
    assert kills >= KILLS
    assert len(load.acknowledged) >= LEAST_ACKNOWLEDGED
    assert len(load.acknowledged) == load.attempted
    assert not lost
    assert not twice
    assert not heard_twice
    assert load.heard
    assert "Traceback" not in said
    _assert_in_order(direct)


async def _kill_under_load(live: LiveSite, load: Load, chance: random.Random) -> int:
    credentials = live.enrol_clients()
    kills = 0
    async with AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(_client(credentials[name], load))
            for name in [*PUBLISHERS, *SUBSCRIBERS]
        }
        for name in SUBSCRIBERS:
            clients[name].on_notification(partial(load.hear, name))
            for topic in TOPICS:
                await clients[name].subscribe(topic)
        publishing = [
            asyncio.create_task(_publish(clients[name], load, index))
            for index, name in enumerate(PUBLISHERS)
        ]
        per_round = LEAST_ACKNOWLEDGED // KILLS
        for number in range(KILLS):
            publisher = await _acknowledged(load, per_round + chance.randrange(100))
            if number % 2:  # else at once: what was acknowledged just now must be there
                await asyncio.sleep(chance.random() * 0.05)
            edge = EDGES[PUBLISHERS.index(publisher) % 2]
            live.processes.kill(edge)
            kills += 1
            live.processes.start(edge)
        load.is_over = True
        async with asyncio.timeout(60):
            await asyncio.gather(*publishing)
    return kills


def _client(credentials: Credentials, load: Load) -> Client:
    client = Client(credentials, timeout_s=60.0)

    def note(event: object) -> None:
        load.reconnects += isinstance(event, Connected)

    client.on_event(note)
    return client


async def _publish(client: Client, load: Load, index: int) -> None:
    """Publish all the time, and see every publication acknowledged in the end."""
    receipts: list[Receipt] = []

    def acknowledged(receipt: Receipt) -> None:
        if receipt.error is None:
            epoch = client._driver.session.epoch
            load.acknowledge((receipt.topic, client.name, epoch, receipt.sequence))

    while not load.is_over:
        topic = TOPICS[(index + len(receipts)) % len(TOPICS)]
        receipt = await client.publish(topic, f"{client.name} {len(receipts)} {'x' * 80}")
        load.attempted += 1
        receipts.append(receipt)
        receipt.when_done(partial(acknowledged, receipt))
        await asyncio.sleep(PAUSE_S)
    for receipt in receipts:
        await receipt


async def _acknowledged(load: Load, count: int) -> str:
    """Wait for this many more, and return whose publication was the last."""
    load.waits_for = len(load.acknowledged) + count
    load.waiting = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(60):
        return await load.waiting


def _spooled(site: SiteFolder) -> Iterator[Publication]:
    """Return what the spools hold, edge by edge, each topic in its order."""
    for edge in [*EDGES, "cloud"]:
        log = SpoolLog.open(RealDisk(site.folder / "data" / edge / "spool"))
        assert not log.recovered.damages
        for topic, live in log.recovered.state.topics.items():
            messages = [decode_entry(topic, record) for record in live.records]
            own = Counter(map(_identity, messages))
            assert max(own.values(), default=1) == 1, f"{edge} has a message twice"
            yield from messages
        log.close()


def _identity(one: Publication) -> Identity:
    return one.topic, one.publisher, one.epoch, one.sequence


def _assert_in_order(messages: list[Publication]) -> None:
    """Each publisher's messages of a topic are there without gaps, in the order of sending."""
    streams: dict[tuple[str, str, int], list[int]] = {}
    for one in messages:
        streams.setdefault((one.topic, one.publisher, one.epoch), []).append(one.sequence)
    assert len(streams) == len(PUBLISHERS) * len(TOPICS)
    for stream, sequences in streams.items():
        assert sequences == list(range(1, len(sequences) + 1)), stream
