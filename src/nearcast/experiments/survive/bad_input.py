"""Bad input for everything that reads bytes of others: refused, counted, never raised."""

from __future__ import annotations

import gc
import time
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import msgspec

from nearcast.broker.notices import Notice, decode_entry, encode_entry, encode_notices
from nearcast.errors import NearcastError, WireError
from nearcast.experiments.survive.mutations import bad_bytes
from nearcast.experiments.survive.random_messages import random_value
from nearcast.runtime.http_request import RequestError, parse_head
from nearcast.server.mesh_messages import MeshMessage, decode_mesh, encode_mesh
from nearcast.server.peer_channel import PeerFrame, decode_frame, encode_frame
from nearcast.server.site_orders import Orders
from nearcast.spool.changes import Group, Position, TopicChange
from nearcast.spool.log import SpoolLog, SpoolSettings
from nearcast.testing.authority import SmallAuthority
from nearcast.testing.fake_disk import FakeDisk
from nearcast.trust.credentials import ClientCredential, ServerCredential, read_body
from nearcast.trust.signed import Kind
from nearcast.wire.codec import Refused, decode, decode_for_client, encode
from nearcast.wire.framing import read_header
from nearcast.wire.messages import Message
from nearcast.wire.publication import Origin, Publication, decode_record

__all__ = ["READERS", "BadInputReport", "feed", "run_bad_input"]

_SLOW_S = 0.5
_SAMPLES = 200


@dataclass(slots=True)
class BadInputReport:
    """What became of bad inputs."""

    inputs: Counter[str] = field(default_factory=Counter)
    """By reader."""
    refused: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Something that reads bytes of others."""

    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    """What it may raise."""
    samples: Callable[[Random], Iterable[bytes]]
    share: float
    """Of all inputs."""


def run_bad_input(count: int, seed: int, begin: Callable[[str], object] = str) -> BadInputReport:
    """Give each reader its share of bad inputs; the same seed gives the same ones."""
    report = BadInputReport()
    for name, reader in READERS.items():
        begin(name)
        feed(name, round(count * reader.share), seed, report)
    return report


def feed(name: str, count: int, seed: int, report: BadInputReport) -> None:
    """Give a reader bad inputs."""
    reader, refused = READERS[name], 0
    read, refusals = reader.read, reader.refusals
    samples = list(reader.samples(Random(seed)))
    for data in bad_bytes(samples, count, seed):
        began_s = time.thread_time()
        try:
            read(data)
        except refusals:
            refused += 1
        except Exception as error:
            report.violations.append(f"{name}: {error!r} at {data[:80].hex()}, seed {seed}")
        if time.thread_time() - began_s > _SLOW_S and (took_s := _again(reader, data)) > _SLOW_S:
            report.violations.append(f"{name}: {took_s:.2f} s for {data[:80].hex()}")
    report.inputs[name] = count
    report.refused[name] = refused


def _again(reader: _Reader, data: bytes) -> float:
    """Return how long bad input takes once more: it is not its fault if garbage was collected."""
    gc.collect()
    began_s = time.thread_time()
    with suppress(Exception):
        reader.read(data)
    return time.thread_time() - began_s


def _encoded(
    kinds: Sequence[object], encode_one: Callable[[typing.Any], bytes], rng: Random
) -> Iterable[bytes]:
    """Return encoded messages of all kinds; values that cannot be encoded are drawn again."""
    for number in range(_SAMPLES * 2):
        try:
            yield encode_one(random_value(kinds[number % len(kinds)], rng))
        except (WireError, OverflowError, TypeError, ValueError, msgspec.MsgspecError):
            continue


def _wire_samples(rng: Random) -> Iterable[bytes]:
    return _encoded(typing.get_args(Message), encode, rng)


def _mesh_samples(rng: Random) -> Iterable[bytes]:
    return _encoded(typing.get_args(MeshMessage), encode_mesh, rng)


def _frame_samples(rng: Random) -> Iterable[bytes]:
    messages = list(_mesh_samples(rng))
    for _ in range(_SAMPLES):
        yield encode_frame(PeerFrame(rng.randrange(9), False, 1, 1, rng.sample(messages, 3), 1, 0))


def _orders_samples(rng: Random) -> Iterable[bytes]:
    return _encoded([Orders], msgspec.msgpack.encode, rng)


def _credential_samples(rng: Random) -> Iterable[bytes]:
    authority = SmallAuthority()
    for number in range(_SAMPLES):
        yield authority.client(f"c{number}", rng.randbytes(32))
        server = random_value(ServerCredential, rng)
        yield authority.key.sign(Kind.SERVER, msgspec.msgpack.encode(server))


def _record_samples(rng: Random) -> Iterable[bytes]:
    for number in range(_SAMPLES):
        payload = rng.randbytes(rng.randrange(200))
        yield Publication(
            "t", f"p{number}", 1, number, 0, 0, 0.0, 0.0, payload, Origin.DIRECT
        ).record()


def _entry_samples(rng: Random) -> Iterable[bytes]:
    for record in _record_samples(rng):
        publication = decode_record("t", record)
        publication.notices = encode_notices([Notice(0, b"told", ("a", "b"))])
        yield encode_entry(publication)


def _segment_samples(rng: Random) -> Iterable[bytes]:
    """Return segments of a spool, each with a snapshot and some rounds."""
    records = list(_record_samples(rng))
    for seed in range(4):
        disk = FakeDisk(seed)
        log = SpoolLog.open(disk, SpoolSettings(segment_bytes=1 << 11))
        for ticket in range(6):
            change = TopicChange("t", (rng.choice(records),), 9, (Position("p", 1, ticket + 1),))
            log.append(Group(ticket, (change,)))
            log.commit()
        name = max(one for one in disk.names() if one.startswith("segment-"))
        yield name.encode() + b"\0" + disk.read(name)


def _read_segment(data: bytes) -> None:
    """Open a spool whose newest segment has these bytes; behind the first zero byte."""
    name, _, content = data.partition(b"\0")
    disk = FakeDisk(0)
    text = name.decode("latin-1")
    disk.create(text, 0)
    disk.write(text, 0, content)
    SpoolLog.open(disk, SpoolSettings(segment_bytes=1 << 11))


def _http_samples(_rng: Random) -> Iterable[bytes]:
    yield b"GET /status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token\r\n\r\n"
    yield b"POST /plans HTTP/1.1\r\nContent-Length: 12\r\nContent-Type: text/plain\r\n\r\nabc"


def _read_credential(data: bytes) -> None:
    body = _TRUST.open(Kind.CLIENT, data)
    read_body(body, ClientCredential)
    _TRUST.client(data, bytes(32), 0.0)


_TRUST = SmallAuthority().trust()

READERS: dict[str, _Reader] = {
    "datagram header": _Reader(read_header, (Refused,), _wire_samples, 0.1),
    "frames at the server": _Reader(decode, (Refused,), _wire_samples, 0.21),
    "frames at the client": _Reader(decode_for_client, (Refused,), _wire_samples, 0.2),
    "frames between servers": _Reader(decode_frame, (NearcastError,), _frame_samples, 0.1),
    "messages between servers": _Reader(
        lambda data: decode_mesh(data), (WireError,), _mesh_samples, 0.14
    ),
    "orders": _Reader(
        lambda data: read_body(data, Orders), (NearcastError,), _orders_samples, 0.05
    ),
    "credentials": _Reader(_read_credential, (NearcastError,), _credential_samples, 0.05),
    "records": _Reader(lambda data: decode_record("t", data), (ValueError,), _record_samples, 0.05),
    "spool entries": _Reader(
        lambda data: decode_entry("t", data), (ValueError, NearcastError), _entry_samples, 0.05
    ),
    "HTTP requests": _Reader(
        lambda data: parse_head(bytearray(data), 1 << 20), (RequestError,), _http_samples, 0.045
    ),
    "spool segments": _Reader(_read_segment, (NearcastError,), _segment_samples, 0.005),
}
"""All that reads what others wrote, by name."""
